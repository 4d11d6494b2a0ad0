package inject_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// behindProxy starts an emulator with a table and a container "things", and opens
// it directly, and through a proxy without retries.
func behindProxy(t *testing.T) (direct *azstore.Account, p *inject.Proxy, through *azstore.Account) {
	t.Helper()
	emulator, err := azurite.Start(t.Context(), azurite.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := emulator.Stop(); err != nil {
			t.Error(err)
		}
	})
	if direct, err = azstore.Open(azstore.Config{ConnectionString: emulator.ConnectionString()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(direct.CloseIdle)
	if p, err = inject.Start(emulator.ConnectionString(), 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	through, err = azstore.Open(azstore.Config{
		ConnectionString: p.ConnectionString(), Retry: azstore.Retry{Strategy: azstore.NoRetry, TryTimeout: 5 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(through.CloseIdle)
	if err := direct.Ensure(t.Context(), azstore.Names{Containers: []string{"things"}, Tables: []string{"things"}}); err != nil {
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
	table, blobs := tablestore.New(account, "things"), blobstore.New(account)
	insert := func(key string) error {
		ctx, stop := context.WithTimeout(t.Context(), azuritetest.Patience(5*time.Second))
		defer stop()
		_, err := table.Insert(ctx, tablestore.Entity{PartitionKey: "p", RowKey: key})
		return err
	}
	there := func(key string) bool {
		_, err := tablestore.New(direct, "things").Get(t.Context(), "p", key)
		if err != nil && !errors.Is(err, tablestore.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}

	for _, test := range []struct {
		fault   inject.Fault
		length  time.Duration
		fails   bool
		applied bool
		slow    bool
	}{
		{inject.ServerBusy, time.Minute, true, false, false},
		{inject.Reset, time.Minute, true, false, false},
		{inject.LostReply, time.Minute, true, true, false},
		{inject.Silence, 700 * time.Millisecond, true, false, true},
		{inject.Delay, 700 * time.Millisecond, false, true, true},
		{inject.Late, 700 * time.Millisecond, false, true, true},
	} {
		key := strings.ReplaceAll(string(test.fault), " ", "-")
		p.Begin(inject.Burst{Service: azstore.Tables, Fault: test.fault, Share: 1, Length: test.length})
		start := time.Now()
		err := insert(key)
		took := time.Since(start)
		p.Calm()
		if (err != nil) != test.fails {
			t.Errorf("%s: %v, want an error: %v", test.fault, err, test.fails)
		}
		if got := there(key); got != test.applied {
			t.Errorf("%s: applied %v, want %v", test.fault, got, test.applied)
		}
		if test.slow && took < 500*time.Millisecond {
			t.Errorf("%s: took %v", test.fault, took)
		}
		if n := p.Met(azstore.Tables, test.fault); n == 0 {
			t.Errorf("%s is not counted", test.fault)
		}
	}

	content := bytes.Repeat([]byte("0123456789"), 50_000)
	p.Begin(inject.Burst{Service: azstore.Tables, Fault: inject.ServerBusy, Share: 1, Length: time.Minute}) // not for blobs
	if _, err := blobs.Put(t.Context(), "things", "a", content, blobstore.Options{}); err != nil {
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
	p.Begin(inject.Burst{Service: azstore.Blobs, Fault: inject.Cut, Share: 1, Length: time.Minute})
	_, _ = read() // the store may read on from where the answer ended
	if n := p.Met(azstore.Blobs, inject.Cut); n == 0 {
		t.Error("no answer was cut")
	}
}

// commit finds the row and its worker in a transaction that commits a step.
var commit = regexp.MustCompile(`"RowKey":"(STEP:[^"]+)"[^\n]*"State":"done"[^\n]*"Worker":"([^"]+)"`)

// A commit that is held arrives after its sender has gone and another attempt has
// committed, and the service refuses it.
func TestLateCommitArrives(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs Azurite")
	}
	t.Parallel()
	direct, p, account := behindProxy(t)
	table := tablestore.New(account, "things")
	key := "STEP:00001:encode:00002"
	at := func(attempt, state string) tablestore.Entity {
		return tablestore.Entity{PartitionKey: "abc234", RowKey: key, Props: map[string]any{"Attempt": attempt, "State": state, "Worker": "soak-1", "Output": "{}"}}
	}
	etag, err := table.Insert(t.Context(), at("first", "running"))
	if err != nil {
		t.Fatal(err)
	}
	unwanted, held := p.Hold(commit), p.Hold(commit)
	unwanted.Release()
	sender, dies := context.WithCancel(t.Context())
	sent := make(chan error, 1)
	go func() {
		_, err := table.Submit(sender, []tablestore.Op{{Kind: tablestore.OpReplace, Entity: at("first", "done"), IfMatch: etag}})
		sent <- err
	}()
	select {
	case <-held.Caught():
	case err := <-sent:
		t.Fatalf("the commit was not held: %v", err)
	case <-time.After(azuritetest.Patience(10 * time.Second)):
		t.Fatal("no commit was found")
	}
	if found := held.Found(); len(found) != 2 || found[0] != key || found[1] != "soak-1" {
		t.Errorf("held %q, want %s by soak-1", found, key)
	}
	dies()
	if err := <-sent; err == nil {
		t.Error("the sender has an answer")
	}
	if _, err := tablestore.New(direct, "things").Update(t.Context(), at("second", "done"), etag); err != nil {
		t.Fatal(err)
	}
	held.Lose()
	held.Release()
	azuritetest.Eventually(t, 10*time.Second, func() error {
		if p.Met(azstore.Tables, inject.LateRefused) == 0 {
			return fmt.Errorf("the late commit was not refused: %v", p.Happened())
		}
		return nil
	})
}

// A message is sent twice when that is wanted: the one that is meant, and only
// once more.
func TestRepeatSendsAMessageAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs Azurite")
	}
	t.Parallel()
	direct, p, account := behindProxy(t)
	if err := direct.Ensure(t.Context(), azstore.Names{Queues: []string{"things"}}); err != nil {
		t.Fatal(err)
	}
	var told []string
	p.Repeat(time.Now().Add(time.Minute), func(queue, text string) bool { return queue == "things" && text == "second" },
		func(_, text string) { told = append(told, text) })
	for _, text := range []string{"first", "second", "second", "third"} {
		if _, err := account.Queue("things").EnqueueMessage(t.Context(), text, nil); err != nil {
			t.Fatal(err)
		}
	}
	number := int32(32)
	got, err := direct.Queue("things").PeekMessages(t.Context(), &azqueue.PeekMessagesOptions{NumberOfMessages: &number})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range got.Messages {
		texts = append(texts, *m.MessageText)
	}
	if want := "first second second second third"; strings.Join(texts, " ") != want {
		t.Errorf("the queue holds %q, want %q", texts, want)
	}
	if len(told) != 1 || told[0] != "second" {
		t.Errorf("told of %q", told)
	}
}
