package scenes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
)

var (
	_ = register(programs, "bulk-and-critical", bulkAndCritical)
	_ = register(programs, "burst", burst)
	_ = register(programs, "poison-and-redrive", poisonAndRedrive)
)

var (
	bulkQueue     = azq.Spec{Name: "newsletters", Kinds: []string{"newsletter"}, Pool: "mail", Weight: 1, Visibility: 10 * time.Second, MaxIdlePoll: 100 * time.Millisecond}
	criticalQueue = azq.Spec{Name: "password-resets", Kinds: []string{"reset"}, Pool: "mail", Weight: 3, Urgent: true, Visibility: 2 * time.Second, MaxIdlePoll: 100 * time.Millisecond}
	lanedQueue    = azq.Spec{Name: "films", Kinds: []string{"film"}, Pool: "films", Laned: true, MaxIdlePoll: 100 * time.Millisecond}
)

// bulkAndCritical shows queues of their own for what is urgent and what is not, with
// timeouts of their own (Q5, Q16b), and lanes for a neighbour who sends too much.
func bulkAndCritical(s *Stage) {
	s.Prepare(criticalQueue, bulkQueue, lanedQueue)
	s.Desk("producer", bulkQueue).quiet().put("newsletter", numbered("newsletter", 10)...)
	var done diary
	handlers := done.working("newsletter", 200*time.Millisecond)
	handlers["reset"] = done.working("reset", 10*time.Millisecond)["reset"]
	stop := s.consume(s.ctx, "worker", []azq.Spec{criticalQueue, bulkQueue}, azq.Options{Handlers: handlers})
	defer stop()
	done.has(s, 2)
	s.Next()
	s.Desk("producer", criticalQueue).put("reset", "password reset")
	done.has(s, 11)
	stop()
	place := slices.Index(done.read(), "password reset") + 1
	s.Claim(place > 2 && place < 9, place)
	hidden := func(queue, seconds string) int {
		return s.Told(func(e Event) bool { return e.To == "queue "+queue && e.Text == "receive, hide for "+seconds+" s" })
	}
	s.Claim(hidden(criticalQueue.Name, "2") > 0 && hidden(bulkQueue.Name, "10") > 0)
	oneOfEachIsDropped(s)
	noisyNeighbour(s)
}

// oneOfEachIsDropped lets a worker die that holds a message of each queue (Q16b).
func oneOfEachIsDropped(s *Stage) {
	for _, spec := range []azq.Spec{bulkQueue, criticalQueue} {
		s.Desk("producer", spec).quiet().put(spec.Kinds[0], "dropped "+spec.Kinds[0])
		s.Desk("dying worker", spec).takeOne()
	}
	died := time.Now()
	s.Next()
	next := s.Desk("next worker", criticalQueue)
	reset := next.takeOne()
	waited := time.Since(died)
	bulk := get(s.Desk("next worker", bulkQueue).Peek(s.ctx, 1))
	next.delete(reset)
	s.Claim(reset.DequeueCount == 2 && len(bulk) == 0, waited.Seconds())
}

// noisyNeighbour puts 30 items of one customer before one item of another.
func noisyNeighbour(s *Stage) {
	producer := azq.Open(s.Account("producer"), azq.Options{Queues: []azq.Spec{lanedQueue}})
	send := func(ctx context.Context, customer string, films ...string) (lane int) {
		for _, film := range films {
			lane, _ = producer.Lane(Quiet(ctx), customer, false)
			queue := desk{producer.Queue(azq.LaneName(lanedQueue.Name, lane)), customer, ctx}
			queue.put("film", film)
		}
		return lane
	}
	send(Quiet(s.ctx), "loud", numbered("loud", 30)...)
	lane := send(s.ctx, "quiet", "quiet 1")
	var done diary
	stop := s.Consume(s.ctx, "worker", lanedQueue, azq.Options{Handlers: done.working("film", 20*time.Millisecond)})
	defer stop()
	done.has(s, 31)
	stop()
	before := slices.Index(done.read(), "quiet 1")
	s.Claim(before < 20, lane, before)
}

var burstQueue = azq.Spec{Name: "films", Kinds: []string{"film"}, Pool: "films", MaxIdlePoll: 100 * time.Millisecond}

// burst shows a queue as a buffer (Q7), and its length as the signal by which workers
// come and go (Q4, Q18).
func burst(s *Stage) {
	const sent = 24
	s.Prepare(burstQueue)
	web, scaler := s.Desk("web role", burstQueue), s.Desk("scaler", burstQueue)
	films := numbered("film", sent)
	web.put("film", films[0])
	web.quiet().put("film", films[1:]...)
	length := scaler.length()
	s.Claim(length == sent, length)
	did, peak := scaled(s, scaler.quiet(), length)
	slices.Sort(did)
	s.Claim(scaler.length() == 0 && len(slices.Compact(did)) == sent, sent)
	s.Claim(peak == mostWorkers, peak)
}

// The scaler's rule.
const perWorker, mostWorkers = 6, 3

// scaled starts and ends workers by the length of the queue until it is empty and no
// worker runs. It returns what they did, and how many there were at most.
func scaled(s *Stage, queue desk, length int64) (did []string, peak int) {
	var done diary
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for ; length > 0 || len(stops) > 0; length = queue.length() {
		want := int(min((length+perWorker-1)/perWorker, mostWorkers))
		for len(stops) < want {
			name := fmt.Sprintf("worker %d", len(stops)+1)
			s.Act("scaler", "length %d: starts %s", length, name)
			stops = append(stops, s.Consume(queue.ctx, name, burstQueue, azq.Options{Handlers: done.working("film", 150*time.Millisecond)}))
		}
		peak = max(peak, len(stops))
		if last := len(stops) - 1; last >= want {
			s.Act("scaler", "length %d: worker %d drains and ends", length, len(stops))
			stops[last]()
			stops = stops[:last]
		}
		must(sleep(s.ctx, 100*time.Millisecond))
	}
	return done.read(), peak
}

var poisonQueue = azq.Spec{Name: "letters", Kinds: []string{"letter"}, Pool: "mail", MaxFailures: 2, MaxIdlePoll: 100 * time.Millisecond}

// poisonAndRedrive shows that a message is deleted only after its work succeeded (Q3):
// one that cannot succeed is put aside with its reason, and an operator sends it again.
func poisonAndRedrive(s *Stage) {
	s.Prepare(poisonQueue)
	queues := azq.Open(s.Account("operator"), azq.Options{Queues: []azq.Spec{poisonQueue}})
	operator := desk{queues.Queue(poisonQueue.Name), "operator", s.ctx}
	operator.put("letter", "letter")
	var tried diary
	var corrected atomic.Bool
	stop := s.Consume(s.ctx, "worker", poisonQueue, azq.Options{
		FirstRetry: time.Second,
		Handlers: map[string]azq.Handler{"letter": azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
			tried.note(fmt.Sprintf("attempt %d, last error %q", job.Attempt(), job.Item.LastError))
			if !corrected.Load() {
				return errors.New("no such street")
			}
			return nil
		})},
	})
	defer stop()
	var aside []azq.Poisoned
	s.until("the letter is put aside", func() (bool, error) {
		var err error
		aside, _, err = queues.ListPoison(Quiet(s.ctx), 10, "")
		return len(aside) > 0, err
	})
	s.Claim(slices.Equal(tried.read(), []string{`attempt 1, last error ""`, `attempt 2, last error "no such street"`}))
	s.Claim(aside[0].ItemID == "letter" && aside[0].Reason == "no such street")

	corrected.Store(true)
	get(queues.Redrive(s.ctx, aside[0].ID))
	tried.has(s, 3)
	s.Claim(tried.read()[2] == `attempt 1, last error ""`)
	s.until("the queue is empty", func() (bool, error) { return operator.quiet().length() == 0, nil })
	left, _, err := queues.ListPoison(s.ctx, 10, "")
	s.Claim(err == nil && len(left) == 0)
}
