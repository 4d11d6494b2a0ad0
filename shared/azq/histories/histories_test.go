package histories_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/azq"
)

// Every item that was sent and acknowledged ends as done or as poison with a reason. No
// attempt begins for a message that has ended, or beside another one of the same message.
// Poison has had its attempts. A paused queue is not received from. A policy does not go back.
// Times are those of one clock. Requests are bounded. One redrive of several sends the item.
//
// With one seed the histories are the same, but for what goroutines do at the same instant.
// More of them: go test ./shared/azq/histories -rapid.checks=20000.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, half := range []string{"one half", "the other"} { // of the processors
		t.Run(half, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				p := plans(rt)
				var w *world
				synctest.Test(t, func(t *testing.T) { w = play(t, p) })
				if len(w.wrong) > 0 {
					rt.Fatalf("WRONG: %s\n\n%s", strings.Join(w.wrong, "\nWRONG: "), strings.Join(w.log, "\n"))
				}
			})
		})
	}
}

// poisoned is a poison row by its message's id.
func (w *world) poisoned() map[string]map[string]any {
	found := map[string]map[string]any{}
	for _, e := range w.service.tables[azq.PoisonTable] {
		found[e.values["RowKey"].(string)] = e.values
	}
	return found
}

// judge compares how items have ended with what handlers did.
func (w *world) judge() {
	w.poison = len(w.poisoned())
	poison := map[string]bool{} // items
	for id, values := range w.poisoned() {
		text, _ := base64.StdEncoding.DecodeString(fmt.Sprint(values["Text"])) // as rows have bytes
		item, reason := itemOf(string(text)), fmt.Sprint(values["Reason"])
		poison[item] = true
		w.logf("poison: %s, %s", item, reason[:min(len(reason), 80)])
		i := w.plan.item(item)
		allowed := i.Shape == garbage || w.givenUp[id] || w.failed[id] >= maxFailures ||
			w.failed[id] > 0 && strings.Contains(reason, "no room") ||
			w.started[id] >= maxUnexplained-maxUnexplained/2 && strings.Contains(reason, "crash loop")
		if !allowed || reason == "" {
			w.wrongf("%s is poison after %d attempts of which %d failed, because %q", item, w.started[id], w.failed[id], reason)
		}
	}
	calm := len(w.plan.Storms) == 0
	for id, n := range w.failed {
		if calm && n > maxFailures {
			w.wrongf("%d attempts of message %s failed", n, id)
		}
	}
	for id, sent := range w.sent {
		if sent && w.done[id] == 0 && !poison[id] {
			w.wrongf("%s was sent, and is neither done nor poison", id)
		}
	}
}

// redrive lets several operators redrive one poison item at once.
func (w *world) redrive() {
	for id, values := range w.poisoned() {
		queue := fmt.Sprint(values["PartitionKey"])
		var operators sync.WaitGroup
		for range 3 {
			operators.Go(func() {
				queues := azq.Open(w.account(&line{}), azq.Options{Queues: specs()})
				_, err := queues.Redrive(context.Background(), queue+"~"+id)
				w.locked(func() { w.logf("redrive of %s: %v", id, err) })
			})
		}
		operators.Wait()
		if left := w.left(); left != 1 {
			w.wrongf("three redrives of one item at once sent %d", left)
		}
		return
	}
}
