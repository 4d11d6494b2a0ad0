package enginetest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// bench is a product in use: names of its own in the emulator, and worker processes.
type bench struct {
	*testing.T
	account *azstore.Account
	store   *enginetest.Store
	queues  *azq.Client
	blobs   *blobstore.Store
	order   order // of its workers

	mu    sync.Mutex
	lists map[engine.ID][]int // the numbers of every sum
}

// knows notes the numbers of a sum, for the oracle.
func (b *bench) knows(id engine.ID, numbers []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lists[id] = numbers
}

func newBench(t *testing.T, visibility time.Duration) *bench {
	t.Helper()
	b := &bench{T: t, account: azuritetest.Account(t), lists: map[engine.ID][]int{}}
	b.blobs = blobstore.New(b.account)
	b.order = order{
		Connection: azuritetest.ConnectionString(t), Prefix: b.account.Prefix(), Scratch: t.TempDir(),
		Visibility: visibility, Told: filepath.Join(t.TempDir(), "told"),
	}
	b.store, b.queues = b.upkeeper().Sums()
	b.must(b.account.Ensure(t.Context(), enginetest.SumNames))
	b.must(b.queues.Ensure(t.Context()))
	return b
}

// upkeeper is the worker that this process would be.
func (b *bench) upkeeper() enginetest.Worker {
	return enginetest.Worker{Account: b.account, Visibility: b.order.Visibility, Log: slog.New(slog.DiscardHandler)}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// process is a worker of its own.
type process struct {
	*exec.Cmd
	in      *os.File
	reached chan string // the line that it writes at its point
	end     func() error
}

func (b *bench) start(change func(*order)) *process {
	b.Helper()
	o := b.order
	change(&o)
	text, err := json.Marshal(o)
	b.must(err)
	p := &process{Cmd: exec.Command(os.Args[0]), reached: make(chan string, 1)}
	p.Env = append(os.Environ(), workerVariable+"="+string(text))
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	b.must(err)
	theirs, in, err := os.Pipe()
	b.must(err)
	p.Stdin, p.in = theirs, in
	b.must(p.Start())
	_ = theirs.Close()
	go func() {
		defer close(p.reached)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.reached <- lines.Text()
		}
	}()
	p.end = sync.OnceValue(func() error {
		_ = p.Process.Signal(syscall.SIGCONT)
		err := p.Wait()
		_ = in.Close()
		return err
	})
	b.Cleanup(func() { _ = p.Process.Kill(); _ = p.end() })
	return p
}

// await waits until the worker is at its point.
func (b *bench) await(p *process) {
	b.Helper()
	select {
	case line := <-p.reached:
		if !strings.HasPrefix(line, "at ") {
			b.Fatalf("the worker says %q", line)
		}
	case <-time.After(azuritetest.Patience(time.Minute)):
		b.Fatal("the worker does not come to its point")
	}
}

// goOn lets a worker go on that waits at its point.
func (p *process) goOn() { _, _ = p.in.WriteString("\n") }

// drain ends a worker in good order.
func (b *bench) drain(p *process) {
	b.Helper()
	b.must(p.Process.Signal(syscall.SIGTERM))
	b.must(p.end())
}

// upload creates a sum, whose first step is then promised.
func (b *bench) upload(numbers ...int) engine.ID {
	b.Helper()
	sum := enginetest.Awaiting()
	_, err := b.store.Create(b.Context(), sum)
	b.must(err)
	b.must(enginetest.PutNumbers(b.Context(), b.blobs, sum.ID, numbers))
	_, err = b.store.Uploaded(b.Context(), sum.ID, enginetest.Epoch, "etag")
	b.must(err)
	b.knows(sum.ID, numbers)
	return sum.ID
}

// wrong says what is wrong with what a sum serves: the oracle.
func (b *bench) wrong(sum enginetest.Sum) error {
	total, squares := 0, 0
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.lists[sum.ID] {
		total, squares = total+n, squares+n*n
	}
	if sum.Total != total || sum.Squares != squares {
		return fmt.Errorf("%s is %d and %d, want %d and %d", sum.ID, sum.Total, sum.Squares, total, squares)
	}
	return nil
}

// ready waits until a sum and its report are right.
func (b *bench) ready(id engine.ID) {
	b.Helper()
	azuritetest.Eventually(b, time.Minute, func() error {
		rec, err := b.store.Get(b.Context(), id)
		if err != nil || rec.Subject.State != engine.Ready {
			return fmt.Errorf("%s is not ready but %s, %w", id, rec.Subject.State, orNot(err))
		}
		if err := b.wrong(rec.Subject); err != nil {
			b.Fatal(err)
		}
		if _, reported := rec.Meta().MadeBy(enginetest.Report, rec.Subject.Serving); !reported {
			return fmt.Errorf("%s has no report", id)
		}
		return nil
	})
}

var errNot = errors.New("and should not be")

// orNot is an error, or one that says that what was read should be something else.
func orNot(err error) error {
	if err != nil {
		return err
	}
	return errNot
}

// average asks for an average of the first numbers.
func (b *bench) average(id engine.ID, length int) engine.Key {
	b.Helper()
	key := engine.Key{ID: id, Generation: 1, Step: enginetest.Average, Index: 0, Length: length}
	_, err := b.ask(key)
	b.must(err)
	return key
}

// ask asks for an average unless it is asked for.
func (b *bench) ask(key engine.Key) (engine.Run, error) {
	return b.store.Request(b.Context(), key, func(_ enginetest.Sum, run *engine.Run) (bool, error) {
		return run.State == "" || run.State == engine.RunFailed, nil
	})
}

// averaged waits until an average is made and right.
func (b *bench) averaged(key engine.Key) {
	b.Helper()
	want := 0
	for _, n := range b.lists[key.ID][key.Index : key.Index+key.Length] {
		want += n
	}
	azuritetest.Eventually(b, time.Minute, func() error {
		run, err := b.store.ReadRun(b.Context(), key)
		if err != nil || run.State != engine.RunDone {
			return fmt.Errorf("%s is %s, %w", key, run.State, orNot(err))
		}
		made, err := engine.OutputOf[enginetest.Made](run)
		if err != nil || made.Value != want/key.Length {
			b.Fatalf("%s is %+v, %v; want %d", key, made, err, want/key.Length)
		}
		return nil
	})
}

// rows are those of a table, by their keys.
func (b *bench) rows(table string) map[string]tablestore.Entity {
	b.Helper()
	rows := map[string]tablestore.Entity{}
	for row, err := range tablestore.New(b.account, table).Query(b.Context(), tablestore.Query{Class: tablestore.Scan}) {
		b.must(err)
		rows[row.PartitionKey+" "+row.RowKey] = row
	}
	return rows
}

// truth is the version of every row of the sums: equal means untouched.
func (b *bench) truth() map[string]string {
	b.Helper()
	versions := map[string]string{}
	for key, row := range b.rows("sums") {
		versions[key] = row.ETag
	}
	return versions
}

// names are those of all blobs.
func (b *bench) names() (names []string) {
	b.Helper()
	for _, container := range []string{engine.SourcesContainer, engine.MediaContainer, azq.ClaimsContainer} {
		for blob, err := range b.blobs.List(b.Context(), container, "") {
			b.must(err)
			names = append(names, blob.Name)
		}
	}
	return names
}

// atRest waits until no message, promise or mark is left, while upkeep runs, which has no
// patience: nothing may be under way but what messages ask for.
func (b *bench) atRest() {
	b.Helper()
	reconciler, janitor := b.upkeeper().Upkeeper(0)
	azuritetest.Eventually(b, time.Minute, func() error {
		for _, queue := range b.queues.Specs() {
			if state, err := b.queues.Queue(queue.Name).Length(b.Context()); err != nil || state.Length > 0 {
				return fmt.Errorf("queue %s has %d messages, %w", queue.Name, state.Length, orNot(err))
			}
		}
		_, err := reconciler.Pass(b.Context())
		b.must(err)
		if marks := b.rows(engine.InflightTable); len(marks) > 0 {
			return fmt.Errorf("marks are left: %v", slices.Collect(maps.Keys(marks)))
		}
		return nil
	})
	_, err := janitor.Pass(b.Context())
	b.must(err)
	b.clean()
}

// clean says what is left behind: outbox rows, runs that are not done, blobs that no row
// names, poison, runs that were committed twice.
func (b *bench) clean() {
	b.Helper()
	named := []string{}
	for id := range b.lists {
		view, err := b.store.ViewWithRequests(b.Context(), id, true)
		if errors.Is(err, engine.ErrNotFound) {
			continue
		}
		b.must(err)
		named = append(named, enginetest.Source(id))
		if view.Unsent {
			b.Errorf("%s: the outbox is full", id)
		}
		for _, run := range view.Runs {
			done := slices.DeleteFunc(run.AllAttempts(), func(a engine.Attempt) bool { return a.Outcome != engine.OutcomeDone })
			if run.State == engine.RunRunning || run.State == engine.RunDone && len(done) != 1 {
				b.Errorf("%s is %s, by %d attempts", run.Key, run.State, len(done))
			}
			if run.State == engine.RunDone {
				named = append(named, run.Key.BlobPrefix(run.Attempt))
			}
		}
		copied, listed := b.rows(enginetest.TotalsTable)[string(id)+" SUM"]
		if !listed || copied.Int("Total") != view.Subject.Total || !copied.Time("UpdatedAt").Equal(view.Subject.UpdatedAt) {
			b.Errorf("the copy of %s is %v, of %+v", id, copied.Props, view.Subject)
		}
	}
	for _, name := range b.names() {
		if !slices.ContainsFunc(named, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			b.Errorf("blob %s is left", name)
		}
	}
	if poison := b.rows(azq.PoisonTable); len(poison) > 0 {
		b.Errorf("poison: %v", poison)
	}
	b.onceCommitted()
}

// onceCommitted reads what the workers have told of their commits.
func (b *bench) onceCommitted() {
	b.Helper()
	text, err := os.ReadFile(b.order.Told)
	b.must(err)
	commits := strings.Fields(string(text))
	slices.Sort(commits)
	if once := slices.Compact(slices.Clone(commits)); len(once) < len(commits) {
		b.Errorf("runs were committed twice:\n%s", cmp.Diff(once, commits))
	}
}

// gone deletes a sum and waits until nothing is left of it.
func (b *bench) gone(id engine.ID) {
	b.Helper()
	_, err := b.store.Delete(b.Context(), id, "")
	b.must(err)
	b.erased(id)
}

func (b *bench) erased(id engine.ID) {
	b.Helper()
	azuritetest.Eventually(b, time.Minute, func() error {
		if _, err := b.store.Get(b.Context(), id); !errors.Is(err, engine.ErrNotFound) {
			return fmt.Errorf("%s is not gone: %w", id, orNot(err))
		}
		return nil
	})
	b.atRest()
	for _, table := range enginetest.SumNames.Tables {
		for key := range b.rows(table) {
			if strings.HasPrefix(key, string(id)) {
				b.Errorf("%s has %s", table, key)
			}
		}
	}
	for _, name := range b.names() {
		if strings.HasPrefix(name, engine.Prefix(id)) {
			b.Errorf("blob %s of an erased sum", name)
		}
	}
}
