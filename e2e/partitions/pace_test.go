package partitions

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// pace is a client-side rate that learns: a little more after each success, 30 % less after a
// refusal. It is not built into azstore; docs/patterns/retries-and-unknown-outcomes.md says why.
type pace struct {
	*http.Client
	mu        sync.Mutex
	perSecond float64 // 0: no limit
	next, cut time.Time
}

// Do stands where azstore.Config.Transport puts it: around every try.
func (p *pace) Do(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	if p.perSecond > 0 {
		p.next = p.next.Add(time.Duration(float64(time.Second) / p.perSecond))
		if now := time.Now(); p.next.Before(now) {
			p.next = now
		}
	}
	wait := time.Until(p.next)
	p.mu.Unlock()
	if err := azstore.Sleep(r.Context(), wait); err != nil {
		return nil, err
	}
	resp, err := p.Client.Do(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch busy := err != nil || resp.StatusCode == http.StatusServiceUnavailable; {
	case p.perSecond == 0:
	case !busy:
		p.perSecond += 10 / p.perSecond
	case time.Since(p.cut) > 500*time.Millisecond: // once for all that were under way
		p.perSecond, p.cut = max(1, 0.7*p.perSecond), time.Now()
	}
	return resp, err
}

// pressure is what callers of one partition came to.
type pressure struct {
	Count
	elsewhere time.Duration // median of a call to another partition, through the same client
}

const presses = 8 * time.Second

// press lets callers write to one partition as fast as they can. It takes 40 rows a second.
func press(t *testing.T, callers int, retry azstore.Retry, perSecond float64) (got pressure) {
	t.Helper()
	client := &pace{Client: http.DefaultClient, perSecond: perSecond}
	p, rows, _ := throughWith(t, Config{Scale: TargetPartition / 40, AccountBudget: -1}, retry, client)
	ctx, stop := context.WithTimeout(t.Context(), presses)
	defer stop()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, _ = rows.Upsert(ctx, row("hot", fmt.Sprint(c, "-", n)))
			}
		})
	}
	var times []time.Duration
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		_, _ = rows.Upsert(ctx, row("cold", fmt.Sprint(n)))
		times = append(times, time.Since(began))
		_ = azstore.Sleep(ctx, 200*time.Millisecond)
	}
	all.Wait()
	slices.Sort(times)
	for _, count := range p.Stats().Partitions {
		if count.PartitionKey == "hot" {
			got = pressure{count, times[len(times)/2].Round(time.Millisecond)}
		}
	}
	return got
}

// Q13, T10: growing pauses send a busy partition fewer requests, and it gives all that it can
// (without pauses, once, 64 callers are refused over 7,000 times). Fewer callers send fewer
// still. A rate that the whole client learns holds up calls to partitions that are not busy.
func TestCallersOfABusyPartitionSendLess(t *testing.T) {
	t.Parallel()
	var patient, few, learned pressure
	var all sync.WaitGroup
	all.Go(func() { patient = press(t, 64, azstore.DefaultRetry, 0) })
	all.Go(func() { few = press(t, 4, azstore.DefaultRetry, 0) })
	all.Go(func() { learned = press(t, 64, azstore.DefaultRetry, 80) })
	all.Wait()
	t.Logf("pauses %+v\nfour callers %+v\nlearned rate %+v", patient, few, learned)
	budget := 40 * int(presses/time.Second)
	if patient.Requests < budget/3 || few.Requests < budget/3 || patient.Refused > 4*budget || few.Refused > patient.Refused/2 {
		t.Errorf("of %d rows: with pauses %+v, four callers %+v", budget, patient, few)
	}
	if learned.elsewhere < patient.elsewhere+300*time.Millisecond {
		t.Errorf("a learned rate holds up no others: %v, with pauses alone %v", learned.elsewhere, patient.elsewhere)
	}
}
