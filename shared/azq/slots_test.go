package azq_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// A slot is for work: the next item is worked on while the message of the last is deleted.
// While deletes get no answer, no more than twice as many are fetched as there are slots.
func TestADeleteTakesNoSlot(t *testing.T) {
	t.Parallel()
	good := azuritetest.Account(t)
	answer := make(chan struct{})
	answers := sync.OnceFunc(func() { close(answer) })
	slow := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/messages/") {
			<-answer
		}
		return inject.None
	}}
	a := azuritetest.AccountWith(t, func(c *azstore.Config) { c.Prefix, c.Transport = good.Prefix(), slow })
	qs := azqtest.Open(t, a, oneQueue(time.Minute))
	send(t, qs, jobs, ids("i", 8)...)
	var h azqtest.Recorder
	w, _ := run(t, qs, &h, func(o *azq.Options) { o.Pools = map[string]int{light: 2} })
	t.Cleanup(answers) // before the drain, which waits for the deletes
	eventually(t, func() error {
		if n := len(h.IDs()); n != 4 {
			return fmt.Errorf("%d items are done, want 4", n)
		}
		return nil
	})
	time.Sleep(200 * time.Millisecond) // in which a further one would begin
	if seen, err := azq.OpenQueue(good, oneQueue(time.Minute)).Peek(context.Background(), 32); err != nil || len(seen) != 4 {
		t.Errorf("%d messages are visible, %v; want 4", len(seen), err)
	}
	answers()
	w.WaitCounts(t, jobs, func(s azq.QueueStats) bool { return s.Completed == 8 && s.Received == 8 })
}
