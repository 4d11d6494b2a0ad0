package lab

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/stack"
)

// frozen is a process that is stopped until it is continued.
type frozen struct {
	pid   int
	until time.Time
}

// state is the bench as it is now.
func (b *bench) state() client.Lab {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := client.Lab{MaxWorkers: MaxWorkers, Workers: []client.LabWorker{}, Storage: b.storage(), Duplicates: slices.Clone(b.twice), Burst: b.burstNow()}
	if s.Duplicates == nil {
		s.Duplicates = []client.LabDuplicated{}
	}
	if time.Now().Before(b.armed) {
		until := b.armed
		s.DuplicateUntil = &until
	}
	for _, name := range b.stack.Workers() {
		w := client.LabWorker{Name: name, State: client.LabRunning}
		pid := b.stack.Pid(name)
		if pid != 0 {
			w.Pid = &pid
		}
		ice, isFrozen := b.frozen[name]
		switch {
		case pid == 0 && b.stays[name]:
			w.State = client.LabStopped
		case pid == 0:
			w.State = client.LabStarting
		case b.stays[name]:
			w.State = client.LabStopping
		case isFrozen && ice.pid == pid:
			w.State, w.Until = client.LabFrozen, &ice.until
		}
		s.Workers = append(s.Workers, w)
	}
	return s
}

// running returns the process of a worker that is to be given a signal.
func (b *bench) running(name string) (pid int, err error) {
	if !slices.Contains(b.stack.Workers(), name) {
		return 0, refuse(http.StatusNotFound, "worker_not_found", "The stack has no such worker.")
	}
	if pid = b.stack.Pid(name); pid == 0 {
		return 0, conflict("%s is not running.", name)
	}
	return pid, nil
}

// signal sends a signal to a worker that may have ended meanwhile.
func (b *bench) signal(name string, sig ...func() error) error {
	for _, send := range sig {
		if err := send(); err != nil {
			return conflict("%s has just ended.", name)
		}
	}
	return nil
}

func (b *bench) kill(_ *http.Request, asked client.LabKill) (client.LabDone, error) {
	pid, err := b.running(asked.Worker)
	if err == nil {
		err = b.signal(asked.Worker, func() error { return b.stack.Kill(asked.Worker, stack.Die) })
	}
	if err != nil {
		return client.LabDone{}, err
	}
	return client.LabDone{Worker: &asked.Worker, Says: fmt.Sprintf(
		"%s (process %d) was killed. Its messages come back when their visibility ends; its supervisor starts it again.", asked.Worker, pid)}, nil
}

func (b *bench) freeze(r *http.Request, asked client.LabFreeze) (client.LabDone, error) {
	pid, err := b.running(asked.Worker)
	if err != nil {
		return client.LabDone{}, err
	}
	var length time.Duration
	if asked.Seconds != nil {
		if length = time.Duration(*asked.Seconds) * time.Second; length < time.Second || length > maxFreeze {
			return client.LabDone{}, invalid("Member /seconds: from 1 to %.0f.", maxFreeze.Seconds())
		}
	}
	b.mu.Lock()
	ice, isFrozen := b.frozen[asked.Worker]
	if !isFrozen || ice.pid != pid {
		isFrozen = false
		b.frozen[asked.Worker] = frozen{pid, time.Now().Add(maxFreeze)}
	}
	b.mu.Unlock()
	if isFrozen {
		return client.LabDone{}, conflict("%s is frozen already.", asked.Worker)
	}
	if err := b.signal(asked.Worker, func() error { return b.stack.Kill(asked.Worker, stack.Halt) }); err != nil {
		b.thawed(asked.Worker, pid)
		return client.LabDone{}, err
	}
	if length == 0 { // asked only now: it takes no further message
		length = min(b.leaseOf(r.Context(), pid)*3/2, maxFreeze)
	}
	until := time.Now().Add(length)
	b.mu.Lock()
	b.frozen[asked.Worker] = frozen{pid, until}
	b.mu.Unlock()
	b.begin(func(ctx context.Context) {
		wait(ctx, length) // or the lab closes: no process stays frozen
		if b.thawed(asked.Worker, pid) {
			_ = b.stack.Kill(asked.Worker, stack.Wake)
		}
	})
	return client.LabDone{Worker: &asked.Worker, Until: &until, Says: fmt.Sprintf(
		"%s is frozen for %.0f s. When it wakes, others may have its work: what it does then is refused.", asked.Worker, length.Seconds())}, nil
}

// thawed forgets that a process is frozen, and reports whether it was.
func (b *bench) thawed(name string, pid int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.frozen[name].pid != pid {
		return false
	}
	delete(b.frozen, name)
	return true
}

// leaseOf is the longest visibility in force of what a worker holds; of any queue
// when its last heartbeat names nothing.
func (b *bench) leaseOf(ctx context.Context, pid int) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var longest time.Duration
	all, _ := b.workers.List(ctx, time.Now().Add(-time.Minute)) // without it any queue counts
	for _, w := range all {
		for _, task := range w.Busy {
			q := b.queues.Queue(task.Queue)
			if w.PID != pid || q == nil {
				continue
			}
			if lead := b.queues.Queue(q.Spec().Base()); lead != nil {
				_, _ = lead.Length(ctx) // reads the policy; else the one that was read before
			}
			longest = max(longest, q.Visibility())
		}
	}
	if longest == 0 {
		for _, spec := range b.queues.Specs() {
			longest = max(longest, b.queues.Queue(spec.Name).Visibility())
		}
	}
	return longest
}

func (b *bench) stop(_ *http.Request, asked client.LabStop) (client.LabDone, error) {
	if _, err := b.running(asked.Worker); err != nil {
		return client.LabDone{}, err
	}
	if asked.Stay != nil && *asked.Stay {
		return b.rest(asked.Worker)
	}
	// A frozen one wakes, or it would never read the signal.
	err := b.signal(asked.Worker, func() error { return b.stack.Kill(asked.Worker, stack.Term) }, func() error { return b.stack.Kill(asked.Worker, stack.Wake) })
	if err != nil {
		return client.LabDone{}, err
	}
	return client.LabDone{Worker: &asked.Worker, Says: asked.Worker + " was asked to stop: it gives its messages back at once. Its supervisor starts it again."}, nil
}

// rest drains a worker that stays stopped.
func (b *bench) rest(name string) (client.LabDone, error) {
	b.mu.Lock()
	already := b.stays[name]
	b.stays[name] = true
	b.mu.Unlock()
	if already {
		return client.LabDone{}, conflict("%s is being stopped.", name)
	}
	b.begin(func(context.Context) { _ = b.stack.StopRole(name) }) // a worker that does not drain is killed
	return client.LabDone{Worker: &name, Says: name + " was asked to stop: it gives its messages back at once, and stays stopped until a worker is added."}, nil
}

func (b *bench) isToStay(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stays[name]
}

func (b *bench) change(r *http.Request, asked client.LabWorkers) (client.LabDone, error) {
	switch {
	case asked.Action == client.LabAdd && asked.Worker == nil:
		return b.add(r)
	case asked.Action == client.LabAdd:
		return client.LabDone{}, invalid("Member /worker: a worker that is added has no name yet.")
	case asked.Action != client.LabRemove:
		return client.LabDone{}, invalid("Member /action: add or remove.")
	case asked.Worker != nil:
		if _, err := b.running(*asked.Worker); err != nil {
			return client.LabDone{}, err
		}
		return b.rest(*asked.Worker)
	}
	for _, name := range slices.Backward(b.stack.Workers()) {
		if !b.isToStay(name) && b.stack.Pid(name) != 0 {
			return b.rest(name)
		}
	}
	return client.LabDone{}, conflict("No worker is running.")
}

// patience is how long an answer waits for a worker to be ready.
const patience = 5 * time.Second

// started is how a start ended.
type started struct {
	name string
	err  error
}

// start brings back a worker that was stopped, or starts a new one.
func (b *bench) start() (<-chan started, error) {
	all := b.stack.Workers()
	b.mu.Lock()
	at := slices.IndexFunc(all, func(name string) bool { return b.stays[name] && b.stack.Pid(name) == 0 })
	busy, full := b.changing, at < 0 && len(all) >= MaxWorkers
	b.changing = busy || !full
	if !busy && at >= 0 {
		delete(b.stays, all[at]) // from here on it is starting
	}
	b.mu.Unlock()
	if busy {
		return nil, conflict("A worker is just being added.")
	}
	if full {
		return nil, conflict("There are %d workers: as many as there may be.", MaxWorkers)
	}
	ended := make(chan started, 1)
	b.begin(func(ctx context.Context) {
		var o started
		if at >= 0 {
			o.name = all[at]
			o.err = b.stack.Restart(ctx, o.name)
		} else {
			o.name, o.err = b.stack.AddWorker(ctx)
		}
		b.mu.Lock()
		b.changing = false
		b.mu.Unlock()
		ended <- o
	})
	return ended, nil
}

// add answers when the worker is ready, or when that takes long.
func (b *bench) add(r *http.Request) (client.LabDone, error) {
	ended, err := b.start()
	if err != nil {
		return client.LabDone{}, err
	}
	select {
	case o := <-ended:
		if o.err != nil {
			return client.LabDone{}, o.err
		}
		return client.LabDone{Worker: &o.name, Says: o.name + " is ready and takes its share."}, nil
	case <-time.After(patience):
	case <-r.Context().Done():
	}
	return client.LabDone{Says: "A worker is starting."}, nil
}
