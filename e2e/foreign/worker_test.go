package foreign_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

const queue = "greetings"

var spec = azq.Spec{
	Name: queue, Kinds: []string{"greet", "paint"}, Pool: "light",
	MaxIdlePoll: 200 * time.Millisecond, MaxFailures: 50,
}

// program is a child process whose lines of output are kept.
type program struct {
	cmd  *exec.Cmd
	read sync.WaitGroup

	mu    sync.Mutex
	lines []string
}

// start runs a program on the emulator until the test ends.
func start(t *testing.T, env []string, name string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(name, args...)}
	p.cmd.Env = append(append(os.Environ(), "AZURE_STORAGE_CONNECTION_STRING="+azuritetest.ConnectionString(t)), env...)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // no error matters: it may have ended
		p.read.Wait()
		_ = p.cmd.Wait()
	})
	return p
}

func (p *program) output() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// says waits until the program has printed all these lines.
func (p *program) says(t *testing.T, want ...string) {
	t.Helper()
	azuritetest.Eventually(t, 30*time.Second, func() error {
		got := p.output()
		for _, line := range want {
			if !slices.Contains(got, line) {
				return fmt.Errorf("it has not said %q but %q", line, got)
			}
		}
		return nil
	})
}

// stop asks the program to end and waits for it.
func (p *program) stop(t *testing.T, how os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(how); err != nil {
		t.Fatal(err)
	}
	p.read.Wait()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// node starts worker.mjs on the queue.
func node(t *testing.T, a *azstore.Account, env ...string) *program {
	t.Helper()
	installed(t)
	settings := []string{"AZQ_PREFIX=" + a.Prefix(), "AZQ_QUEUE=" + queue, "AZQ_PAUSE=1", "AZQ_MAX_FAILURES=50"}
	return start(t, append(settings, env...), "node", "worker.mjs")
}

// installed wants Node's libraries.
func installed(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the storage emulator and Node, which -short leaves out")
	}
	if _, err := os.Stat("node_modules/@azure/data-tables"); err != nil {
		t.Fatal("the worker's libraries are not installed: run 'make bootstrap', or 'npm ci' in e2e/foreign")
	}
}

// Q6: what the foreign worker does not know stays in the message, and messages that
// it does not know go back at no cost. A worker of ours then does the work.
func TestForeignWorkerKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	queues := azqtest.Open(t, a, spec)
	typeOf := func(step string, version int) string {
		return `"specversion":"1.0","type":"` + azq.Item{Kind: step, Version: version}.Type() + `"`
	}
	unknown := `"region":{"b":1.50,"a":"\u00e9<&>","c":[true,null]}`
	azqtest.SendText(t, a, queue, `{"id":"known",`+typeOf("greet", 1)+`,"data":{"name":"Ada"}}`)
	azqtest.SendText(t, a, queue, `{"id":"failing",`+unknown+`,`+typeOf("greet", 1)+`,"data":{"name":""}}`)
	azqtest.SendText(t, a, queue, `{"id":"newer",`+unknown+`,`+typeOf("greet", 2)+`,"data":{"names":["Ada"]}}`)
	azqtest.SendText(t, a, queue, `{"id":"other",`+unknown+`,`+typeOf("paint", 1)+`}`)
	foreign := node(t, a)
	foreign.says(t, "done known", "failed failing", "put back newer", "put back other")
	foreign.stop(t, syscall.SIGTERM)

	var mu sync.Mutex
	got := map[string]azq.Item{}
	ours := azq.HandlerFunc(func(_ context.Context, job *azq.RawJob) error {
		mu.Lock()
		defer mu.Unlock()
		got[job.Item.ID] = job.Item
		if raw, err := job.Item.JSON(); err != nil || !strings.Contains(string(raw), unknown) {
			t.Errorf("%s is %s, %v; want %s in it", job.Item.ID, raw, err, unknown)
		}
		if n := job.Item.Unexplained(job.DequeueCount); n != 0 {
			t.Errorf("%s: %d deliveries that nothing explains", job.Item.ID, n)
		}
		return nil
	})
	azqtest.Start(t, queues, map[string]azq.Handler{"greet": ours, "paint": ours}, func(o *azq.Options) { o.Version = 2 })
	azqtest.WaitEmpty(t, queues.Queue(queue))
	mu.Lock()
	defer mu.Unlock()
	if f := got["failing"]; f.Failures == 0 || !strings.Contains(f.LastError, "no name to greet") {
		t.Errorf("the failure is not recorded: %+v", f)
	}
	if got["newer"].Snoozes == 0 || got["other"].Snoozes == 0 || got["newer"].Failures+got["other"].Failures > 0 {
		t.Errorf("what went back was not counted as snoozes: %+v, %+v", got["newer"], got["other"])
	}
	if len(got) != 3 {
		t.Errorf("%d items reached our worker, want 3", len(got))
	}
}

// Q1: workers in two languages compete for the items of one queue. Each item is
// done once.
func TestForeignWorkerAndOursShareAQueue(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	queues := azqtest.Open(t, a, spec)
	foreign := node(t, a)
	nothing := azq.HandlerFunc(func(context.Context, *azq.RawJob) error { return nil })
	ours := azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error { time.Sleep(50 * time.Millisecond); return nil }}
	azqtest.Start(t, queues, map[string]azq.Handler{"greet": &ours, "paint": nothing},
		func(o *azq.Options) { o.Pools = map[string]int{"light": 1} })
	sent := 0
	azuritetest.Eventually(t, 60*time.Second, func() error { // until both have had some
		for range 10 {
			item, err := azq.NewItem("greet", "people", fmt.Sprint("item-", sent), person{"Ada"})
			if err != nil {
				t.Fatal(err)
			}
			azqtest.Send(t, queues, queue, item)
			sent++
		}
		if len(foreign.output()) < 5 || len(ours.IDs()) < 5 {
			return errors.New("one of the two has nothing to do")
		}
		return nil
	})
	azqtest.WaitEmpty(t, queues.Queue(queue))
	foreign.stop(t, syscall.SIGTERM)
	done := map[string]int{}
	for _, line := range foreign.output() {
		done[strings.TrimPrefix(line, "done ")]++
	}
	for _, id := range ours.IDs() {
		done[id]++
	}
	for i := range sent {
		if n := done[fmt.Sprint("item-", i)]; n != 1 {
			t.Errorf("item-%d was done %d times", i, n)
		}
	}
	t.Logf("%d items: %d here, %d there", sent, len(ours.IDs()), len(foreign.output()))
}

// What Node puts aside, our operations list and send again.
func TestPoisonOfTheForeignWorkerIsRedriven(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	queues := azqtest.Open(t, a, spec)
	text := `{"id":"failing","specversion":"1.0","type":"azq.work.greet.v1","subject":"people","data":{"name":""}}`
	azqtest.SendText(t, a, queue, text)
	foreign := node(t, a, "AZQ_MAX_FAILURES=1")
	aside := azqtest.WaitPoison(t, queues, 1)[0]
	if aside.ItemID != "failing" || aside.Subject != "people" || aside.Failures != 1 || aside.DequeueCount != 1 ||
		aside.PoisonedAt.Before(aside.Inserted) || aside.Inserted.IsZero() || !strings.Contains(aside.Reason, "no name") {
		t.Errorf("the row is %+v", aside)
	}
	foreign.says(t, "poison failing")
	foreign.stop(t, syscall.SIGTERM)
	if _, err := queues.Redrive(t.Context(), aside.ID); err != nil {
		t.Fatal(err)
	}
	copies, err := a.Queue(azq.PoisonName(queue)).GetProperties(t.Context(), nil)
	if err != nil || *copies.ApproximateMessagesCount != 0 {
		t.Errorf("%v copies are left in the poison queue, %v", copies.ApproximateMessagesCount, err)
	}
	var ours azqtest.Recorder
	azqtest.Start(t, queues, map[string]azq.Handler{"greet": &ours, "paint": &ours})
	azqtest.WaitEmpty(t, queues.Queue(queue))
	if !slices.Equal(ours.IDs(), []string{"failing"}) {
		t.Errorf("our worker got %q", ours.IDs())
	}
}
