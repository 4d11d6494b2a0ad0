package azq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// note is work of which a test sees every part.
type note struct{ Text string }

func (note) Kind() string { return "note" }

// brisk has the pauses of azqtest and the queues of specs.
func brisk(t *testing.T, specs ...azq.Spec) azq.Options {
	o := azqtest.Options(azq.Open(azuritetest.Account(t), azq.Options{Queues: specs}), nil)
	o.Queues = specs
	return o
}

// A client without any option has one queue, which carries every kind, and makes it when it
// sends: nothing is declared.
func TestNothingDeclared(t *testing.T) {
	t.Parallel()
	client := azq.Open(azuritetest.Account(t), azq.Options{})
	got := make(chan *azq.Job[note], 1)
	azq.Handle(client, func(_ context.Context, job *azq.Job[note]) error { got <- job; return nil })
	id, err := client.Send(t.Context(), note{"hello"})
	if err != nil || id == "" {
		t.Fatalf("sent %q, %v", id, err)
	}
	azqtest.Run(t, client)
	if job := <-got; job.Data.Text != "hello" || job.Item.ID != id || job.Queue != "default" || job.Item.Type() != "azq.work.note.v1" {
		t.Errorf("delivered %+v", job.Item)
	}
}

// What options of a sending say is what arrives in the queue.
func TestSendOptions(t *testing.T) {
	t.Parallel()
	options := brisk(t, azq.Spec{Name: "slow", Kinds: []string{"note"}}, azq.Spec{Name: "fast", Kinds: []string{"note"}})
	options.Namespace = "shop"
	client := azq.Open(azuritetest.Account(t), options)
	if err := client.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, err := client.Send(t.Context(), note{"a"}, azq.ID("n-1"), azq.Subject("order 7"), azq.InQueue("fast"), azq.ExpiresAfter(time.Hour))
	if err != nil || id != "n-1" {
		t.Fatalf("sent %q, %v", id, err)
	}
	seen, err := client.Queue("fast").Peek(t.Context(), 2)
	if err != nil || len(seen) != 1 {
		t.Fatalf("%d messages, %v", len(seen), err)
	}
	if m := seen[0]; m.Item.ID != "n-1" || m.Item.Subject != "order 7" || m.Item.Type() != "shop.work.note.v1" || m.Expires.Sub(m.Inserted) != time.Hour {
		t.Errorf("in the queue is %+v", m)
	}
	if _, err := client.Send(t.Context(), note{"later"}, azq.After(time.Hour)); err != nil { // to the first that carries it
		t.Fatal(err)
	}
	state, err := client.Queue("slow").Length(t.Context())
	if seen, _ := client.Queue("slow").Peek(t.Context(), 1); err != nil || state.Length != 1 || len(seen) != 0 {
		t.Errorf("%d messages, %d of them visible, %v; want one hidden", state.Length, len(seen), err)
	}
	if _, err := client.Send(t.Context(), note{}, azq.InQueue("none")); err == nil || !strings.Contains(err.Error(), `there is no such queue: "none"`) {
		t.Errorf("to no queue: %v", err)
	}
	if _, err := client.Send(t.Context(), Letter{}); err == nil || !strings.Contains(err.Error(), `no queue carries kind "welcome"`) {
		t.Errorf("of a kind that no queue names: %v", err)
	}
}

// A queue that names no kinds gets what no other names, wherever it is in the list.
func TestKindGoesToTheQueueThatNamesIt(t *testing.T) {
	t.Parallel()
	client := azq.Open(azuritetest.Account(t), brisk(t, azq.Spec{Name: "rest"}, azq.Spec{Name: "notes", Kinds: []string{"note"}}))
	if err := client.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Send(t.Context(), note{"a"}); err != nil {
		t.Fatal(err)
	}
	if seen, err := client.Queue("notes").Peek(t.Context(), 1); err != nil || len(seen) != 1 {
		t.Errorf("%d messages where the kind is named, %v", len(seen), err)
	}
}

// Fair puts a customer who sends much into its own lanes: lane 0 stays short for others.
func TestFairKeepsLaneZeroShort(t *testing.T) {
	t.Parallel()
	options := brisk(t, azq.Spec{Name: "mail", Laned: true})
	options.Lanes = 3
	client := azq.Open(azuritetest.Account(t), options)
	if err := client.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	many := make([]note, 40)
	ids, err := azq.SendMany(t.Context(), client, many, func(note) []azq.SendOption { return []azq.SendOption{azq.Fair("noisy")} })
	if err != nil || len(ids) != 40 || slices.Contains(ids, "") {
		t.Fatalf("sent %v, %v", ids, err)
	}
	var lengths []int64
	for lane := range 3 {
		state, err := client.Queue(azq.LaneName("mail", lane)).Length(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lengths = append(lengths, state.Length)
	}
	if lengths[0] > 5 || lengths[0]+lengths[1]+lengths[2] != 40 {
		t.Errorf("the lanes hold %v of 40", lengths)
	}
	if client.Queue(azq.LaneName("mail", 3)) != nil {
		t.Error("there is a fourth lane of three")
	}
}

// One that cannot be sent has no id and says why; the others are sent.
func TestSendManyTellsWhichFailed(t *testing.T) {
	t.Parallel()
	client := azq.Open(azuritetest.Account(t), brisk(t, azq.Spec{Name: "mail"}))
	ids, err := azq.SendMany(t.Context(), client, []note{{"a"}, {"b"}, {"c"}}, func(n note) []azq.SendOption {
		if n.Text == "b" {
			return []azq.SendOption{azq.ID("b"), azq.InQueue("none")}
		}
		return []azq.SendOption{azq.ID(n.Text)}
	})
	if !slices.Equal(ids, []string{"a", "", "c"}) || err == nil || !strings.Contains(err.Error(), "send b") {
		t.Errorf("ids %q, %v", ids, err)
	}
}

// The first middleware is the outermost, of handlers and of sendings.
func TestMiddlewareGoesAround(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var calls []string
	say := func(line string) { mu.Lock(); calls = append(calls, line); mu.Unlock() }
	around := func(name string) func(azq.Handler) azq.Handler {
		return func(next azq.Handler) azq.Handler {
			return azq.HandlerFunc(func(ctx context.Context, job *azq.RawJob) error {
				say(name + " before")
				defer say(name + " after")
				return next.Handle(ctx, job)
			})
		}
	}
	sending := func(name string) func(azq.Sender) azq.Sender {
		return func(next azq.Sender) azq.Sender {
			return func(ctx context.Context, out azq.Outgoing) error {
				out.Item.Subject += name
				return next(ctx, out)
			}
		}
	}
	options := brisk(t, azq.Spec{Name: "mail", MaxFailures: 1})
	options.Middleware = []func(azq.Handler) azq.Handler{around("outer"), around("inner")}
	options.SendMiddleware = []func(azq.Sender) azq.Sender{sending("1"), sending("2")}
	client := azq.Open(azuritetest.Account(t), options)
	ended := make(chan struct{})
	azq.HandleWith(client, func(_ context.Context, job *azq.Job[note]) error {
		say("work on " + job.Item.Subject)
		return errors.New("no")
	}, func(_ context.Context, job *azq.Job[note], cause error) error {
		say(fmt.Sprint("exhausted ", job.Data.Text, ": ", cause))
		close(ended)
		return nil
	})
	if _, err := client.Send(t.Context(), note{"x"}); err != nil {
		t.Fatal(err)
	}
	azqtest.Run(t, client)
	<-ended
	want := []string{"outer before", "inner before", "work on 12", "inner after", "outer after", "exhausted x: no"}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(calls, want) {
		t.Errorf("called %q, want %q", calls, want)
	}
}

// A subscriber hears what becomes of an item; one that does not read delays nothing, and learns
// how much it missed.
func TestEvents(t *testing.T) {
	t.Parallel()
	options := brisk(t, azq.Spec{Name: "mail", MaxFailures: 2})
	options.Pools = map[string]int{"default": 1}
	client := azq.Open(azuritetest.Account(t), options)
	azq.Handle(client, func(_ context.Context, job *azq.Job[note]) error {
		if job.Data.Text == "bad" {
			return errors.New("no such street")
		}
		return nil
	})
	heard, stop := client.Subscribe(10)
	_, stopDeaf := client.Subscribe(1)
	for _, text := range []string{"good", "bad"} {
		if _, err := client.Send(t.Context(), note{text}, azq.ID(text)); err != nil {
			t.Fatal(err)
		}
	}
	azqtest.Run(t, client)
	azqtest.WaitPoison(t, client, 1)
	var got []string
	for len(got) < 3 {
		e := <-heard
		got = append(got, fmt.Sprint(e.Item.ID, " ", e.Type, " ", e.Err))
		if e.Queue != "mail" || time.Since(e.At) > time.Minute {
			t.Errorf("event %+v", e)
		}
	}
	slices.Sort(got)
	if want := []string{"bad poisoned no such street", "bad retried no such street", "good done <nil>"}; !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
	if dropped := stopDeaf(); dropped != 2 {
		t.Errorf("%d events were dropped, want 2", dropped)
	}
	if dropped := stop(); dropped != 0 || stop() != 0 {
		t.Errorf("%d events were dropped", dropped)
	}
	if e, open := <-heard; open {
		t.Errorf("after the end came %+v", e)
	}
}

// A handler that does not listen to the drain does not keep the process for ever.
func TestDrainThatTakesTooLong(t *testing.T) {
	t.Parallel()
	options := brisk(t, azq.Spec{Name: "mail"})
	options.DrainTimeout = time.Second
	client := azq.Open(azuritetest.Account(t), options)
	began, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	azq.Handle(client, func(context.Context, *azq.Job[note]) error { close(began); <-release; return nil })
	if _, err := client.Send(t.Context(), note{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	<-began
	cancel()
	if err := <-ended; !errors.Is(err, azq.ErrHandlersRun) {
		t.Errorf("Run returned %v, want ErrHandlersRun", err)
	}
}

// Two handlers of a kind are a mistake, told with all others before any request.
func TestMistakesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	client := azq.Open(azuritetest.Account(t), azq.Options{Queues: []azq.Spec{{Name: "mail", Kinds: []string{"letter"}}}})
	for range 2 {
		azq.Handle(client, func(context.Context, *azq.Job[note]) error { return nil })
	}
	err := client.Run(t.Context())
	for _, part := range []string{`kind "note" has two handlers`, `kind "letter" has no handler`, `handler of kind "note": no queue carries it`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// Two kinds may use one id and subject: large data of the one is not that of the other.
func TestLargeDataOfTwoKindsWithOneID(t *testing.T) {
	t.Parallel()
	client := azq.Open(azuritetest.Account(t), brisk(t, azq.Spec{Name: "mail"}))
	large := strings.Repeat("x", 50_000)
	got := make(chan string, 2)
	azq.Handle(client, func(_ context.Context, job *azq.Job[note]) error { got <- "note " + job.Data.Text[:1]; return nil })
	azq.Handle(client, func(_ context.Context, job *azq.Job[report]) error { got <- "report " + job.Data.Text[:1]; return nil })
	for _, data := range []azq.Payload{note{"n" + large}, report{"r" + large}} {
		if _, err := client.Send(t.Context(), data, azq.ID("7"), azq.Subject("customer 7")); err != nil {
			t.Fatal(err)
		}
	}
	azqtest.Run(t, client)
	seen := []string{<-got, <-got}
	slices.Sort(seen)
	if want := []string{"note n", "report r"}; !slices.Equal(seen, want) {
		t.Errorf("handled %q, want %q", seen, want)
	}
}

// report is another kind than note.
type report struct{ Text string }

func (report) Kind() string { return "report" }

// What would be poison, or come at another time than it says, is refused where it is sent.
func TestSendRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	client := azq.Open(azuritetest.Account(t), brisk(t, azq.Spec{Name: "mail"}))
	if id, err := client.Send(t.Context(), note{}, azq.ID("")); !errors.Is(err, azq.ErrMalformed) {
		t.Errorf("an empty id: %q, %v, want ErrMalformed", id, err)
	}
	if id, err := client.Send(t.Context(), note{}, azq.ID("late"), azq.After(8*24*time.Hour)); err == nil || id != "late" {
		t.Errorf("a delay of eight days: %q, %v, want the id and an error", id, err)
	}
}

// A handler that is registered after Check counts, and a client runs once.
func TestHandlersAfterCheck(t *testing.T) {
	t.Parallel()
	client := azq.Open(azuritetest.Account(t), brisk(t, azq.Spec{Name: "mail"}))
	azq.Handle(client, func(context.Context, *azq.Job[note]) error { return nil })
	if err := client.Check(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	azq.Handle(client, func(context.Context, *azq.Job[report]) error { close(done); return nil })
	if _, err := client.Send(t.Context(), report{}); err != nil {
		t.Fatal(err)
	}
	azqtest.Run(t, client)
	<-done
	if err := client.Run(t.Context()); err == nil {
		t.Error("a second Run was not refused")
	}
}

// A subscriber hears that a lease was lost while its handler worked.
func TestLostLeaseIsAnEvent(t *testing.T) {
	t.Parallel()
	client := azq.Open(azuritetest.Account(t), brisk(t, azq.Spec{Name: "mail", Visibility: 3 * time.Second}))
	began := make(chan struct{})
	azq.Handle(client, func(ctx context.Context, _ *azq.Job[note]) error {
		close(began)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	heard, stop := client.Subscribe(4)
	defer stop()
	if _, err := client.Send(t.Context(), note{}, azq.ID("lost")); err != nil {
		t.Fatal(err)
	}
	azqtest.Run(t, client)
	<-began
	azqtest.LoseLease(t, client.Queue("mail"))
	if e := <-heard; e.Type != azq.EventLeaseLost || e.Item.ID != "lost" || !errors.Is(e.Err, azq.ErrLeaseLost) {
		t.Errorf("heard %+v", e)
	}
}
