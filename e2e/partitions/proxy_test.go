package partitions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// through starts a proxy before the test's emulator and opens the same table
// with it and without.
func through(t *testing.T, cfg Config, retry azstore.Retry) (p *Proxy, proxied, direct *tablestore.Table) {
	t.Helper()
	return throughWith(t, cfg, retry, nil)
}

// throughWith is through with a transport of the caller's.
func throughWith(t *testing.T, cfg Config, retry azstore.Retry, transport policy.Transporter) (p *Proxy, proxied, direct *tablestore.Table) {
	t.Helper()
	p, err := Start(azuritetest.ConnectionString(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	plain := azuritetest.Account(t)
	if err := plain.Ensure(t.Context(), azstore.Names{Tables: []string{"rows"}}); err != nil {
		t.Fatal(err)
	}
	a, err := azstore.Open(azstore.Config{ConnectionString: p.ConnectionString(), Prefix: plain.Prefix(), Retry: retry, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.CloseIdle)
	return p, tablestore.New(a, "rows"), tablestore.New(plain, "rows")
}

var (
	once    = azstore.Retry{Strategy: azstore.NoRetry, TryTimeout: time.Minute}
	patient = azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 20, Delay: 100 * time.Millisecond, TryTimeout: time.Minute}
)

func row(pk, rk string) tablestore.Entity {
	return tablestore.Entity{PartitionKey: pk, RowKey: rk, Props: map[string]any{"Text": "é 'quoted' __ " + rk}}
}

// Everything that the SDK can ask comes through with its signature, also keys
// that need escapes.
func TestSignaturesHold(t *testing.T) {
	t.Parallel()
	p, table, direct := through(t, Config{}, once)
	ctx := t.Context()
	for i, key := range []string{"plain", "two words", "é", "a&b=c", "2011 New York City Marathon__Full", "100%25"[:3] + "x", "~t=$;,()"} {
		key = tablestore.EscapeKey(key)
		if _, err := table.Insert(ctx, row(key, "r")); err != nil {
			t.Fatal(err)
		}
		e, err := table.Get(ctx, key, "r")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.Update(ctx, e, e.ETag); err != nil {
			t.Fatal(err)
		}
		if _, err := table.Update(ctx, e, e.ETag); !errors.Is(err, tablestore.ErrChanged) {
			t.Errorf("a stale ETag: %v", err)
		}
		if _, err := table.Submit(ctx, []tablestore.Op{{Kind: tablestore.OpInsert, Entity: row(key, "s")}, {Kind: tablestore.OpDelete, Entity: row(key, "r")}}); err != nil {
			t.Fatal(err)
		}
		if _, err := direct.Get(ctx, key, "s"); err != nil {
			t.Error(err)
		}
		// Counted under the key: insert, get, two updates, and two operations.
		var got Count
		for _, c := range p.Stats().Partitions {
			if c.PartitionKey == key {
				got = c
			}
		}
		if got.Requests != 5 || got.Entities != 6 {
			t.Errorf("key %d, %q: %+v", i, key, got)
		}
	}
	if n := len(all(t, table, tablestore.Query{Class: tablestore.Scan})); n != 7 {
		t.Errorf("a scan found %d rows, want 7", n)
	}
}

func all(t *testing.T, table *tablestore.Table, q tablestore.Query) []string {
	t.Helper()
	var keys []string
	for e, err := range table.Query(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.PartitionKey+"/"+e.RowKey+"/"+e.String("Text"))
	}
	return keys
}

// Refusals look as the service's own: status, code, and no Retry-After.
func TestRefusalsAreTheServices(t *testing.T) {
	t.Parallel()
	p, table, _ := through(t, Config{Scale: 200}, once) // 10 entities/s
	var failed error
	for n := range 40 {
		if _, err := table.Upsert(t.Context(), row("hot", fmt.Sprint(n))); err != nil {
			failed = err
		}
	}
	if status, code, ok := azstore.Describe(failed); !ok || status != http.StatusServiceUnavailable || code != "ServerBusy" || !azstore.IsUnavailable(failed) {
		t.Fatalf("over the limit: %d %s %v", status, code, failed)
	}
	ops := make([]tablestore.Op, 100) // ten seconds' worth
	for i := range ops {
		ops[i] = tablestore.Op{Kind: tablestore.OpUpsert, Entity: row("hot", fmt.Sprint("t", i))}
	}
	// A machine that stood still has saved up a budget, which one transaction uses up.
	azuritetest.Eventually(t, time.Minute, func() error {
		if _, err := table.Submit(t.Context(), ops); !azstore.IsUnavailable(err) {
			return fmt.Errorf("a transaction over the limit: %w", err)
		}
		return nil
	})
	if s := p.Stats(); s.RefusedByPartition == 0 || s.Partitions[0].PartitionKey != "hot" {
		t.Errorf("counters: %+v", s)
	}
	// With the retry policy the same load only takes longer.
	_, table, direct := through(t, Config{Scale: 200}, patient)
	for n := range 30 {
		if _, err := table.Upsert(t.Context(), row("hot", fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(all(t, direct, tablestore.Query{PartitionKey: "hot"})); n != 30 {
		t.Errorf("%d rows, want 30", n)
	}
}

// Whatever the service does with the pages, the rows are those that Azurite has:
// none missing, none twice, in order. While ranges split and move.
func TestCutPagesLoseAndRepeatNothing(t *testing.T) {
	azuritetest.Slow(t, "makes thousands of requests")
	t.Parallel()
	p, table, direct := through(t, Config{Seed: 11, EmptyPages: 0.4, ShortPages: 0.4, Churn: 150 * time.Millisecond, MoveTime: 50 * time.Millisecond}, patient)
	ctx := t.Context()
	var ops []tablestore.Op
	for i := range 400 {
		ops = append(ops, tablestore.Op{Kind: tablestore.OpUpsert, Entity: row(fmt.Sprintf("p%02d", i%17), fmt.Sprintf("r%04d é", i))})
	}
	if err := table.SubmitAll(ctx, ops); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	at := func() string { return fmt.Sprintf("p%02d", random.IntN(19)) }
	queries := 0
	for deadline := time.Now().Add(8 * time.Second); time.Now().Before(deadline); queries++ {
		q := tablestore.Query{PageSize: int32(random.IntN(30)), Class: tablestore.Scan}
		switch random.IntN(4) {
		case 0:
			q.PartitionKey = at()
		case 1:
			q.PartitionKey, q.RowFrom = at(), fmt.Sprintf("r%04d", random.IntN(400))
		case 2:
			q.PartitionFrom, q.PartitionTo = at(), at()
		}
		if random.IntN(3) == 0 {
			q.Filter = "RowKey ge 'r0100' or Text eq 'x'"
		}
		if random.IntN(3) == 0 {
			q.Select = []string{"Text"}
		}
		if diff := cmp.Diff(all(t, direct, q), all(t, table, q)); diff != "" {
			t.Fatalf("%+v: through the proxy (-direct +proxy):\n%s", q, diff)
		}
		if e, err := table.Get(ctx, "p03", "r0003 é"); err != nil || e.RowKey == "" {
			t.Fatal(err)
		}
	}
	s := p.Stats()
	t.Logf("%d queries; %d empty pages, %d short, %d range ends, %d splits, %d moves", queries, s.EmptyPages, s.ShortPages, s.RangeEnds, s.Splits, s.Moves)
	if s.EmptyPages == 0 || s.ShortPages == 0 || s.RangeEnds == 0 || s.Splits == 0 || s.Moves < 3 {
		t.Error("something that this test is about never happened")
	}
}

// Page gives what the pages hold, and stops.
func TestPagesOfAnApplication(t *testing.T) {
	t.Parallel()
	_, table, direct := through(t, Config{Seed: 5, EmptyPages: 0.5, ShortPages: 0.5}, once)
	for i := range 60 {
		if _, err := direct.Upsert(t.Context(), row("p", fmt.Sprintf("%03d", i))); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if rows, err := table.First(t.Context(), tablestore.Query{PartitionKey: "p"}, 25); err != nil || len(rows) != 25 || rows[24].RowKey != "024" {
			t.Errorf("the first 25 rows: %d, %v", len(rows), err)
		}
	}
	var got []string
	for token, pages := "", 0; ; pages++ {
		rows, next, err := table.Page(t.Context(), tablestore.Query{PartitionKey: "p", PageSize: 10}, token)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range rows {
			got = append(got, e.PartitionKey+"/"+e.RowKey+"/"+e.String("Text"))
		}
		if token = next; token == "" {
			break
		}
		if len(rows) == 0 || pages > 60 {
			t.Fatal("an empty page that is not the last")
		}
	}
	if diff := cmp.Diff(all(t, direct, tablestore.Query{PartitionKey: "p"}), got); diff != "" {
		t.Errorf("pages (-direct +proxy):\n%s", diff)
	}
}

// Inserts, updates and deletes with unknown outcomes while ranges move: the
// retry policy and the rows' marks lose nothing and do nothing twice (Q13, T10).
func TestWritesRideOutMoves(t *testing.T) {
	t.Parallel()
	p, table, direct := through(t, Config{Seed: 9, Churn: 100 * time.Millisecond, MoveTime: 150 * time.Millisecond}, patient)
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(time.Minute))
	defer cancel()
	// A fast machine has written 40 of each before ranges have moved often enough.
	const partitions, atLeast, atMost = 6, 40, 1000
	enough := func() bool {
		s := p.Stats()
		return s.Moves >= 5 && s.Unavailable > 0 && s.LostReplies > 0
	}
	var written [partitions]int
	done := make(chan error, partitions)
	for i := range partitions {
		go func() {
			key := fmt.Sprintf("k%d", i)
			etag, err := table.Insert(ctx, tablestore.Entity{PartitionKey: key, RowKey: "n", Props: map[string]any{"N": 0}})
			for n := 1; (n <= atLeast || n <= atMost && !enough()) && err == nil; n++ {
				written[i] = n
				// Conditional: an update that was applied twice or lost shows.
				etag, err = table.Update(ctx, tablestore.Entity{PartitionKey: key, RowKey: "n", Props: map[string]any{"N": n}}, etag)
				if err == nil {
					_, err = table.Submit(ctx, []tablestore.Op{
						{Kind: tablestore.OpInsert, Entity: row(key, fmt.Sprintf("a%04d", n))},
						{Kind: tablestore.OpInsert, Entity: row(key, fmt.Sprintf("b%04d", n))},
					})
				}
				if err == nil && n%2 == 0 {
					err = table.Delete(ctx, key, fmt.Sprintf("b%04d", n), tablestore.AnyETag)
				}
			}
			done <- err
		}()
	}
	for range partitions {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for i := range partitions {
		key, counts := fmt.Sprintf("k%d", i), written[i]
		e, err := direct.Get(ctx, key, "n")
		if err != nil || e.Int("N") != counts {
			t.Errorf("%s: counted to %d: %v", key, e.Int("N"), err)
		}
		if rows := all(t, direct, tablestore.Query{PartitionKey: key}); len(rows) != 1+counts+counts-counts/2 {
			t.Errorf("%s: %d rows", key, len(rows))
		}
	}
	s := p.Stats()
	t.Logf("%d moves, %d requests met one, %d replies lost", s.Moves, s.Unavailable, s.LostReplies)
	if !enough() {
		t.Error("too little happened")
	}
}
