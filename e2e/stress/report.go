package stress

import (
	"fmt"
	"strings"
	"time"
)

// highest is the best throughput at any load.
func highest(steps []Step) float64 {
	best := 0.0
	for _, s := range steps {
		best = max(best, s.Written)
	}
	return best
}

// verdict says in words whether the key is too coarse, and why, from what was
// measured.
func verdict(r *Report, result *Result) string {
	top := result.Steps[len(result.Steps)-1]
	best := highest(result.Steps)
	broken := ""
	if top.Broken > 0.005 {
		broken = fmt.Sprintf(", %.0f %% broken off while ranges moved", 100*top.Broken)
	}
	numbers := fmt.Sprintf("%.0f of %.0f entities/s written at the highest load, %.0f %% refused%s", top.Written, top.Offered, 100*top.Busy, broken)
	spread, refused := result.key.spread, top.Busy > 0.2
	switch {
	case spread == onePartition && refused:
		return fmt.Sprintf("Too coarse: whatever is written at one moment has one PartitionKey, which cannot be split, and never passed %.0f (%s).", best, numbers)
	case spread == oneRange && refused:
		return fmt.Sprintf("Too ordered: every PartitionKey is new, but all are written at the end of the last range, so one server has all the load; %d splits left cold ranges behind (%s).", result.Splits, numbers)
	case refused:
		return fmt.Sprintf("Spread, but this load is too much, too: more suffixes, or more time to split (%s).", numbers)
	case best <= r.Line2000:
		return fmt.Sprintf("Not decided: the load never passed the line (%s).", numbers)
	}
	text := fmt.Sprintf("Fine: passes the line of one partition %.1f times (%s)", best/r.Line2000, numbers)
	if result.Splits > 0 {
		text += fmt.Sprintf(" after %d splits", result.Splits)
	}
	switch cost := result.ReadCost; {
	case cost > 1.5:
		text += fmt.Sprintf(". A reader who knows the id needs %.1f requests, %d at worst: the suffix cannot be computed", cost, Suffixes)
	case cost > 0:
		text += ". A reader who knows the id needs one request"
	}
	if result.key.Row == "T4" {
		text += "; a list in order of time is a scan"
	}
	return text + "."
}

// Markdown is the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	line("# Partition stress, %s\n", r.Started.Format("2 January 2006"))
	if r.Modelled {
		line("**Modelled**: budgets, splits, moves and refusals: %s.", r.Model)
		line("**Measured**: what Azurite and the SDK do on this machine; the columns “Azurite alone” are the same load without the model.")
		line("Lines: 500 entities/s (the paper) = %.4g here, 2,000 entities/s (today) = %.4g here.\n", r.Line500, r.Line2000)
	} else {
		line("**Measured**, all of it, against an account of Azure's. Lines: 500 entities/s (the paper), 2,000 entities/s (today).\n")
	}
	line("Each load is held for %v; a table holds %d rows before; clients write one row each and repeat nothing.\n", r.StepTime, r.TableRows)
	line("| key | example | offered/s | written/s | busy (503) | broken | p50 | p99 | Azurite alone: written/s | p50 | p99 |")
	line("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, result := range r.Results {
		for i, s := range result.Steps {
			name, example := "", ""
			if i == 0 {
				name, example = result.Key+" ("+result.Row+")", "`"+result.Example+"`"
			}
			bare := "– | – | –"
			if i < len(result.Bare) {
				alone := result.Bare[i]
				bare = fmt.Sprintf("%.0f | %s | %s", alone.Written, ms(alone.P50), ms(alone.P99))
			}
			line("| %s | %s | %.0f | %.0f | %.0f %% | %.0f %% | %s | %s | %s |", name, example, s.Offered, s.Written, 100*s.Busy, 100*s.Broken, ms(s.P50), ms(s.P99), bare)
		}
	}
	line("")
	for _, result := range r.Results {
		line("- **%s** (`%s`, %s). %s", result.Key, result.Example, result.Row, result.Verdict)
		for _, s := range result.Steps {
			if s.FirstFail != "" {
				line("  An answer that was not expected: %s", s.FirstFail)
				break
			}
		}
	}
	return b.String()
}

// Text is the report for a terminal.
func (r *Report) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	line("")
	line("%-21s %9s %9s %6s %7s %8s %8s   %s", "key", "offered/s", "written/s", "busy", "broken", "p50", "p99", "Azurite alone: written/s, p99; lines passed, scaled")
	for _, result := range r.Results {
		for i, s := range result.Steps {
			name := ""
			if i == 0 {
				name = result.Key
			}
			bare := ""
			if i < len(result.Bare) {
				bare = fmt.Sprintf("%9.0f %8s", result.Bare[i].Written, ms(result.Bare[i].P99))
			}
			mark := ""
			if r.Line500*1.05 < s.Written && s.Written <= r.Line2000*1.05 {
				mark = "  over 500"
			} else if s.Written > r.Line2000*1.05 {
				mark = "  over 2,000"
			}
			line("%-21s %9.0f %9.0f %5.0f%% %6.0f%% %8s %8s   %s%s", name, s.Offered, s.Written, 100*s.Busy, 100*s.Broken, ms(s.P50), ms(s.P99), bare, mark)
		}
	}
	line("")
	for _, result := range r.Results {
		line("%s (%s, %s): %s", result.Key, result.Example, result.Row, result.Verdict)
	}
	line("")
	if r.Modelled {
		line("MODELLED: budgets, splits, moves, refusals: %s.", r.Model)
		line("          500 entities/s on Azure are %.4g here, 2,000 are %.4g.", r.Line500, r.Line2000)
		line("MEASURED: latency and what Azurite and the SDK can do; on the right without the model.")
	} else {
		line("MEASURED, all of it: an account of Azure's.")
	}
	return b.String()
}

func ms(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
}
