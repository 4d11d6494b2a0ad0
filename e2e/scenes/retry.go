package scenes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstorage"
)

// retries lets clients with the paper's three strategies meet a service that is busy
// for a while (T10), and shows the curve and the herd (T11).
func retries(ctx context.Context, s *Stage) error {
	const away = 1500 * time.Millisecond
	account := s.Account("stage")
	if err := account.Ensure(Quiet(ctx), nil, nil, []string{"films"}); err != nil {
		return err
	}
	strategies := []struct {
		name  string
		retry azstorage.Retry
	}{
		{"none", azstorage.Retry{Strategy: azstorage.NoRetry}},
		{"fixed", azstorage.Retry{Strategy: azstorage.Fixed, MaxRetries: 20, Delay: 100 * time.Millisecond}},
		{"exponential", azstorage.Retry{Strategy: azstorage.Exponential, MaxRetries: 8, Delay: 100 * time.Millisecond, MinDelay: 50 * time.Millisecond, MaxDelay: 2 * time.Second}},
	}
	tries := map[string]int{}
	for _, strategy := range strategies {
		s.Say("The service is busy for %v, as while a partition moves to another server. A client with the strategy %q inserts a row.", away, strategy.name)
		began := time.Now()
		client := s.Account(strategy.name, retrying(strategy.retry), onTheWay(func(*http.Request) outcome {
			if time.Since(began) < away {
				return busy
			}
			return through
		}))
		_, err := client.Table("films").AddEntity(ctx, []byte(`{"PartitionKey":"film","RowKey":"`+strategy.name+`"}`), nil)
		tries[strategy.name] = s.Told(func(e Event) bool { return e.From == strategy.name })
		if strategy.retry.Strategy == azstorage.NoRetry {
			s.Claim(azstorage.IsUnavailable(err), "it gives up at once: 503 ServerBusy, and the user sees an error")
			continue
		}
		s.Claim(err == nil, "it rode that out, with %d requests in %.1f s", tries[strategy.name], time.Since(began).Seconds())
	}
	s.Claim(tries["exponential"] < tries["fixed"], "the growing pauses cost %d requests instead of %d: a busy service is left alone", tries["exponential"], tries["fixed"])

	s.Say("What a repetition cannot change is not repeated: a row that exists already.")
	client := s.Account("client", retrying(quickRetry))
	_, err := client.Table("films").AddEntity(ctx, []byte(`{"PartitionKey":"film","RowKey":"fixed"}`), nil)
	s.Claim(azstorage.IsConflict(err) && s.Told(func(e Event) bool { return e.From == "client" && strings.HasPrefix(e.Reply, "409") }) == 1, "409, and no second request")
	curve(s)
	return nil
}

// curve tells the paper's formula and what its random spread is for.
func curve(s *Stage) {
	paper := azstorage.PaperRetry
	var pauses []string
	for x := 1; x <= paper.MaxRetries; x++ {
		least, most := paper.Pause(x, 0), paper.Pause(x, 1)
		if least == most {
			pauses = append(pauses, fmt.Sprintf("%.0f s", least.Seconds()))
			continue
		}
		pauses = append(pauses, fmt.Sprintf("%.0f to %.0f s", least.Seconds(), most.Seconds()))
	}
	s.Say("The curve. The paper's formula is pause = min(zmin + rand(0.8·z, 1.2·z)·(2^x − 1), zmax). With its numbers, z = 45 s, zmin = 3 s and zmax = 90 s: %s.", strings.Join(pauses, ", "))
	s.Claim(paper.Pause(1, 0) == 39*time.Second && paper.Pause(5, 0.5) == 90*time.Second, "the first pause is 39 s at least, and the last is the bound, 90 s")

	s.Say("The herd. 200 clients are refused at the same moment and try again. How many come in the busiest 20 ms of the second wave?")
	herd := func(r azstorage.Retry) int {
		at := map[int]int{}
		most := 0
		for range 200 {
			slot := int(r.Pause(2, rand.Float64()) / (20 * time.Millisecond))
			at[slot]++
			most = max(most, at[slot])
		}
		return most
	}
	fixed := herd(azstorage.Retry{Strategy: azstorage.Fixed, Delay: 500 * time.Millisecond})
	spread := herd(azstorage.Retry{Strategy: azstorage.Exponential, Delay: 500 * time.Millisecond, MaxDelay: time.Minute})
	s.Claim(fixed == 200 && spread < fixed/3, "with fixed pauses all %d, with the random spread %d", fixed, spread)
	s.Means("Clients that were refused together come back together, and are refused together. The spread takes them apart. That is why the paper's formula has a random factor, and why fixed pauses suit a single client only.")
}
