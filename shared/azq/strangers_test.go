package azq_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// What errors, subjects and messages hold is a stranger's choice. Whatever it is, an item
// that fails becomes poison within its attempts, with a reason (H2, H3, H7).
func TestEveryFailureCanBeRecorded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 20_000)
	for name, c := range map[string]struct {
		err     error
		subject string
		plain   int // bytes of data in a message that is sent as JSON; 0 sends it as we do
	}{
		"Latin-1":            {errors.New("caf\xe9 ferm\xe9"), "subject", 0},
		"control characters": {errors.New("a\x00b\x1b[31m\uFFFE"), "subject", 0},
		"a long error":       {errors.New(long), "subject", 0},
		"emoji":              {errors.New(strings.Repeat("🎬", 30_000)), "subject", 0},
		"a long subject":     {errors.New("no"), strings.Repeat("s", 33_000), 0},
		"permanent and long": {azq.Permanent(errors.New(long + "\xff")), "subject", 0},
		"JSON of 50 KB":      {errors.New("caf\xe9"), "subject", 50_000},
		"JSON of 65 KB":      {errors.New("no"), "subject", 65_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := azuritetest.Account(t)
			spec := oneQueue(time.Minute) // a lease that ends would be one more attempt
			spec.MaxFailures = 2
			qs := azqtest.Open(t, a, spec)
			h := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error { return c.err }}
			item := newItem(t, "item")
			item.Subject = c.subject
			if c.plain == 0 {
				azqtest.Send(t, qs, jobs, item)
			} else {
				sendPlain(t, a, item, c.plain)
			}
			run(t, qs, &h, func(o *azq.Options) { o.FirstRetry, o.MaxRetry = 10*time.Millisecond, 10*time.Millisecond })
			aside := azqtest.WaitPoison(t, qs, 1)
			if aside[0].Reason == "" || len(h.IDs()) > 2 {
				t.Errorf("poison after %d attempts because %q", len(h.IDs()), aside[0].Reason)
			}
			azqtest.WaitEmpty(t, qs.Queue(jobs))
			if _, err := qs.Redrive(t.Context(), aside[0].ID); err != nil {
				t.Errorf("redrive: %v", err)
			}
		})
	}
}

// sendPlain sends an item as a producer does that knows nothing of base64.
func sendPlain(t *testing.T, a *azstore.Account, item azq.Item, size int) {
	t.Helper()
	item.Data = fmt.Appendf(nil, `{"fill":%q}`, strings.Repeat("x", size))
	text, err := item.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Queue(jobs).EnqueueMessage(t.Context(), string(text), &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(-1))}); err != nil {
		t.Fatal(err)
	}
}

// Snoozes of a message that came as JSON cost it nothing, however large it is (H7).
func TestPlainMessagesKeepTheirCounters(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs := azqtest.Open(t, a, oneQueue(2*time.Second))
	var attempts atomic.Int32
	h := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error {
		if attempts.Add(1) < 5 {
			return azq.Snooze(time.Second/2, "not yet")
		}
		return nil
	}}
	sendPlain(t, a, newItem(t, "item"), 50_000)
	w, _ := run(t, qs, &h, func(o *azq.Options) { o.MaxUnexplained = 2 })
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	if s := azqtest.Counts(w.Stats(), jobs); s.Completed != 1 || s.CrashLoops != 0 {
		t.Errorf("counters are %+v", s)
	}
}

// Texts that other programs send: with a byte order mark, in the base64 of addresses, without
// its padding (H14).
func TestTextsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	const mark = "\uFEFF"
	item := newItem(t, "item")
	item.Data = []byte(`{"name":"ÿþ???>>>"}`)
	text, err := item.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, sent := range map[string]string{
		"JSON":                       string(text),
		"a mark before JSON":         mark + string(text),
		"a mark inside base64":       base64.StdEncoding.EncodeToString(append([]byte(mark), text...)),
		"base64 of addresses":        base64.URLEncoding.EncodeToString(text),
		"base64 without padding":     base64.RawStdEncoding.EncodeToString(text),
		"base64 in lines, and space": " " + base64.StdEncoding.EncodeToString(text[:30]) + "\r\n" + base64.StdEncoding.EncodeToString(text[30:]) + "\n",
	} {
		if got, err := azq.DecodeItem(sent); err != nil || got.ID != "item" || string(got.Data) != string(item.Data) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// clumsy fails each item, and its Exhausted panics a few times.
type clumsy struct {
	azqtest.Recorder
	panics atomic.Int32
}

func (e *clumsy) Exhausted(context.Context, *azq.RawJob, error) error {
	if e.panics.Add(1) < 3 {
		panic("a mistake in a hook")
	}
	return nil
}

// A panic outside of a handler ends no worker (H6): the item is put back, and tried again.
func TestPanicsOfHooksAreFailures(t *testing.T) {
	t.Parallel()
	spec := oneQueue(2 * time.Second)
	spec.MaxFailures = 1
	qs := azqtest.Open(t, azuritetest.Account(t), spec)
	h := &clumsy{Recorder: azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error { return errors.New("no") }}}
	send(t, qs, jobs, "item")
	w, _ := run(t, qs, h, func(o *azq.Options) { o.FirstRetry, o.MaxRetry = 10*time.Millisecond, 10*time.Millisecond })
	azqtest.WaitPoison(t, qs, 1)
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	if s := azqtest.Counts(w.Stats(), jobs); s.Panics < 2 {
		t.Errorf("%d panics were counted", s.Panics)
	}
}

// A queue whose policy cannot be read may be paused: nothing is received from it (H9).
func TestUnreadPolicyIsAPause(t *testing.T) {
	t.Parallel()
	good := azuritetest.Account(t)
	qs := azqtest.Open(t, good, oneQueue(2*time.Second))
	if err := qs.Queue(jobs).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	send(t, qs, jobs, ids("i", 5)...)
	var hidden, asked atomic.Bool
	hidden.Store(true)
	worker := azq.Open(azuritetest.FaultyAccount(t, good, func(r *http.Request) inject.Fault {
		if r.Method != http.MethodGet || r.URL.Query().Get("comp") != "metadata" || !hidden.Load() {
			return inject.None
		}
		asked.Store(true)
		return inject.ServerBusy
	}), azq.Options{Queues: qs.Specs()})
	var h azqtest.Recorder
	w, _ := run(t, worker, &h)
	azuritetest.Eventually(t, time.Minute, func() error {
		if !asked.Load() {
			return errors.New("its policy was not asked for")
		}
		return nil
	})
	hidden.Store(false)
	w.WaitCounts(t, jobs, func(azq.QueueStats) bool { return worker.Queue(jobs).Policy().Paused })
	if got := h.IDs(); len(got) > 0 {
		t.Errorf("%q were handled on a paused queue", got)
	}
	if err := qs.Queue(jobs).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	azqtest.WaitEmpty(t, qs.Queue(jobs))
}

// Of operators who redrive one item at once, one sends it (H16).
func TestRedriveAtOnceSendsOnce(t *testing.T) {
	t.Parallel()
	spec := oneQueue(2 * time.Second)
	qs := azqtest.Open(t, azuritetest.Account(t), spec)
	h := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error { return azq.Permanent(errors.New("no")) }}
	send(t, qs, jobs, "item")
	_, drain := run(t, qs, &h)
	aside := azqtest.WaitPoison(t, qs, 1)
	azqtest.WaitEmpty(t, qs.Queue(jobs))
	drain()
	var redriving sync.WaitGroup
	var sent atomic.Int32
	for range 5 {
		redriving.Go(func() {
			switch _, err := qs.Redrive(t.Context(), aside[0].ID); {
			case err == nil:
				sent.Add(1)
			case !errors.Is(err, azq.ErrRedriving) && !errors.Is(err, azq.ErrNoPoison):
				t.Error(err)
			}
		})
	}
	redriving.Wait()
	if state, err := qs.Queue(jobs).Length(t.Context()); err != nil || state.Length != 1 || sent.Load() != 1 {
		t.Errorf("%d said that they sent it, the queue holds %d, %v", sent.Load(), state.Length, err)
	}
	for _, id := range []string{"jobs~%", "jobs~a+b", `jobs~"`, "jobs~🎬", "jobs~\x00", "jobs~'", "jobs", "~", ""} {
		if _, err := qs.Redrive(t.Context(), id); !errors.Is(err, azq.ErrNoPoison) {
			t.Errorf("redrive of %q: %v, want ErrNoPoison", id, err)
		}
	}
}

// What was made at the start is made again when it is missing (H13).
func TestWhatIsMissingIsMadeAgain(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	qs := azqtest.Open(t, a, oneQueue(2*time.Second))
	if _, err := a.Table(azq.PoisonTable).Delete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Container(azq.ClaimsContainer).Delete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	h := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error { return azq.Permanent(errors.New("no")) }}
	large := newItem(t, "large")
	large.Data = fmt.Appendf(nil, "%q", strings.Repeat("x", 60_000))
	azqtest.Send(t, qs, jobs, large)
	run(t, qs, &h)
	azqtest.WaitPoison(t, qs, 1)
}
