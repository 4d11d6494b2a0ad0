package soak

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/azurite"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/tablestore"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// behindProxy starts an emulator with a table and a container "things", and opens
// it directly, and through a proxy without retries.
func behindProxy(t *testing.T) (direct *azstorage.Account, p *proxy, through *azstorage.Account) {
	t.Helper()
	emulator, err := azurite.Start(t.Context(), azurite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := emulator.Stop(); err != nil {
			t.Error(err)
		}
	})
	if direct, err = azstorage.Open(azstorage.Config{ConnectionString: emulator.ConnectionString()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.CloseIdle)
	if p, err = startProxy(emulator.ConnectionString(), 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	through, err = azstorage.Open(azstorage.Config{
		ConnectionString: p.connection, Retry: azstorage.Retry{Strategy: azstorage.NoRetry, TryTimeout: 5 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(through.CloseIdle)
	if err := direct.Ensure(t.Context(), []string{"things"}, nil, []string{"things"}); err != nil {
		t.Fatal(err)
	}
	return direct, p, through
}

// Every fault does what its name says, to one service and to no other, and
// signatures hold. The calls have no retries: what a caller sees is the fault.
func TestFaultsDoWhatTheyAreCalled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs Azurite")
	}
	t.Parallel()
	direct, p, account := behindProxy(t)
	table, blobs := tablestore.New(account.Table("things")), blobstore.New(account)
	insert := func(key string) error {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		_, err := table.Insert(ctx, tablestore.Entity{PartitionKey: "p", RowKey: key})
		return err
	}
	there := func(key string) bool {
		_, err := tablestore.New(direct.Table("things")).Get(t.Context(), "p", key)
		if err != nil && !errors.Is(err, tablestore.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}

	for _, test := range []struct {
		fault   Fault
		length  time.Duration
		fails   bool
		applied bool
		slow    bool
	}{
		{Busy, time.Minute, true, false, false},
		{Reset, time.Minute, true, false, false},
		{LostReply, time.Minute, true, true, false},
		{BlackHole, 700 * time.Millisecond, true, false, true},
		{Delay, 700 * time.Millisecond, false, true, true},
		{Late, 700 * time.Millisecond, false, true, true},
	} {
		key := strings.ReplaceAll(string(test.fault), " ", "-")
		p.begin(burst{Service: Table, Fault: test.fault, Share: 1, Length: test.length})
		start := time.Now()
		err := insert(key)
		took := time.Since(start)
		p.calm()
		if (err != nil) != test.fails {
			t.Errorf("%s: %v, want an error: %v", test.fault, err, test.fails)
		}
		if got := there(key); got != test.applied {
			t.Errorf("%s: applied %v, want %v", test.fault, got, test.applied)
		}
		if test.slow && took < 500*time.Millisecond {
			t.Errorf("%s: took %v", test.fault, took)
		}
		if n := p.happened()[Table+" "+string(test.fault)]; n == 0 {
			t.Errorf("%s is not counted", test.fault)
		}
	}

	content := bytes.Repeat([]byte("0123456789"), 50_000)
	p.begin(burst{Service: Table, Fault: Busy, Share: 1, Length: time.Minute}) // not for blobs
	if _, err := blobs.Put(t.Context(), "things", "a", bytes.NewReader(content), int64(len(content)), blobstore.Options{}); err != nil {
		t.Fatal(err)
	}
	read := func() ([]byte, error) {
		body, _, err := blobs.Open(t.Context(), "things", "a", blobstore.Range{}, "")
		if err != nil {
			return nil, err
		}
		defer func() { _ = body.Close() }()
		return io.ReadAll(body)
	}
	if got, err := read(); err != nil || !bytes.Equal(got, content) {
		t.Errorf("through a calm proxy: %d bytes, %v", len(got), err)
	}
	p.begin(burst{Service: Blob, Fault: Cut, Share: 1, Length: time.Minute})
	_, _ = read() // the store may read on from where the answer ended
	if n := p.happened()[Blob+" "+string(Cut)]; n == 0 {
		t.Error("no answer was cut")
	}
}

// A commit that is held arrives after its sender has gone and another attempt has
// committed, and the service refuses it.
func TestLateCommitArrives(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs Azurite")
	}
	t.Parallel()
	direct, p, account := behindProxy(t)
	table := tablestore.New(account.Table("things"))
	key := "STEP:00001:encode:00002"
	at := func(attempt, state string) tablestore.Entity {
		return tablestore.Entity{PartitionKey: "abc234", RowKey: key, Props: map[string]any{"Attempt": attempt, "State": state, "Worker": "soak-1", "Output": "{}"}}
	}
	etag, err := table.Insert(t.Context(), at("first", "running"))
	if err != nil {
		t.Fatal(err)
	}
	unwanted, parcel := p.hold(), p.hold()
	unwanted.release()
	sender, dies := context.WithCancel(t.Context())
	sent := make(chan error, 1)
	go func() {
		_, err := table.Submit(sender, []tablestore.Op{{Kind: tablestore.OpReplace, Entity: at("first", "done"), IfMatch: etag}})
		sent <- err
	}()
	select {
	case <-parcel.caught:
	case err := <-sent:
		t.Fatalf("the commit was not held: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("no commit was found")
	}
	if want := (stepID{"abc234", key}); parcel.step != want || parcel.worker != "soak-1" {
		t.Errorf("held %v by %s, want %v by soak-1", parcel.step, parcel.worker, want)
	}
	dies()
	if err := <-sent; err == nil {
		t.Error("the sender has an answer")
	}
	if _, err := tablestore.New(direct.Table("things")).Update(t.Context(), at("second", "done"), etag); err != nil {
		t.Fatal(err)
	}
	parcel.late.Store(true)
	parcel.release()
	for deadline := time.Now().Add(10 * time.Second); p.happened()[Table+" "+string(Refused)] == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("the late commit was not refused: %v", p.happened())
		}
		pause(t.Context(), 20*time.Millisecond)
	}
}

// Every mutation changes a text that is there: one that follows the code no longer
// would say nothing about the soak.
func TestMutationsFollowTheCode(t *testing.T) {
	t.Parallel()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Mutations {
		for _, e := range m.Edits {
			text, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				t.Error(err)
			}
			if n := strings.Count(string(text), e.Old); n != 1 {
				t.Errorf("%s: %s has the text %d times, want once: %s", m.Name, e.File, n, e.Old)
			}
		}
	}
}

// A role that grows is found, one that starts small is not.
func TestMemoryThatGrows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		length      time.Duration
		first, last int64 // MiB
		want        bool
	}{
		{warm, 30, 40, false}, {warm, 30, 60, true}, {warm, 4, 12, false}, {warm, 300, 400, false}, {warm, 300, 500, true}, {warm, 0, 500, false},
		{2 * time.Minute, 30, 60, false},
	} {
		if got := grows(test.length, test.first<<20, test.last<<20); got != test.want {
			t.Errorf("from %d to %d MiB in %v: %v", test.first, test.last, test.length, got)
		}
	}
}

// The same seed gives the same plan.
func TestSeedDecidesThePlan(t *testing.T) {
	t.Parallel()
	text := func(seed uint64) string {
		var b strings.Builder
		makePlan(seed, 10*time.Minute).print(&b)
		return b.String()
	}
	first := text(7)
	if again := text(7); again != first {
		t.Error("one seed, two plans")
	}
	if first == text(8) {
		t.Error("two seeds, one plan")
	}
	for _, c := range clips() {
		if !strings.Contains(first, c.name) {
			t.Errorf("ten minutes without %s", c.name)
		}
	}
	for _, want := range []kind{killWorker, killWeb, termWorker, termWeb, stopWorker, stopWeb, killFFmpeg, zombie, lateCommit, clearQueue} {
		if !strings.Contains(text(7), string(want)) {
			t.Errorf("ten minutes without %q", want)
		}
	}
}
