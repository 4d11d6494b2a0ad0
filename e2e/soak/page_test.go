package soak

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/report"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// Report is what a soak came to.
type Report struct {
	Options  Options
	Started  time.Time
	Loaded   time.Duration // from the start until all users had finished
	Settled  time.Duration // from then until all was at rest
	Findings []string      // what is wrong; empty is what one wants

	Events, Faults, Answers map[string]int
	Videos                  int
	Uploads                 int // acknowledged
	States                  map[string]int
	CameBack                int // ids
	Plays, Searches         int
	Recoveries              []time.Duration
	Forgone                 int
	Steps, Again            map[string]int
	Settlements             int // messages of steps that were done with
	Outcomes                map[string]int
	Charged                 map[string]int // attempts that counted as failures, by step and reason
	Peak                    map[string]int64
	First, Last             map[string]int64
	Poison                  int
	Stale                   int // step rows of stopped videos that still say "running"
	Early                   int // steps that were done while their upload went on
	Looks                   int
	Logs                    map[string]string // of the roles, when something is wrong
}

func (r *Report) add(what string, list []string) {
	const most = 25
	for i, text := range inTurns(list) {
		if i == most {
			r.Findings = append(r.Findings, fmt.Sprintf("%s: and %d more", what, len(list)-most))
			return
		}
		r.Findings = append(r.Findings, what+": "+text)
	}
}

// inTurns orders texts so that each kind, told by its first word, has its turn: many of one
// kind must not push another off the page.
func inTurns(list []string) []string {
	had, turn := map[string]int{}, map[string]int{}
	for _, text := range list {
		kind, _, _ := strings.Cut(text, " ")
		turn[text] = had[kind]
		had[kind]++
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b string) int { return turn[a] - turn[b] })
	return list
}

func (r *Report) measure(ctx context.Context, c *checker, w *watcher, m *meter, u *users, t *chaos, p *inject.Proxy, on *roles) {
	for _, name := range on.workers {
		r.charge(on.Logs(name))
	}
	r.Events, r.Faults, r.Answers = t.counts, p.Happened(), u.answers
	r.States = map[string]int{}
	truths, _ := c.storage.truths(ctx)
	for _, h := range u.histories {
		r.Videos++
		if h.uploaded || h.deleted {
			r.Uploads++
		}
		if h.cameBack {
			r.CameBack++
			r.Findings = append(r.Findings, "id "+string(h.id)+" came back after its delete")
		}
		state := "gone"
		if t := truths[h.id]; t != nil {
			state = t.doc.State
		}
		r.States[state]++
	}
	r.Plays, r.Searches = u.plays, u.searches
	r.Recoveries, r.Forgone, r.Looks, r.Early = w.recoveries, w.forgone+len(w.waiting), w.looks, len(w.beforeEnd)
	slices.Sort(r.Recoveries)
	r.Steps, r.Again = w.redone()
	r.Settlements = m.total("completed", ofSteps)
	r.Stale = c.stale
	r.Outcomes = map[string]int{}
	for _, outcome := range []string{"received", "completed", "failed", "released", "snoozed", "stale_delete", "stale_renewal", "receipt_lost", "stalled"} {
		r.Outcomes[outcome] = m.total(outcome, allQueues)
	}
	if rows, err := c.storage.rows(ctx, "poison"); err == nil {
		r.Poison = len(rows)
	}
	r.Peak, r.First, r.Last = m.peak, map[string]int64{}, map[string]int64{}
	for name := range m.peak {
		r.First[name], r.Last[name] = m.quarters(name, r.Options.Duration)
		if first, last := r.First[name], r.Last[name]; grows(r.Options.Duration, first, last) {
			r.add("memory", []string{fmt.Sprintf("%s grows: mean %d MiB in the first quarter, %d MiB in the last", name, first>>20, last>>20)})
		}
	}
}

// Page is the report for people.
func (r *Report) Page() string {
	s := report.Section{Rows: [][]string{{"", ""}}}
	line := func(name, format string, args ...any) {
		s.Rows = append(s.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	line("load and faults", "%v, with leases of %v; %v until the last user had finished, at rest %v after that", r.Options.Duration, r.Options.Visibility, r.Loaded.Round(time.Second), r.Settled.Round(time.Second))
	line("roles", "%d web roles, %d workers", webs, workers)
	kills := 0
	for _, k := range []kind{killWorker, killWeb, killFFmpeg, lateCommit} {
		kills += r.Events[string(k)]
	}
	line("kills", "%d", kills)
	line("processes", "%s", counts(r.Events))
	line("requests of the roles that met a fault", "%s", counts(r.Faults))
	line("videos", "%d, of which %d uploads were acknowledged", r.Videos, r.Uploads)
	line("in the end", "%s", counts(r.States))
	line("answers to users", "%s; %d searches, %d first segments played", counts(r.Answers), r.Searches, r.Plays)
	line("from a kill to the commit of a step that the worker was at", "%s; %d such steps were not wanted or not done any more", quantiles(r.Recoveries), r.Forgone)
	line("steps that were done while their upload went on", "%d", r.Early)
	line("steps, and attempts beyond the first", "%s; again: %s", counts(r.Steps), counts(r.Again))
	total := 0
	for _, n := range r.Steps {
		total += n
	}
	line("deliveries with nothing left to do", "%d at least: %d messages of steps were done with, for %d steps (a killed worker takes its latest counts with it)",
		max(0, r.Settlements-total), r.Settlements, total)
	line("stale receipts", "%d deletes and %d renewals were refused, %d receipts lost their answer", r.Outcomes["stale_delete"], r.Outcomes["stale_renewal"], r.Outcomes["receipt_lost"])
	line("messages", "%s; attempts that counted as failures: %s", counts(r.Outcomes), counts(r.Charged))
	line("poison", "%d", r.Poison)
	line("steps of cancelled or failed videos that still say running", "%d", r.Stale)
	line("ids that a deleted video left and a new one got", "%d", r.CameBack)
	for _, name := range slices.Sorted(maps.Keys(r.Peak)) {
		line("memory of "+name, "peak %d MiB; mean %d MiB in the first quarter, %d MiB in the last: %s (over all its lives, without encoders)",
			r.Peak[name]>>20, r.First[name]>>20, r.Last[name]>>20, r.trend(name))
	}
	line("looks at all rows from outside", "%d", r.Looks)
	head, end := "Nothing is wrong.\n\n", ""
	if n := len(r.Findings); n > 0 {
		head = fmt.Sprintf("**%d findings**, listed below. Again: `make soak SOAKTIME=%v SEED=%d`\n\n", n, r.Options.Duration, r.Options.Seed)
		end = "## Findings\n\n- " + strings.Join(r.Findings, "\n- ") + "\n"
	}
	return fmt.Sprintf("# Soak, seed %d\n\n", r.Options.Seed) + head + s.Markdown() + end
}

// trend says in words what became of a role's memory.
func (r *Report) trend(name string) string {
	switch first, last := r.First[name], r.Last[name]; {
	case first == 0 || last == 0:
		return "too few samples"
	case r.Options.Duration < warm:
		return "the run is too short to tell"
	case grows(r.Options.Duration, first, last):
		return "grows"
	}
	return "flat"
}

// failed finds what a worker logs about an attempt that counts as a failure, and changing
// what differs from one to the next: ids, addresses, numbers.
var (
	failed   = regexp.MustCompile(`msg="attempt failed" .*?step=(\S+) .*error=("(?:[^"\\]|\\.)*"|\S+)`)
	changing = regexp.MustCompile(`https?://\S+|\b[a-z2-7]{26}\b|[0-9a-f-]{36}|\d+`)
)

// charge adds the failed attempts in a worker's log, by step and reason.
func (r *Report) charge(log string) {
	if r.Charged == nil {
		r.Charged = map[string]int{}
	}
	for _, match := range failed.FindAllStringSubmatch(log, -1) {
		reason := match[2]
		if text, err := strconv.Unquote(reason); err == nil {
			reason = text
		}
		reason, _, _ = strings.Cut(changing.ReplaceAllString(reason, "…"), "\n")
		r.Charged[match[1]+": "+strings.ReplaceAll(reason, "|", "/")]++
	}
}

func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func quantiles(d []time.Duration) string {
	if len(d) == 0 {
		return "no kill hit a step"
	}
	at := func(q float64) time.Duration {
		return d[min(len(d)-1, int(q*float64(len(d))))].Round(100 * time.Millisecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, %d steps", at(0.5), at(0.99), len(d))
}
