package tablestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

var quick = azstore.Retry{Strategy: azstore.Fixed, MaxRetries: 3, Delay: time.Millisecond, TryTimeout: 20 * time.Second}

// open makes a table; transport may be nil.
func open(t *testing.T, transport interface {
	Do(*http.Request) (*http.Response, error)
}) *tablestore.Table {
	t.Helper()
	cfg := func(c *azstore.Config) {
		c.Retry = quick
		if transport != nil {
			c.Transport = transport
		}
	}
	a := azuritetest.AccountWith(t, cfg)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{"rows"}}); err != nil {
		t.Fatal(err)
	}
	return tablestore.New(a, "rows")
}

func row(pk, rk string, props map[string]any) tablestore.Entity {
	return tablestore.Entity{PartitionKey: pk, RowKey: rk, Props: props}
}

func TestTypesSurvive(t *testing.T) {
	t.Parallel()
	table := open(t, nil)
	when := time.Date(2026, 3, 4, 5, 6, 7, 890_123_400, time.FixedZone("east", 3600))
	props := map[string]any{
		"Text": "O'Brien 'quoted' é 🎬", "Empty": "", "Small": int32(-7), "Large": int64(1) << 60, "Int": 42,
		"Float": 2.5, "WholeFloat": 3.0, "Inf": math.Inf(-1), "Yes": true, "When": when, "Raw": []byte{0, 1, 255}, "Nothing": nil,
	}
	if _, err := table.Insert(t.Context(), row("p", "r", props)); err != nil {
		t.Fatal(err)
	}
	got, err := table.Get(t.Context(), "p", "r")
	if err != nil {
		t.Fatal(err)
	}
	if got.ETag == "" || got.Timestamp.IsZero() || got.PartitionKey != "p" || got.RowKey != "r" {
		t.Errorf("system properties: %+v", got)
	}
	if got.Float("WholeFloat") != 3 || got.Float("Float") != 2.5 || got.Int("Int") != 42 || got.Int64("Large") != 1<<60 || got.Int("Small") != -7 ||
		!got.Bool("Yes") || !got.Time("When").Equal(when) || !bytes.Equal(got.Bytes("Raw"), []byte{0, 1, 255}) || got.String("Text") != props["Text"] {
		t.Errorf("getters: %+v", got.Props)
	}
	want := map[string]any{
		"Text": props["Text"], "Empty": "", "Small": int32(-7), "Large": int64(1) << 60, "Int": int64(42),
		"Float": 2.5, "WholeFloat": int32(3) /* the SDK's decoding; Float does not care */, "Inf": math.Inf(-1), "Yes": true, "When": when.UTC(), "Raw": []byte{0, 1, 255},
	}
	if diff := cmp.Diff(want, got.Props); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	for listed, err := range table.Query(t.Context(), tablestore.Query{PartitionKey: "p", Class: tablestore.RowRange}) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, listed.Props); diff != "" || listed.ETag != got.ETag {
			t.Errorf("listed, ETag %s (-want +got):\n%s", listed.ETag, diff)
		}
	}
}

// Long texts beyond ASCII come back as they were, however they were written (H20). Azurite cuts
// the bodies of requests into pieces; a batch alone it had always read rightly.
func TestLongTextsOfEveryScript(t *testing.T) {
	t.Parallel()
	table := open(t, nil)
	text := strings.Repeat("🎬é日", 4_000)
	props := map[string]any{}
	for i := range 5 {
		props[fmt.Sprint("Text", i)] = strings.Repeat("x", i) + text
	}
	for how, write := range map[string]func(tablestore.Entity) error{
		"insert": func(e tablestore.Entity) error { _, err := table.Insert(t.Context(), e); return err },
		"upsert": func(e tablestore.Entity) error { _, err := table.Upsert(t.Context(), e); return err },
	} {
		if err := write(row("p", how, props)); err != nil {
			t.Fatal(err)
		}
		got, err := table.Get(t.Context(), "p", how)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(props, got.Props); diff != "" {
			t.Errorf("%s: another text comes back", how)
		}
	}
}

func TestJSONProperty(t *testing.T) {
	t.Parallel()
	e := tablestore.Entity{Props: map[string]any{"List": `["a","b"]`}}
	var got []string
	if err := e.JSON("List", &got); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q, %v", got, err)
	}
	if err := e.JSON("Missing", &got); err != nil || len(got) != 2 {
		t.Errorf("a missing property changed the value: %q, %v", got, err)
	}
	e.Props["List"] = "{"
	if err := e.JSON("List", &got); err == nil {
		t.Error("bad JSON was accepted")
	}
}

func TestRowLife(t *testing.T) {
	t.Parallel()
	table, ctx := open(t, nil), t.Context()
	key := tablestore.EscapeKey("O'Brien/é 100%+") // the SDK alone would double the quote
	etag, err := table.Insert(ctx, row("p", key, map[string]any{"N": 1, "Keep": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Insert(ctx, row("p", key, nil)); !errors.Is(err, tablestore.ErrExists) || !azstore.HasCode(err, "EntityAlreadyExists") || !azstore.IsConflict(err) {
		t.Errorf("second Insert: %v, want ErrExists and its code", err)
	}
	next, err := table.Merge(ctx, row("p", key, map[string]any{"N": 2}), etag)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Update(ctx, row("p", key, nil), etag); !errors.Is(err, tablestore.ErrChanged) || !azstore.IsPrecondition(err) {
		t.Errorf("Update of an old version: %v, want ErrChanged", err)
	}
	got, err := table.Get(ctx, "p", key)
	if err != nil || got.Int("N") != 2 || got.String("Keep") != "x" || got.ETag != next {
		t.Errorf("after Merge: %+v, %v", got, err)
	}
	if next, err = table.Update(ctx, row("p", key, map[string]any{"N": 3}), next); err != nil {
		t.Fatal(err)
	}
	if got, _ := table.Get(ctx, "p", key); got.String("Keep") != "" || got.ETag != next {
		t.Errorf("Update kept other properties: %+v", got)
	}
	if _, err := table.Update(ctx, row("p", "other", nil), tablestore.AnyETag); !errors.Is(err, tablestore.ErrNotFound) {
		t.Errorf("Update of nothing: %v, want ErrNotFound", err)
	}
	if err := table.Delete(ctx, "p", key, etag); !errors.Is(err, tablestore.ErrChanged) {
		t.Errorf("Delete of an old version: %v, want ErrChanged", err)
	}
	for _, version := range []string{tablestore.AnyETag, tablestore.AnyETag, etag} { // the second finds nothing
		if err := table.Delete(ctx, "p", key, version); err != nil {
			t.Error(err)
		}
	}
	if _, err := table.Get(ctx, "p", key); !errors.Is(err, tablestore.ErrNotFound) || !azstore.IsNotFound(err) {
		t.Errorf("Get of nothing: %v, want ErrNotFound", err)
	}
	for range 2 {
		if _, err := table.Upsert(ctx, row("p", key, map[string]any{"N": 4})); err != nil {
			t.Error(err)
		}
	}
}

// The table of lost replies, tables (Q13): each operation is applied, its reply
// is lost, and the repeated request must come to the same end.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	write := func(r *http.Request) bool {
		return r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/Tables")
	}
	for name, do := range map[string]func(*testing.T, *tablestore.Table) (string, error){
		"insert": func(t *testing.T, table *tablestore.Table) (string, error) {
			return table.Insert(t.Context(), row("p", "new", nil))
		},
		"upsert": func(t *testing.T, table *tablestore.Table) (string, error) {
			return table.Upsert(t.Context(), row("p", "new", nil))
		},
		"update": func(t *testing.T, table *tablestore.Table) (string, error) {
			old, err := table.Get(t.Context(), "p", "old")
			if err != nil {
				return "", err
			}
			return table.Update(t.Context(), row("p", "old", nil), old.ETag)
		},
		"delete": func(t *testing.T, table *tablestore.Table) (string, error) {
			return "none", table.Delete(t.Context(), "p", "old", tablestore.AnyETag)
		},
		"transaction of inserts": func(t *testing.T, table *tablestore.Table) (string, error) {
			return last(table.Submit(t.Context(), []tablestore.Op{
				{Kind: tablestore.OpInsert, Entity: row("p", "a", nil)}, {Kind: tablestore.OpInsert, Entity: row("p", "b", nil)},
			}))
		},
		"transaction on a version": func(t *testing.T, table *tablestore.Table) (string, error) {
			old, err := table.Get(t.Context(), "p", "old")
			if err != nil {
				return "", err
			}
			return last(table.Submit(t.Context(), []tablestore.Op{
				{Kind: tablestore.OpDelete, Entity: row("p", "old2", nil)},
				{Kind: tablestore.OpReplace, Entity: row("p", "old", nil), IfMatch: old.ETag},
			}))
		},
		"transaction of deletes": func(t *testing.T, table *tablestore.Table) (string, error) {
			_, err := table.Submit(t.Context(), []tablestore.Op{
				{Kind: tablestore.OpDelete, Entity: row("p", "old", nil)}, {Kind: tablestore.OpDelete, Entity: row("p", "old2", nil)},
			})
			return "none", err
		},
		"transaction of upserts": func(t *testing.T, table *tablestore.Table) (string, error) {
			return last(table.Submit(t.Context(), []tablestore.Op{{Kind: tablestore.OpUpsert, Entity: row("p", "old", nil)}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var armed atomic.Bool
			once := inject.Once(inject.LostReply, 1, write)
			faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
				if !armed.Load() {
					return inject.None
				}
				return once(r)
			}}
			table := open(t, faults)
			for _, rk := range []string{"old", "old2"} {
				if _, err := table.Upsert(t.Context(), row("p", rk, nil)); err != nil {
					t.Fatal(err)
				}
			}
			armed.Store(true)
			etag, err := do(t, table)
			if err != nil || etag == "" {
				t.Errorf("ETag %q, %v", etag, err)
			}
			if faults.Fired() != 1 {
				t.Errorf("%d faults fired, want 1", faults.Fired())
			}
		})
	}
}

func last(etags []string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return etags[len(etags)-1], nil
}

// A retry that meets another writer's row must not take it for its own.
func TestRealConflictsStayConflicts(t *testing.T) {
	t.Parallel()
	var busy atomic.Int32
	faults := &inject.Transport{Choose: func(*http.Request) inject.Fault {
		if busy.Add(-1) >= 0 {
			return inject.ServerBusy
		}
		return inject.None
	}}
	table, ctx := open(t, faults), t.Context()
	old, err := table.Insert(ctx, row("p", "r", nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Update(ctx, row("p", "r", nil), old); err != nil { // another writer's change
		t.Fatal(err)
	}
	busy.Store(1)
	if _, err := table.Insert(ctx, row("p", "r", nil)); !errors.Is(err, tablestore.ErrExists) {
		t.Errorf("Insert: %v, want ErrExists", err)
	}
	busy.Store(1)
	if _, err := table.Update(ctx, row("p", "r", nil), old); !errors.Is(err, tablestore.ErrChanged) {
		t.Errorf("Update: %v, want ErrChanged", err)
	}
	busy.Store(1)
	if _, err := table.Submit(ctx, []tablestore.Op{{Kind: tablestore.OpInsert, Entity: row("p", "r", nil)}}); !errors.Is(err, tablestore.ErrExists) {
		t.Errorf("Submit: %v, want ErrExists", err)
	}
	if faults.Fired() != 3 {
		t.Errorf("%d faults fired, want 3", faults.Fired())
	}
}

// T10: a partition that is away for some tries loses no update.
func TestBusyPartitionLosesNoUpdate(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		if strings.HasSuffix(r.URL.Path, "/Tables") {
			return inject.None
		}
		switch n.Add(1) % 5 {
		case 1:
			return inject.ServerBusy
		case 2:
			return inject.TimedOut
		case 3:
			return inject.LostReply
		}
		return inject.None
	}}
	table, ctx := open(t, faults), t.Context()
	if _, err := table.Insert(ctx, row("p", "counter", map[string]any{"N": 0})); err != nil {
		t.Fatal(err)
	}
	const steps = 30
	for range steps {
		now, err := table.Get(ctx, "p", "counter")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.Update(ctx, row("p", "counter", map[string]any{"N": now.Int("N") + 1}), now.ETag); err != nil {
			t.Fatal(err)
		}
	}
	got, err := table.Get(ctx, "p", "counter")
	if err != nil || got.Int("N") != steps {
		t.Errorf("counter is %d after %d increments: %v", got.Int("N"), steps, err)
	}
}

// refusing is a transport that must not be reached.
type refusing struct{ t *testing.T }

func (r refusing) Do(req *http.Request) (*http.Response, error) {
	r.t.Errorf("%s %s was sent", req.Method, req.URL.Path)
	return nil, inject.ErrReset
}

func TestLimitsAreRefusedBeforeTheWire(t *testing.T) {
	t.Parallel()
	a, err := azstore.Open(azstore.Config{Transport: refusing{t}, Retry: quick})
	if err != nil {
		t.Fatal(err)
	}
	table, ctx := tablestore.New(a, "rows"), t.Context()
	manyProps := map[string]any{}
	for i := range 252 {
		manyProps[fmt.Sprintf("P%d", i)] = int32(i)
	}
	heavy := map[string]any{}
	for i := range 17 {
		heavy[fmt.Sprintf("P%d", i)] = strings.Repeat("x", 32768) // 64 KiB each
	}
	for name, e := range map[string]tablestore.Entity{
		"empty key":        row("p", "", nil),
		"slash":            row("a/b", "r", nil),
		"backslash":        row("p", `a\b`, nil),
		"hash":             row("p", "a#b", nil),
		"question mark":    row("p", "a?b", nil),
		"quote":            row("p", "O'Brien", nil),
		"control":          row("p", "a\nb", nil),
		"not UTF-8":        row("p", "a\xff", nil),
		"astral":           row("p", "🎬", nil),
		"long key":         row("p", strings.Repeat("é", 513), nil),
		"long string":      row("p", "r", map[string]any{"S": strings.Repeat("x", 32769)}),
		"long string, 16":  row("p", "r", map[string]any{"S": strings.Repeat("🎬", 16385)}),
		"long binary":      row("p", "r", map[string]any{"B": make([]byte, 64<<10+1)}),
		"large row":        row("p", "r", heavy),
		"many properties":  row("p", "r", manyProps),
		"unknown type":     row("p", "r", map[string]any{"S": []string{"x"}}),
		"bad name":         row("p", "r", map[string]any{"a-b": 1}),
		"reserved name":    row("p", "r", map[string]any{"OpId": "x"}),
		"time before 1601": row("p", "r", map[string]any{"T": time.Time{}}),
	} {
		_, insert := table.Insert(ctx, e)
		_, upsert := table.Upsert(ctx, e)
		_, update := table.Update(ctx, e, "*")
		_, submit := table.Submit(ctx, []tablestore.Op{{Kind: tablestore.OpUpsert, Entity: e}})
		for verb, err := range map[string]error{"insert": insert, "upsert": upsert, "update": update, "submit": submit} {
			if !errors.Is(err, tablestore.ErrLimit) {
				t.Errorf("%s, %s: %v, want ErrLimit", name, verb, err)
			}
		}
	}
	if _, err := table.Get(ctx, "p", "a/b"); !errors.Is(err, tablestore.ErrLimit) {
		t.Errorf("get: %v, want ErrLimit", err)
	}
	if err := table.Delete(ctx, "p", "a/b", "*"); !errors.Is(err, tablestore.ErrLimit) {
		t.Errorf("delete: %v, want ErrLimit", err)
	}

	upsert := func(pk, rk string, props map[string]any) tablestore.Op {
		return tablestore.Op{Kind: tablestore.OpUpsert, Entity: row(pk, rk, props)}
	}
	var tooMany, tooLarge []tablestore.Op
	for i := range 101 {
		tooMany = append(tooMany, upsert("p", fmt.Sprint(i), nil))
	}
	for i := range 65 {
		tooLarge = append(tooLarge, upsert("p", fmt.Sprint(i), map[string]any{"B": strings.Repeat("x", 32768), "C": strings.Repeat("x", 32768)}))
	}
	for name, ops := range map[string][]tablestore.Op{
		"101 operations": tooMany,
		"over 4 MiB":     tooLarge,
		"two partitions": {upsert("p", "r", nil), upsert("q", "r2", nil)},
		"a row twice":    {upsert("p", "r", nil), upsert("p", "r", nil)},
	} {
		if _, err := table.Submit(ctx, ops); !errors.Is(err, tablestore.ErrLimit) {
			t.Errorf("%s: %v, want ErrLimit", name, err)
		}
	}
	if _, err := table.Submit(ctx, nil); err == nil {
		t.Error("a transaction of nothing was accepted")
	}
	if _, _, err := table.Page(ctx, tablestore.Query{PageSize: 1001}, ""); !errors.Is(err, tablestore.ErrLimit) {
		t.Errorf("page of 1001: %v, want ErrLimit", err)
	}
}

// What we let through at the very limit, the service takes too.
func TestLimitsThemselvesAreAccepted(t *testing.T) {
	t.Parallel()
	table, ctx := open(t, nil), t.Context()
	var ops []tablestore.Op
	for i := range 100 {
		ops = append(ops, tablestore.Op{Kind: tablestore.OpInsert, Entity: row("p", tablestore.Pad(int64(i), 512), map[string]any{"S": strings.Repeat("x", 1000)})})
	}
	etags, err := table.Submit(ctx, ops)
	if err != nil || len(etags) != 100 || slices.Contains(etags, "") {
		t.Fatalf("100 operations: %d ETags, %v", len(etags), err)
	}
	got, err := table.Get(ctx, "p", ops[99].Entity.RowKey)
	if err != nil || got.ETag != etags[99] {
		t.Errorf("ETag of the reply %q, of the row %q, %v", etags[99], got.ETag, err)
	}
	if _, err := table.Upsert(ctx, row("p", "r", map[string]any{"S": strings.Repeat("é", 32768)})); err != nil {
		t.Errorf("the longest string: %v", err)
	}
}

// Q15 inside of a transaction: which operation failed, and why; nothing is done.
func TestBatchFailure(t *testing.T) {
	t.Parallel()
	table, ctx := open(t, nil), t.Context()
	etag, err := table.Insert(ctx, row("p", "there", nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Update(ctx, row("p", "there", nil), etag); err != nil {
		t.Fatal(err)
	}
	fine := func(rk string) tablestore.Op {
		return tablestore.Op{Kind: tablestore.OpInsert, Entity: row("p", rk, nil)}
	}
	for name, c := range map[string]struct {
		op       tablestore.Op
		status   int
		code     string
		sentinel error
	}{
		"exists":  {tablestore.Op{Kind: tablestore.OpInsert, Entity: row("p", "there", nil)}, 409, "EntityAlreadyExists", tablestore.ErrExists},
		"changed": {tablestore.Op{Kind: tablestore.OpReplace, Entity: row("p", "there", nil), IfMatch: etag}, 412, "UpdateConditionNotSatisfied", tablestore.ErrChanged},
		"merge":   {tablestore.Op{Kind: tablestore.OpMerge, Entity: row("p", "there", nil), IfMatch: etag}, 412, "UpdateConditionNotSatisfied", tablestore.ErrChanged},
		"missing": {tablestore.Op{Kind: tablestore.OpReplace, Entity: row("p", "gone", nil)}, 404, "ResourceNotFound", tablestore.ErrNotFound},
		"delete":  {tablestore.Op{Kind: tablestore.OpDelete, Entity: row("p", "gone", nil)}, 404, "ResourceNotFound", tablestore.ErrNotFound},
	} {
		_, err := table.Submit(ctx, []tablestore.Op{fine("a"), fine("b"), c.op, fine("c")})
		if want := fmt.Sprintf("operation 2, %s row %q/%q", c.op.Kind, "p", c.op.Entity.RowKey); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want that it names %s", name, err, want)
		}
		if status, code, ok := azstore.Describe(fmt.Errorf("wrapped: %w", err)); status != c.status || code != c.code || !ok {
			t.Errorf("%s: Describe = %d %s", name, status, code)
		}
		if !errors.Is(err, c.sentinel) {
			t.Errorf("%s: %v is not %v", name, err, c.sentinel)
		}
		if _, err := table.Get(ctx, "p", "a"); !errors.Is(err, tablestore.ErrNotFound) {
			t.Errorf("%s: half of the transaction was done: %v", name, err)
		}
	}
}

func TestSubmitAll(t *testing.T) {
	t.Parallel()
	table, ctx := open(t, nil), t.Context()
	var ops []tablestore.Op
	for i := range 230 {
		ops = append(ops, tablestore.Op{Kind: tablestore.OpUpsert, Entity: row(fmt.Sprintf("p%d", i%2), tablestore.Pad(int64(i), 5), map[string]any{"N": i})})
	}
	// The same row again, and a delete of one that is not there.
	ops = append(ops,
		tablestore.Op{Kind: tablestore.OpUpsert, Entity: row("p0", "00000", map[string]any{"N": 1000})},
		tablestore.Op{Kind: tablestore.OpDelete, Entity: row("p1", "nothing", nil)},
		tablestore.Op{Kind: tablestore.OpDelete, Entity: row("p1", "00001", nil)},
	)
	for range 2 {
		counted, meter := azstore.WithCounter(ctx)
		if err := table.SubmitAll(counted, ops); err != nil {
			t.Fatal(err)
		}
		if n := meter.Requests(); n > 10 {
			t.Errorf("%d requests for %d operations", n, len(ops))
		}
	}
	n := 0
	for e, err := range table.Query(ctx, tablestore.Query{PartitionFrom: "p0", PartitionTo: "p2"}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.RowKey == "00000" && e.Int("N") != 1000 {
			t.Errorf("the last operation on a row did not win: %d", e.Int("N"))
		}
		n++
	}
	if n != 229 {
		t.Errorf("%d rows, want 229", n)
	}
	conditional := []tablestore.Op{{Kind: tablestore.OpInsert, Entity: row("p", "r", nil)}}
	if err := table.SubmitAll(ctx, conditional); err == nil {
		t.Error("an insert was accepted, which cannot be repeated")
	}
}

// More rows than a page holds, and another partition that stays. What an earlier call left
// is removed by the next.
func TestClear(t *testing.T) {
	t.Parallel()
	table, ctx := open(t, nil), t.Context()
	ops := []tablestore.Op{{Kind: tablestore.OpUpsert, Entity: row("other", "r", nil)}}
	const rows = 1100
	for i := range rows {
		ops = append(ops, tablestore.Op{Kind: tablestore.OpUpsert, Entity: row("full", tablestore.Pad(int64(i), 5), nil)})
	}
	if err := table.SubmitAll(ctx, ops); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{rows, 0} {
		if removed, err := table.Clear(ctx, tablestore.Query{PartitionKey: "full"}); err != nil || removed != want {
			t.Errorf("removed %d rows, %v: want %d", removed, err, want)
		}
	}
	var left []string
	for e, err := range table.Query(ctx, tablestore.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, e.PartitionKey)
	}
	if fmt.Sprint(left) != "[other]" {
		t.Errorf("rows of %v are left, want those of other", left)
	}
}

// emptyPages answers every other query with an empty page that carries the
// continuation token of the request, as Azure may and Azurite never does.
type emptyPages struct {
	n     atomic.Int32
	empty atomic.Int32
}

func (p *emptyPages) Do(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "rows()") || p.n.Add(1)%2 == 0 {
		return http.DefaultClient.Do(r)
	}
	p.empty.Add(1)
	header := http.Header{"Content-Type": {"application/json;odata=minimalmetadata"}}
	header.Set("x-ms-continuation-NextPartitionKey", "cA==") // Azurite's tokens are base64: "p"
	header.Set("x-ms-continuation-NextRowKey", "AA==")
	if pk := q.Get("NextPartitionKey"); pk != "" {
		header.Set("x-ms-continuation-NextPartitionKey", pk)
		header.Set("x-ms-continuation-NextRowKey", q.Get("NextRowKey"))
	}
	return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader(`{"value":[]}`)), Request: r}, nil
}

// T1: keys are ordered as text, so "111" comes before "2". Padded numbers come in
// the order of their values, and a range of them is a range of rows.
func TestKeysAreOrderedAsText(t *testing.T) {
	t.Parallel()
	table, ctx := open(t, nil), t.Context()
	for _, n := range []int64{2, 111, 30} {
		for partition, key := range map[string]string{"plain": fmt.Sprint(n), "padded": tablestore.Pad(n, 3)} {
			if _, err := table.Insert(ctx, row(partition, key, nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(q tablestore.Query) (keys []string) {
		q.Class = tablestore.RowRange
		for row, err := range table.Query(ctx, q) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, row.RowKey)
		}
		return keys
	}
	plain, padded := read(tablestore.Query{PartitionKey: "plain"}), read(tablestore.Query{PartitionKey: "padded"})
	if want := []string{"111", "2", "30"}; !slices.Equal(plain, want) {
		t.Errorf("plain numbers come as %v, want %v", plain, want)
	}
	if want := []string{"002", "030", "111"}; !slices.Equal(padded, want) {
		t.Errorf("padded numbers come as %v, want %v", padded, want)
	}
	upTo100 := read(tablestore.Query{PartitionKey: "padded", RowTo: tablestore.Pad(100, 3)})
	if want := []string{"002", "030"}; !slices.Equal(upTo100, want) {
		t.Errorf("numbers below 100: %v, want %v", upTo100, want)
	}
}

func TestContinuationTokensAreFollowed(t *testing.T) {
	t.Parallel()
	pages := &emptyPages{}
	table, ctx := open(t, pages), t.Context()
	const rows = 23
	var ops []tablestore.Op
	for i := range rows {
		ops = append(ops, tablestore.Op{Kind: tablestore.OpInsert, Entity: row("p", "r "+tablestore.Pad(int64(i), 3), map[string]any{"N": i, "Other": "x"})})
	}
	if _, err := table.Submit(ctx, ops); err != nil {
		t.Fatal(err)
	}
	q := tablestore.Query{PartitionKey: "p", RowFrom: "r", RowTo: "s", PageSize: 5, Select: []string{"N"}, Class: tablestore.RowRange}
	counted, meter := azstore.WithCounter(ctx)
	i := 0
	for e, err := range table.Query(counted, q) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Int("N") != i || e.RowKey != "r "+tablestore.Pad(int64(i), 3) || e.String("Other") != "" {
			t.Errorf("row %d is %+v", i, e)
		}
		i++
	}
	if i != rows || meter.Counts().Rows != rows {
		t.Errorf("%d rows, %d counted; want %d", i, meter.Counts().Rows, rows)
	}
	if pages.empty.Load() < 5 || meter.Requests() < 10 || meter.ByClass(tablestore.RowRange) != meter.Requests() {
		t.Errorf("%d empty pages in %d requests, want about half of ten", pages.empty.Load(), meter.Requests())
	}

	var got int
	token := ""
	for page := 0; ; page++ {
		entities, next, err := table.Page(ctx, q, token)
		if err != nil {
			t.Fatal(err)
		}
		if len(entities) == 0 && next != "" {
			t.Error("an empty page reached the caller")
		}
		got += len(entities)
		if next == "" {
			break
		}
		if strings.ContainsAny(next, "+/=&? ") {
			t.Errorf("token %q is not safe in a URL", next)
		}
		token = next
	}
	if got != rows {
		t.Errorf("pages held %d rows, want %d", got, rows)
	}
	other := q
	other.PartitionKey = "q"
	for name, c := range map[string]struct {
		query tablestore.Query
		token string
	}{"another query's": {other, token}, "no base64": {q, "!!"}, "no JSON": {q, "aGFsbG8"}} {
		if _, _, err := table.Page(ctx, c.query, c.token); !errors.Is(err, tablestore.ErrToken) {
			t.Errorf("%s token: %v, want ErrToken", name, err)
		}
	}
}

// T5: every query has a class, and one that is costlier than declared is refused.
func TestClasses(t *testing.T) {
	t.Parallel()
	table := open(t, nil)
	for _, pk := range []string{"a", "b", "c"} {
		if _, err := table.Upsert(t.Context(), row(pk, "O!27Brien", map[string]any{"Name": "O'Brien"})); err != nil {
			t.Fatal(err)
		}
	}
	outer, all := azstore.WithCounter(t.Context())
	for _, c := range []struct {
		query tablestore.Query
		class tablestore.Class
		rows  int
	}{
		{tablestore.Query{PartitionKey: "a"}, tablestore.RowRange, 1},
		{tablestore.Query{PartitionFrom: "a", PartitionTo: "c"}, tablestore.PartitionRange, 2},
		{tablestore.Query{PartitionFrom: "b"}, tablestore.Scan, 2},
		{tablestore.Query{Filter: "Name eq " + tablestore.Quote("O'Brien")}, tablestore.Scan, 3},
	} {
		ctx, meter := azstore.WithCounter(outer)
		n := 0
		for _, err := range table.Query(ctx, c.query) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != c.rows || meter.ByClass(c.class) != 1 || meter.Requests() != 1 || c.query.Cost() != c.class {
			t.Errorf("%+v: %d rows, class %s counted %d times", c.query, n, c.query.Cost(), meter.ByClass(c.class))
		}
		if c.class > tablestore.RowRange {
			c.query.Class = tablestore.RowRange
			if _, _, err := table.Page(ctx, c.query, ""); !errors.Is(err, tablestore.ErrClass) {
				t.Errorf("%s declared as row range: %v, want ErrClass", c.class, err)
			}
		}
	}
	if _, err := table.Get(outer, "a", "O!27Brien"); err != nil {
		t.Fatal(err)
	}
	if all.Requests() != 5 || all.ByClass(tablestore.Point) != 1 || all.Counts().Rows != 9 {
		t.Errorf("outer meter: %d requests, %d points, %d rows; want 5, 1, 9", all.Requests(), all.ByClass(tablestore.Point), all.Counts().Rows)
	}
}
