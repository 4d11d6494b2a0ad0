package soak

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/e2e/load"
	"github.com/cutroom/cutroom/e2e/proc"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// chaos does the events of the plan.
type chaos struct {
	stack   *stack.Stack
	storage storage
	proxy   *inject.Proxy
	watcher *watcher
	workers []string // names in the stack
	webs    []string // the same
	dir     string   // for markers

	busy []sync.Mutex // one for each worker that something is being done to

	mu     sync.Mutex
	counts map[string]int
	wg     sync.WaitGroup
}

func (c *chaos) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

const workerPrefix = "soak-"

// workerName is WORKERROLE_NAME of the n-th worker.
func workerName(n int) string { return workerPrefix + strconv.Itoa(n) }

// do starts an event and does not wait for its end.
func (c *chaos) do(ctx context.Context, number int, e event) {
	c.wg.Go(func() {
		name, web := c.workers[e.Worker], c.webs[e.Web]
		switch e.Kind {
		case killWorker:
			// A zombie must live until it wakes: another worker dies instead of it.
			for n := range c.workers {
				if n = (e.Worker + n) % len(c.workers); c.busy[n].TryLock() {
					c.watcher.killed(workerName(n))
					c.signal(c.workers[n], stack.Die, e.Kind)
					c.busy[n].Unlock()
					return
				}
			}
		case killWeb:
			// The queues are silent first, so that a request dies between its row and
			// its message.
			c.proxy.Begin(inject.Burst{Service: azstore.Queues, Fault: inject.Silence, Share: 1, Length: 3 * time.Second})
			load.Pause(ctx, 1500*time.Millisecond)
			c.signal(web, stack.Die, e.Kind)
		case termWorker:
			if c.busy[e.Worker].TryLock() { // a frozen process does not drain
				defer c.busy[e.Worker].Unlock()
				c.signal(name, stack.Term, e.Kind)
			}
		case termWeb:
			c.signal(web, stack.Term, e.Kind)
		case stopWorker:
			if c.busy[e.Worker].TryLock() {
				defer c.busy[e.Worker].Unlock()
				c.signal(name, stack.Halt, e.Kind)
				load.Pause(ctx, e.For)
				_ = c.stack.Kill(name, stack.Wake)
			}
		case stopWeb:
			c.signal(web, stack.Halt, e.Kind)
			load.Pause(ctx, e.For)
			_ = c.stack.Kill(web, stack.Wake)
		case killFFmpeg:
			if pid := proc.Child(c.stack.Pid(name), "ffmpeg"); pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
				c.count(string(e.Kind))
			}
		case zombie:
			c.freeze(ctx, number, e)
		case lateCommit:
			c.late(ctx)
		case clearQueue:
			c.clear(ctx)
		}
	})
}

func (c *chaos) signal(name string, sig os.Signal, k kind) {
	if c.stack.Kill(name, sig) == nil { // it may be down already
		c.count(string(k))
	}
}

// Bounds for a zombie: to come to its point, and to be overtaken there.
const (
	comesToPoint = 40 * time.Second
	isOvertaken  = 90 * time.Second
)

// freeze restarts a worker so that it stops itself at its point, and wakes it
// when another worker has done its work. What has begun goes on to its end when
// the load is over.
func (c *chaos) freeze(ctx context.Context, number int, e event) {
	if !c.busy[e.Worker].TryLock() {
		return
	}
	defer c.busy[e.Worker].Unlock()
	name := c.workers[e.Worker]
	marker := filepath.Join(c.dir, fmt.Sprintf("zombie-%d", number))
	if err := c.stack.Restart(ctx, name, "CUTROOM_FAILPOINT="+e.Point+":stop:"+marker); err != nil {
		return // storage is in trouble: the supervisor starts it again
	}
	for deadline := time.Now().Add(comesToPoint); ctx.Err() == nil && time.Now().Before(deadline); load.Pause(ctx, 50*time.Millisecond) {
		if _, err := os.Stat(marker); err != nil {
			continue
		}
		c.count(string(zombie))
		step, _, _ := strings.Cut(e.Point, "/")
		var stopped []stepID
		for seen := time.Now().Add(comesToPoint); len(stopped) == 0 && time.Now().Before(seen); time.Sleep(2 * watchEvery) {
			stopped = slices.DeleteFunc(c.watcher.atWork(workerName(e.Worker)), func(id stepID) bool { return stepName(id.key) != step })
		}
		if step == "finish" {
			c.repeat(stopped)
		}
		if c.awaitOvertaken(stopped) {
			c.count("zombie overtaken")
		}
		break
	}
	_ = os.WriteFile(marker, nil, 0o600) // from now on the point lets all pass
	_ = c.stack.Kill(name, stack.Wake)
}

// awaitOvertaken waits until others have done steps, or they are not wanted any
// more, and reports whether they are done.
func (c *chaos) awaitOvertaken(steps []stepID) bool {
	for end := time.Now().Add(isOvertaken); len(steps) > 0 && time.Now().Before(end); time.Sleep(watchEvery) {
		if open, done := c.watcher.progress(steps); !open {
			return done
		}
	}
	return false
}

// repeat delivers a part of each video once more, as queues do and as senders
// do whose reply was lost: while the video is being finished, the part must find
// that everything is promised already.
func (c *chaos) repeat(finishing []stepID) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	for _, id := range finishing {
		if c.storage.sendAgain(ctx, id) == nil {
			c.count("part delivered again")
		}
	}
}

// commitOfPart finds the row of a part, and who sends it, in a transaction that
// commits one.
var commitOfPart = regexp.MustCompile(`"PartitionKey":"([a-z2-7]+)"[^\n]*"RowKey":"(STEP:[0-9]+:(?:encode|audio):[0-9]+)"[^\n]*"State":"done"[^\n]*"Worker":"([^"]+)"`)

// committed is which step a parcel commits, and for whom.
func committed(p *inject.Held) (step stepID, worker string) {
	found := p.Found()
	return stepID{found[0], found[1]}, found[2]
}

// late kills a worker whose commit is under way, and lets the request arrive
// when another attempt has committed the step. A worker that is only frozen
// stops at the end of its lease when it wakes; a packet knows of no lease.
func (c *chaos) late(ctx context.Context) {
	waiting, stop := context.WithTimeout(ctx, comesToPoint)
	defer stop()
	for waiting.Err() == nil {
		parcel := c.proxy.Hold(commitOfPart)
		select {
		case <-parcel.Caught():
		case <-waiting.Done():
			parcel.Release()
			return
		}
		step, worker := committed(parcel)
		var n int
		if _, err := fmt.Sscanf(worker, workerPrefix+"%d", &n); err != nil || !c.busy[n].TryLock() { // something else is being done to it
			parcel.Release()
			continue
		}
		parcel.Lose()
		c.watcher.killed(worker)
		c.signal(c.workers[n], stack.Die, lateCommit)
		c.busy[n].Unlock()
		if c.awaitOvertaken([]stepID{step}) {
			c.count("late commit overtaken")
		}
		parcel.Release()
		return
	}
}

// clear empties all queues that hold something, by the operator's route.
func (c *chaos) clear(ctx context.Context) {
	for range 20 {
		lengths, err := c.storage.queues(ctx)
		if err != nil {
			return
		}
		cleared := false
		for name, length := range lengths {
			if length == 0 || strings.HasSuffix(name, "-poison") {
				continue
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.stack.AdminURL(c.webs[0])+"/api/v1/ops/queues/"+name+"/clear", nil)
			if err != nil {
				return
			}
			if res, err := scraper.Do(req); err == nil {
				_ = res.Body.Close()
				cleared = cleared || res.StatusCode == http.StatusNoContent
			}
		}
		if cleared {
			c.count(string(clearQueue))
			return
		}
		load.Pause(ctx, 200*time.Millisecond)
	}
}

// end wakes whatever is frozen and waits for events under way.
func (c *chaos) end() {
	c.wg.Wait()
	for _, name := range c.stack.Names() {
		_ = c.stack.Kill(name, stack.Wake)
	}
}
