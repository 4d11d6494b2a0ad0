package scenes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/workitem"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
)

// Consume runs the product's consumer as an actor until stop is called.
func (s *Stage) Consume(ctx context.Context, actor string, specs []workqueue.Spec, options consumer.Options, road ...Option) (stop func(), err error) {
	options.Worker, options.Log = actor, slog.New(slog.DiscardHandler)
	c, err := consumer.New(workqueue.OpenAll(s.Worker(actor, road...), specs), options)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", actor, err)
	}
	running, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { c.Run(running) })
	return func() { cancel(); wait.Wait() }, nil
}

// diary is what workers did, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// has waits until so many lines are written.
func (d *diary) has(ctx context.Context, n int) error {
	return until(ctx, fmt.Sprintf("%d items are done", n), func() (bool, error) { return len(d.read()) >= n, nil })
}

// working is a handler that takes so long and notes what it did.
func (d *diary) working(took time.Duration) consumer.Handler {
	return consumer.HandlerFunc(func(ctx context.Context, job *consumer.Job) error {
		if err := sleep(ctx, took); err != nil {
			return err
		}
		d.note(job.Item.ID)
		return nil
	})
}

var (
	bulkQueue     = workqueue.Spec{Name: "newsletters", Steps: []string{"newsletter"}, Pool: "mail", Weight: 1, Visibility: 10 * time.Second, MaxIdlePoll: 100 * time.Millisecond}
	criticalQueue = workqueue.Spec{Name: "password-resets", Steps: []string{"reset"}, Pool: "mail", Weight: 3, Urgent: true, Visibility: 2 * time.Second, MaxIdlePoll: 100 * time.Millisecond}
	lanedQueue    = workqueue.Spec{Name: "films", Steps: []string{"film"}, Pool: "films", Laned: true, MaxIdlePoll: 100 * time.Millisecond}
)

// bulkAndCritical shows queues of their own for what is urgent and what is not, with
// timeouts of their own (Q5, Q16b), and lanes for a neighbour who sends too much.
func bulkAndCritical(ctx context.Context, s *Stage) error {
	specs := []workqueue.Spec{criticalQueue, bulkQueue}
	if err := s.Prepare(ctx, criticalQueue, bulkQueue, lanedQueue); err != nil {
		return err
	}
	s.Say("Ten newsletters wait in the queue for bulk work. One worker with one slot sends them, a fifth of a second each.")
	producer := workqueue.OpenAll(s.Account("producer"), specs)
	if err := sendAll(Quiet(ctx), producer, bulkQueue.Name, "newsletter", numbered("newsletter", 10)); err != nil {
		return err
	}
	var done diary
	stop, err := s.Consume(ctx, "worker", specs, consumer.Options{
		Pools:    map[string]int{"mail": 1},
		Handlers: map[string]consumer.Handler{"newsletter": done.working(200 * time.Millisecond), "reset": done.working(10 * time.Millisecond)},
	})
	if err != nil {
		return err
	}
	defer stop()
	if err := done.has(ctx, 2); err != nil {
		return err
	}
	s.Say("Now somebody has forgotten a password. That is another queue, an urgent one, with a visibility timeout of its own: 2 s, and not 10.")
	if err := sendAll(ctx, producer, criticalQueue.Name, "reset", []string{"password reset"}); err != nil {
		return err
	}
	if err := done.has(ctx, 11); err != nil {
		return err
	}
	stop()
	place := slices.Index(done.read(), "password reset") + 1
	s.Claim(place > 2 && place < 9, "the password reset went out as number %d of 11, although it came behind all newsletters", place)
	hidden := func(queue, seconds string) int {
		return s.Told(func(e Event) bool { return e.To == "queue "+queue && e.Text == "receive, hide for "+seconds+" s" })
	}
	s.Claim(hidden(criticalQueue.Name, "2") > 0 && hidden(bulkQueue.Name, "10") > 0, "each queue's messages are hidden for its own time")
	if err := oneOfEachIsDropped(ctx, s); err != nil {
		return err
	}
	return noisyNeighbour(ctx, s)
}

// oneOfEachIsDropped lets a worker die that holds a message of each queue (Q16b).
func oneOfEachIsDropped(ctx context.Context, s *Stage) error {
	s.Say("What is that good for? A worker takes a newsletter and a password reset, and dies with both of them.")
	for _, spec := range []workqueue.Spec{bulkQueue, criticalQueue} {
		if err := s.Desk("producer", spec).put(Quiet(ctx), spec.Steps[0], "dropped "+spec.Steps[0], nil); err != nil {
			return err
		}
		if _, err := s.Desk("dying worker", spec).take(ctx); err != nil {
			return err
		}
	}
	died := time.Now()
	s.Act("dying worker", "crashes")
	reset, err := s.Desk("next worker", criticalQueue).take(ctx)
	if err != nil {
		return err
	}
	waited := time.Since(died)
	bulk, err := s.Desk("next worker", bulkQueue).Peek(ctx, 1)
	if err != nil {
		return err
	}
	s.Claim(reset.DequeueCount() == 2 && len(bulk) == 0, "the password reset is back after %.1f s; the newsletter is still hidden, and nobody minds", waited.Seconds())
	s.Means("With one timeout for both, either the password reset would wait for 10 s, or every newsletter that takes longer than 2 s would be sent twice.")
	return reset.Complete(ctx)
}

// noisyNeighbour puts 30 items of one customer before one item of another.
func noisyNeighbour(ctx context.Context, s *Stage) error {
	s.Say("Within one queue it is first in, first out. One customer sends 30 films, and then another one sends a single film. The queue has %d lanes; a job goes into the lane that its customer gets, and workers take the lanes in turn.", workqueue.Lanes)
	specs := []workqueue.Spec{lanedQueue}
	producer := workqueue.OpenAll(s.Account("producer"), specs)
	send := func(ctx context.Context, customer, id string) (lane int, err error) {
		lane, _ = producer.Lane(Quiet(ctx), customer, false)
		return lane, sendAll(ctx, producer, workqueue.LaneName(lanedQueue.Name, lane), "film", []string{id})
	}
	for _, film := range numbered("loud", 30) {
		_, err := send(Quiet(ctx), "loud", film)
		if err != nil {
			return err
		}
	}
	lane, err := send(ctx, "quiet", "quiet 1")
	if err != nil {
		return err
	}
	var done diary
	stop, err := s.Consume(ctx, "worker", specs, consumer.Options{
		Pools: map[string]int{"films": 1}, Handlers: map[string]consumer.Handler{"film": done.working(20 * time.Millisecond)},
	})
	if err != nil {
		return err
	}
	defer stop()
	if err := until(ctx, "the quiet customer's film is done", func() (bool, error) { return slices.Contains(done.read(), "quiet 1"), nil }); err != nil {
		return err
	}
	stop()
	before := slices.Index(done.read(), "quiet 1")
	s.Claim(before < 20, "the quiet customer's film, in lane %d, waited for %d of the 30 films that came before it", lane, before)
	s.Means("A queue for each customer would need a poll for each. A few lanes cost a few polls, and the loud customer waits mostly for itself.")
	return nil
}

func numbered(name string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(name, " ", i+1))
	}
	return ids
}

func sendAll(ctx context.Context, queues *workqueue.Queues, queue, step string, ids []string) error {
	for _, id := range ids {
		item, err := workitem.New(step, "", id, nil)
		if err == nil {
			err = queues.Send(ctx, queue, item, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var burstQueue = workqueue.Spec{Name: "films", Steps: []string{"film"}, Pool: "films", MaxIdlePoll: 100 * time.Millisecond}

// burst shows a queue as a buffer (Q7), and its length as the signal by which workers
// come and go (Q4, Q18).
func burst(ctx context.Context, s *Stage) error {
	const sent = 24
	specs := []workqueue.Spec{burstQueue}
	if err := s.Prepare(ctx, specs...); err != nil {
		return err
	}
	queues := workqueue.OpenAll(s.Account("web role"), specs)
	s.Say("No worker runs, and %d films come at once. Each is put into the queue, and nobody is refused. The first is told here, the others are like it.", sent)
	films := numbered("film", sent)
	if err := sendAll(ctx, queues, burstQueue.Name, "film", films[:1]); err != nil {
		return err
	}
	if err := sendAll(Quiet(ctx), queues, burstQueue.Name, "film", films[1:]); err != nil {
		return err
	}
	scaler := workqueue.OpenAll(s.Account("scaler"), specs).Queue(burstQueue.Name)
	state, err := scaler.Length(ctx)
	if err != nil {
		return err
	}
	s.Claim(state.Length == sent, "the queue holds all %d", state.Length)

	did, peak, err := scaled(ctx, s, scaler, state)
	if err != nil {
		return err
	}
	if state, err = scaler.Length(ctx); err != nil {
		return err
	}
	slices.Sort(did)
	s.Claim(state.Length == 0 && len(slices.Compact(did)) == sent, "all %d films were made, and the queue is empty", sent)
	s.Claim(peak == mostWorkers, "there were up to %d workers, and there is none now", peak)
	s.Means("The length counts hidden messages too, so a worker is not taken away from work under way. A length alone does not know how long an item takes: Cutroom's own signal counts seconds of work.")
	return nil
}

// The scaler's rule.
const perWorker, mostWorkers = 6, 3

// scaled starts and ends workers by the length of the queue until it is empty and none
// is left. It returns what they did, and how many there were at most.
func scaled(ctx context.Context, s *Stage, scaler *workqueue.Queue, state workqueue.State) (did []string, peak int, err error) {
	s.Say("A scaler reads the length again and again, and wants one worker for every %d films, at most %d, and none for an empty queue.", perWorker, mostWorkers)
	var done diary
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for state.Length > 0 || len(stops) > 0 {
		want := int(min((state.Length+perWorker-1)/perWorker, mostWorkers))
		for len(stops) < want {
			name := fmt.Sprintf("worker %d", len(stops)+1)
			s.Act("scaler", "length %d: starts %s", state.Length, name)
			stop, err := s.Consume(Quiet(ctx), name, []workqueue.Spec{burstQueue}, consumer.Options{
				Pools: map[string]int{"films": 1}, Handlers: map[string]consumer.Handler{"film": done.working(150 * time.Millisecond)},
			})
			if err != nil {
				return nil, peak, err
			}
			stops = append(stops, stop)
		}
		peak = max(peak, len(stops))
		if len(stops) > want {
			last := len(stops) - 1
			s.Act("scaler", "length %d: worker %d drains and ends", state.Length, len(stops))
			stops[last]()
			stops = stops[:last]
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, peak, err
		}
		if state, err = scaler.Length(Quiet(ctx)); err != nil {
			return nil, peak, err
		}
	}
	return done.read(), peak, nil
}

var poisonQueue = workqueue.Spec{Name: "letters", Steps: []string{"letter"}, Pool: "mail", MaxFailures: 2, MaxIdlePoll: 100 * time.Millisecond}

// poisonAndRedrive shows that a message is deleted only after its work succeeded (Q3):
// one that cannot succeed is put aside with its reason, and sent again by a person.
func poisonAndRedrive(ctx context.Context, s *Stage) error {
	specs := []workqueue.Spec{poisonQueue}
	if err := s.Prepare(ctx, specs...); err != nil {
		return err
	}
	queues := workqueue.OpenAll(s.Account("operator"), specs)
	s.Say("A letter is to be sent to a street that does not exist. Each attempt fails. The reason is written into the message, which comes back after a pause; at the %dnd failure it is put aside: it is poison, and would otherwise come back for ever.", poisonQueue.MaxFailures)
	if err := sendAll(ctx, queues, poisonQueue.Name, "letter", []string{"letter"}); err != nil {
		return err
	}
	var tried diary
	var mended sync.Mutex
	street := false
	options := consumer.Options{
		Pools: map[string]int{"mail": 1}, FirstRetry: time.Second,
		Handlers: map[string]consumer.Handler{"letter": consumer.HandlerFunc(func(_ context.Context, job *consumer.Job) error {
			tried.note(fmt.Sprintf("attempt %d, last error %q", job.Attempt(), job.Item.LastError))
			mended.Lock()
			defer mended.Unlock()
			if !street {
				return errors.New("no such street")
			}
			return nil
		})},
	}
	stop, err := s.Consume(ctx, "worker", specs, options)
	if err != nil {
		return err
	}
	defer stop()
	var aside []workqueue.Poisoned
	if err := until(ctx, "the letter is put aside", func() (bool, error) {
		aside, _, err = queues.ListPoison(Quiet(ctx), 10, "")
		return len(aside) > 0, err
	}); err != nil {
		return err
	}
	s.Claim(slices.Equal(tried.read(), []string{`attempt 1, last error ""`, `attempt 2, last error "no such street"`}), "the second attempt knew the error of the first")
	s.Claim(aside[0].ItemID == "letter" && aside[0].Reason == "no such street", "the letter is in table poison, with its reason")

	mended.Lock()
	street = true
	mended.Unlock()
	return redriven(ctx, s, queues, aside[0], &tried)
}

// redriven sends the poison once more, now that it can succeed.
func redriven(ctx context.Context, s *Stage, queues *workqueue.Queues, aside workqueue.Poisoned, tried *diary) error {
	s.Say("An operator corrects the address, and sends the letter again: redrive. Its failures are forgotten, its id stays.")
	if _, err := queues.Redrive(ctx, aside.ID); err != nil {
		return err
	}
	if err := tried.has(ctx, 3); err != nil {
		return err
	}
	s.Claim(tried.read()[2] == `attempt 1, last error ""`, "the redriven letter begins with attempt 1")
	if err := until(ctx, "the queue is empty", func() (bool, error) {
		state, err := queues.Queue(poisonQueue.Name).Length(Quiet(ctx))
		return state.Length == 0, err
	}); err != nil {
		return err
	}
	left, _, err := queues.ListPoison(ctx, 10, "")
	if err != nil {
		return err
	}
	s.Claim(len(left) == 0, "the letter went out, and only then its message was deleted")
	return nil
}
