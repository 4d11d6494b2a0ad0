package histories_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
)

const (
	brief, long = "brief", "long" // queues, steps and pools
	source      = "source"        // a dependency of handlers without a probe

	maxFailures    = 3
	maxUnexplained = 8
	refreshPolicy  = 5 * time.Second
)

var (
	queueNames = []string{brief, long, azq.LaneName(long, 2)}
	stepTakes  = map[string]time.Duration{brief: time.Second, long: 20 * time.Second, azq.LaneName(long, 2): 20 * time.Second}
)

func specs() []azq.Spec {
	return []azq.Spec{
		{Name: brief, Kinds: []string{brief}, Pool: brief, Visibility: 4 * time.Second, MaxIdlePoll: 2 * time.Second, MaxFailures: maxFailures},
		{Name: long, Kinds: []string{long}, Pool: long, Laned: true, Visibility: 10 * time.Second, MaxIdlePoll: 4 * time.Second, MaxFailures: maxFailures},
	}
}

// world is a history while it happens.
type world struct {
	plan    plan
	service *service
	began   time.Time

	mu       sync.Mutex
	chance   *rand.Rand
	attempts map[string]int       // of each item
	sent     map[string]bool      // items that were acknowledged
	removed  map[string]bool      // items of which a message was removed by others
	sends    map[string]time.Time // when each item was first sent
	done     map[string]int       // attempts of each item that succeeded or were not wanted
	failed   map[string]int       // attempts of each message that failed
	givenUp  map[string]bool      // messages that failed for good
	started  map[string]int       // attempts of each message
	running  map[string]*worker   // by message
	log      []string
	wrong    []string
	requests int
	poison   int // items, in the end
}

func newWorld(p plan) *world {
	return &world{
		plan: p, service: newService(p.Skew), began: time.Now(), chance: rand.New(rand.NewPCG(p.Seed, 1)),
		attempts: map[string]int{}, sent: map[string]bool{}, removed: map[string]bool{}, sends: map[string]time.Time{}, done: map[string]int{},
		failed: map[string]int{}, givenUp: map[string]bool{}, started: map[string]int{}, running: map[string]*worker{},
	}
}

func (w *world) now() time.Duration { return time.Since(w.began) }

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%9.3f ", w.now().Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) wrongf(format string, args ...any) {
	w.logf("WRONG: "+format, args...)
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// account opens the account for one program.
func (w *world) account(l *line) *azstore.Account {
	l.service = w.service
	l.delay = func() time.Duration {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.requests++
		return time.Duration(1+w.chance.IntN(40)) * time.Millisecond
	}
	a, err := azstore.Open(azstore.Config{Transport: l})
	if err != nil {
		panic(err)
	}
	return a
}

// storms are the faults of everything that is sent while things go wrong.
func (w *world) storms(r *http.Request) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for _, s := range w.plan.Storms {
		if now < chaos && now >= s.From && now < s.From+s.For && s.hits(r) && w.chance.Float64() < s.Share {
			w.logf("%s: %s %s", s.Fault, r.Method, r.URL.Path)
			return s.Fault
		}
	}
	return none
}

// worker is one process that consumes.
type worker struct {
	name   string
	world  *world
	dead   atomic.Bool
	cancel context.CancelFunc
	gone   chan struct{}
	last   bool // the one that has every step, and no faults

	mu     sync.Mutex
	paused map[string]time.Time // since when it knows that a queue is paused; zero: it is not
}

// start runs a worker.
func (w *world) start(name string, last bool) *worker {
	ctx, cancel := context.WithCancel(context.Background())
	k := &worker{name: name, world: w, cancel: cancel, gone: make(chan struct{}), last: last, paused: map[string]time.Time{}}
	l := &line{fault: w.storms, cut: k.dead.Load, tell: k.heard, asks: k.asked}
	if last {
		l.fault = nil
	}
	declared := specs()
	handlers := map[string]azq.Handler{brief: azq.HandlerFunc(k.handle), long: hooked{k}}
	version := 1
	if last {
		declared[0].Kinds = []string{brief, unknown}
		handlers[unknown], version = handlers[brief], 2
	}
	c := azq.Open(w.account(l), azq.Options{
		Queues: declared, Handlers: handlers, Pools: map[string]int{brief: 2, long: 2}, Version: version, Worker: name,
		StallAfter: 10 * time.Second, RefreshPolicy: refreshPolicy, DeferPause: 5 * time.Second,
		FirstRetry: time.Second, MaxRetry: 10 * time.Second, DependencyPause: time.Second, MaxDependencyPause: 5 * time.Second,
		MaxUnexplained: maxUnexplained, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	w.locked(func() { w.logf("%s starts", name) })
	go func() {
		defer close(k.gone)
		if err := c.Run(ctx); err != nil && !k.dead.Load() {
			panic(err)
		}
	}()
	return k
}

func (w *world) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// kill ends a worker as SIGKILL does: nothing leaves it any more. Drained, it ends as by
// SIGTERM.
func (k *worker) kill() {
	k.dead.Store(true)
	k.world.locked(func() {
		k.world.logf("%s dies", k.name)
		for id, who := range k.world.running {
			if who == k {
				delete(k.world.running, id)
			}
		}
	})
	k.cancel()
}

// pausedSlack is how long a receive may be under way when a worker learns of a pause.
const pausedSlack = time.Second

// heard notes what a worker was told about pauses.
func (k *worker) heard(r *http.Request, got answer) {
	if r.URL.Query().Get("comp") != "metadata" || r.Method != http.MethodGet || got.status != http.StatusOK {
		return
	}
	queue := queueOf(r)
	k.mu.Lock()
	defer k.mu.Unlock()
	since, known := k.paused[queue]
	switch paused := got.header.Get("x-ms-meta-paused") == "true"; {
	case !paused:
		k.paused[queue] = time.Time{}
	case !known || since.IsZero():
		k.paused[queue] = time.Now()
	}
}

// asked notes what a worker must not ask for: a message of a queue that it knows to be
// paused, or of which it does not know.
func (k *worker) asked(r *http.Request) {
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/messages") || r.URL.Query().Get("peekonly") != "" {
		return
	}
	queue := strings.TrimSuffix(queueOf(r), "-2") // lanes have the policy of lane 0
	queue = strings.TrimSuffix(strings.TrimSuffix(queue, "-1"), "-3")
	k.mu.Lock()
	since, known := k.paused[queue]
	k.mu.Unlock()
	if !known || !since.IsZero() && time.Since(since) > pausedSlack {
		k.world.locked(func() {
			k.world.wrongf("%s receives from %s (its policy is known: %v, paused since %v)", k.name, queue, known, since)
		})
	}
}

func queueOf(r *http.Request) string { return strings.Split(r.URL.Path, "/")[2] }

// hooked is a handler whose hook is clumsy, too.
type hooked struct{ *worker }

// Handle implements azq.Handler.
func (h hooked) Handle(ctx context.Context, job *azq.RawJob) error { return h.handle(ctx, job) }

// Exhausted implements azq.Exhausted.
func (h hooked) Exhausted(context.Context, *azq.RawJob, error) error {
	h.world.mu.Lock()
	clumsy := h.world.chance.IntN(3)
	h.world.mu.Unlock()
	switch clumsy {
	case 0:
		panic("a mistake in a hook")
	case 1:
		return errors.New("a mistake in a hook")
	}
	return nil
}

// handle does what the item's script says.
func (k *worker) handle(ctx context.Context, job *azq.RawJob) error {
	w := k.world
	i := w.plan.item(job.Item.ID)
	next := k.begin(job, i)
	for left := i.Takes; left > 0; left -= 5 * time.Second { // it reports progress, as work does
		select {
		case <-time.After(min(left, 5*time.Second)):
			job.Progress()
		case <-ctx.Done():
			k.end(job, succeeds, false)
			return context.Cause(ctx)
		}
	}
	if next == dies {
		k.kill()
		<-ctx.Done()
		return ctx.Err()
	}
	if next == hangs {
		<-ctx.Done()
		k.end(job, next, errors.Is(context.Cause(ctx), azq.ErrStalled))
		return ctx.Err()
	}
	k.end(job, next, true)
	return act(next)
}

func (p plan) item(id string) item {
	for _, i := range p.Items {
		if i.ID == id {
			return i
		}
	}
	return item{}
}

// begin notes that an attempt begins, and returns what it is to do.
func (k *worker) begin(job *azq.RawJob, i item) outcome {
	w := k.world
	w.service.mu.Lock()
	deleted, gone := w.service.deleted[job.MessageID]
	if w.service.cleared[job.MessageID] && time.Since(deleted) < time.Second { // it was under way
		gone = false
	}
	w.service.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if k.dead.Load() {
		return succeeds
	}
	n := w.attempts[i.ID]
	w.attempts[i.ID]++
	next := succeeds
	if n < len(i.Script) {
		next = i.Script[n]
	}
	w.logf("%s begins %s of %s, delivery %d of message %s: it %s", k.name, job.Item.ID, job.Queue, job.DequeueCount, job.MessageID[:8], next)
	if gone {
		w.wrongf("%s begins %s, whose message was deleted at %v", k.name, job.Item.ID, deleted.Sub(w.began))
	}
	if other := w.running[job.MessageID]; other != nil {
		w.wrongf("%s begins %s while %s works on the same message", k.name, job.Item.ID, other.name)
	}
	if off := job.Inserted.Sub(w.sends[job.Item.ID]); i.Shape == ours && off < -5*time.Second {
		w.wrongf("%s was sent at %v and seems to be %v older", job.Item.ID, w.sends[job.Item.ID], -off)
	}
	w.running[job.MessageID] = k
	w.started[job.MessageID]++
	return next
}

// end notes that an attempt has ended; counts says that it is one, and was not interrupted.
func (k *worker) end(job *azq.RawJob, did outcome, counts bool) {
	w := k.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if k.dead.Load() {
		return
	}
	w.logf("%s ends %s: it %s, counts %v", k.name, job.Item.ID, did, counts)
	delete(w.running, job.MessageID)
	switch {
	case !counts:
	case did.failing():
		w.failed[job.MessageID]++
	case did == permanent:
		w.givenUp[job.MessageID] = true
	case did == succeeds, did == unwanted:
		w.done[job.Item.ID]++
	}
}

// act is the end of a handler.
func act(o outcome) error {
	switch o {
	case fails:
		return errors.New("no")
	case latin1:
		return errors.New("caf\xe9 ferm\xe9\x00\x1b")
	case talks:
		return errors.New(strings.Repeat("long ", 20_000))
	case panics:
		panic("a mistake in a handler")
	case exits:
		runtime.Goexit()
	case snoozes:
		return azq.Snooze(3*time.Second, "not yet")
	case later:
		return azq.RetryAfter(errors.New("not now"), 4*time.Second)
	case troubled:
		return sourceTrouble{}
	case permanent:
		return azq.Permanent(errors.New("never"))
	case unwanted:
		return azq.Unwanted("not asked for")
	}
	return nil
}

// sourceTrouble is trouble with a dependency of the handlers' own.
type sourceTrouble struct{}

func (sourceTrouble) Error() string      { return "the source is away" }
func (sourceTrouble) Dependency() string { return source }

// send sends an item until that is acknowledged, as producers do.
func (w *world) send(i item) {
	faulty := w.account(&line{fault: w.storms})
	queues := azq.Open(faulty, azq.Options{Queues: specs()})
	w.locked(func() { w.sends[i.ID] = time.Now() })
	for {
		err := w.try(faulty, queues, i)
		if err == nil {
			break
		}
		if errors.Is(err, azq.ErrTooLarge) || azstore.HasCode(err, "RequestBodyTooLarge") {
			w.locked(func() { w.logf("%s is too large", i.ID) })
			return
		}
		time.Sleep(time.Second)
	}
	w.locked(func() { w.logf("%s was sent", i.ID); w.sent[i.ID] = !w.removed[i.ID] })
}

func (w *world) try(a *azstore.Account, queues *azq.Client, i item) error {
	step, _, _ := strings.Cut(i.Queue, "-")
	if i.Shape == unknown && i.Queue == brief {
		step = unknown
	}
	made, err := azq.NewItem(step, i.About, i.ID, strings.Repeat("x", i.Size))
	if err != nil {
		panic(err)
	}
	if i.Shape == newer {
		made.Version = 2
	}
	var text string
	switch i.Shape {
	case plain:
		raw, err := made.JSON()
		if err != nil {
			panic(err)
		}
		text = string(raw)
	case garbage:
		text = base64.StdEncoding.EncodeToString([]byte(garbageOf + i.ID))
	default:
		return queues.SendItem(context.Background(), i.Queue, made, 0)
	}
	_, err = a.Queue(i.Queue).EnqueueMessage(context.Background(), text, &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(-1))})
	return err
}

// operate pauses or resumes a queue.
func (w *world) operate(p pause) {
	l := &line{}
	if p.SlowDown {
		l.fault = func(r *http.Request) fault {
			if r.Method == http.MethodPut && r.URL.Query().Get("comp") == "metadata" {
				return slow
			}
			return none
		}
	}
	q := azq.Open(w.account(l), azq.Options{Queues: specs()}).Queue(p.Queue)
	act, name := q.Resume, "resumes"
	if p.Paused {
		act, name = q.Pause, "pauses"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := act(ctx)
	w.locked(func() { w.logf("an operator: %s %s: %v", name, p.Queue, err) })
}

// scrawl writes nonsense as the visibility of a queue.
func (w *world) scrawl(s scrawl) {
	w.service.mu.Lock()
	defer w.service.mu.Unlock()
	name := azq.LaneName(strings.Split(s.Queue, "-")[0], 0)
	w.service.queues[name].metadata.Set("x-ms-meta-visibility_ms", s.Value)
}

// remove removes the messages of a queue. What becomes of their items is not judged.
func (w *world) remove(r removal) {
	for _, text := range w.service.clear(r.Queue) {
		w.locked(func() {
			item := itemOf(text)
			w.logf("an operator removes %s from %s", item, r.Queue)
			delete(w.sent, item)
			w.removed[item] = true
		})
	}
}

// itemOf is whose message has this text.
func itemOf(text string) string {
	if item, err := azq.DecodeItem(text); err == nil {
		return item.ID
	}
	raw, _ := base64.StdEncoding.DecodeString(text) // by send
	return strings.TrimPrefix(string(raw), garbageOf)
}

const garbageOf = "garbage of "

// play lets a history happen, and returns what came of it.
func play(t *testing.T, p plan) *world {
	w := newWorld(p)
	if err := azq.Open(w.account(&line{}), azq.Options{Queues: specs()}).Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.began = time.Now()
	var all sync.WaitGroup
	at := func(when time.Duration, f func()) {
		all.Go(func() {
			time.Sleep(when)
			f()
		})
	}
	for _, i := range p.Items {
		at(i.At, func() { w.send(i) })
	}
	for _, o := range p.Pauses {
		at(o.From, func() { w.operate(o) })
	}
	for _, s := range p.Scrawl {
		at(s.At, func() { w.scrawl(s) })
	}
	for _, r := range p.Removals {
		at(r.At, func() { w.remove(r) })
	}
	for n, life := range p.Workers {
		at(life.Start, func() { w.live(fmt.Sprint("w", n), life) })
	}
	all.Wait()
	time.Sleep(max(0, chaos-w.now()))
	w.finish()
	w.judge()
	w.redrive()
	w.wrong = append(w.wrong, w.service.problem...)
	return w
}

// live runs a worker for its time, and again when it died.
func (w *world) live(name string, l life) {
	for n := 0; ; n++ {
		k := w.start(fmt.Sprint(name, ".", n), false)
		select {
		case <-k.gone: // an item killed it
		case <-time.After(max(0, l.End-w.now())):
			if l.Killed {
				k.kill()
			}
			k.cancel()
			<-k.gone
			return
		}
		if time.Sleep(5 * time.Second); w.now() >= l.End {
			return
		}
	}
}

// finish lets healthy workers do the rest, on queues that are not paused.
func (w *world) finish() {
	for _, spec := range specs() {
		w.operate(pause{Queue: spec.Name})
	}
	before := w.requests
	began := time.Now()
	for n := 0; time.Since(began) < quiet && w.left() > 0; n++ {
		k := w.start(fmt.Sprint("last.", n), true)
		for time.Since(began) < quiet && w.left() > 0 && !k.dead.Load() {
			time.Sleep(time.Second)
		}
		k.cancel()
		<-k.gone
	}
	if left := w.left(); left > 0 {
		w.wrongf("%d messages are left after %v", left, quiet)
	}
	if asked, most := w.requests-before, 200+60*int(time.Since(began).Seconds()); asked > most {
		w.wrongf("%d requests in %v", asked, time.Since(began))
	}
}

func (w *world) left() (n int) {
	w.service.mu.Lock()
	defer w.service.mu.Unlock()
	for name, q := range w.service.queues {
		if !strings.HasSuffix(name, "-poison") {
			n += len(q.messages)
		}
	}
	return n
}
