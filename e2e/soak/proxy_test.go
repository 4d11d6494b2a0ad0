package soak

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/azurite"
	"github.com/cutroom/cutroom/shared/blobstore"
	"github.com/cutroom/cutroom/shared/tablestore"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// Every fault does what its name says, to one service and to no other, and
// signatures hold. The calls have no retries: what a caller sees is the fault.
func TestFaultsDoWhatTheyAreCalled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs Azurite")
	}
	t.Parallel()
	emulator, err := azurite.Start(t.Context(), azurite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := emulator.Stop(); err != nil {
			t.Error(err)
		}
	})
	direct, err := azstorage.Open(azstorage.Config{ConnectionString: emulator.ConnectionString()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.CloseIdle)
	p, err := startProxy(emulator.ConnectionString(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	account, err := azstorage.Open(azstorage.Config{
		ConnectionString: p.connection, Retry: azstorage.Retry{Strategy: azstorage.NoRetry, TryTimeout: 5 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.CloseIdle)
	if err := direct.Ensure(t.Context(), []string{"things"}, nil, []string{"things"}); err != nil {
		t.Fatal(err)
	}
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

// The same seed gives the same plan.
func TestSeedDecidesThePlan(t *testing.T) {
	t.Parallel()
	text := func(seed uint64) string {
		var b strings.Builder
		makePlan(seed, 10*time.Minute, 3, visibility).print(&b)
		return b.String()
	}
	first := text(7)
	if again := text(7); again != first {
		t.Error("one seed, two plans")
	}
	if first == text(8) {
		t.Error("two seeds, one plan")
	}
	for _, want := range []kind{killWorker, killWeb, termWorker, termWeb, stopWorker, stopWeb, killFFmpeg, zombie, clearQueue} {
		if !strings.Contains(text(7), string(want)) {
			t.Errorf("ten minutes without %q", want)
		}
	}
}
