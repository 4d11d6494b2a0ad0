package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/api"
)

// What becomes of a list when a row is damaged: it loses so many items and keeps the
// others as they are, or
const (
	everything = -1 // it loses all of them: without this row nothing can be found
	changes    = -2 // its items say less
)

// damage is what is done to the rows of a table whose keys match keys, an expression for
// "<PartitionKey> <RowKey>". With + it is a row that is added.
type damage struct {
	table, keys string
	loses       int
}

type list struct {
	operation, path string
	damages         []damage
}

func allLists() []list {
	all := slices.Clone(lists)
	for _, p := range parts {
		all = append(all, p.lists...)
	}
	return all
}

// lists has, for every list of the API, where it is asked for, and the rows behind it. The
// words in braces are those of library.
var lists = []list{
	{"listVideos", "/videos", []damage{
		{catalog.RecentTable, "__{other}$", 1}, {workflow.VideosTable, "{other} META", 1},
	}},
	{
		"listVideos", "/videos?channel=main",
		[]damage{{catalog.CatalogTable, "main NEW:.*__{other}", 1}, {workflow.VideosTable, "{other} META", 1}},
	},
	{
		"listVideos", "/videos?channel=main&sort=title",
		[]damage{{catalog.CatalogTable, "main TITLE:.*__{other}", 1}, {workflow.VideosTable, "{other} META", 1}},
	},
	{"listSteps", "/videos/{id}/steps", []damage{
		{workflow.VideosTable, "{id} STEP:00001:encode:00001", 1},
		{workflow.VideosTable, "+{id} NEXT:strange", 0},
	}},
	{"listQueues", "/ops/queues", nil},
	{"peekQueue", "/ops/queues/probe/messages", nil},
	{"listPoison", "/ops/poison", []damage{{azq.PoisonTable, "probe second", 1}}},
	{"listWorkers", "/ops/workers", []damage{{workers.Table, "worker second", 1}}},
	// The reader of the board goes on for a moment, so nothing but the board follows.
	{"getScale", "/ops/scale", []damage{{workers.Table, "worker second", changes}, {azq.PoisonTable, "probe second", changes}}},
	{
		"watchBoard", "/ops/events",
		[]damage{{workers.Table, "worker second", changes}, {azq.PoisonTable, "probe second", changes}},
	},
	{"listUnreadable", "/ops/unreadable", []damage{{tablestore.UnreadableTable, "^workers ", changes}}},
}

// notOfRows are operations whose answers have lists that are in one row, or in none.
var notOfRows = map[string]string{"getVideo": "all of it is in META", "getUpload": "blobs, and META"}

// TestUnreadableRowsHideNothingElse damages every kind of row behind every list of the
// API. The list still answers, with everything else; the row is counted and reported;
// and an operator can delete it.
func TestUnreadableRowsHideNothingElse(t *testing.T) {
	t.Parallel()
	wire := azuritetest.NewWire(t)
	l := newLibrary(t, wire)
	asked := map[string]bool{}
	counted := map[string]bool{}
	for _, list := range allLists() {
		asked[list.operation] = true
		behind := map[string]bool{}
		for _, d := range list.damages {
			behind[d.table], counted[d.table] = true, true
		}
		wire.Take()
		before, err := l.ask(list.path)
		if err != nil {
			t.Errorf("%s: %v", list.path, err)
			continue
		}
		if len(before) < 2 && list.operation != "getRegistration" && list.operation != "peekQueue" {
			t.Errorf("%s has %d items: a damaged row would hide nothing", list.path, len(before))
		}
		for _, call := range wire.Take() {
			table := strings.TrimPrefix(call.Table, l.account.Prefix())
			itself := strings.Contains(list.path, "{id}") && table == workflow.VideosTable || list.operation == "listUnreadable"
			if call.Rows > 0 && !behind[table] && !itself {
				t.Errorf("%s %s reads table %s, of which no row is damaged here", list.operation, list.path, table)
			}
		}
		for _, d := range list.damages {
			t.Run(fmt.Sprintf("%s without %s of %s", list.operation, d.keys, d.table), func(t *testing.T) { l.try(t, list.path, d, before) })
		}
	}
	for _, p := range parts {
		if p.after != nil {
			p.after(l)
		}
	}
	for _, operation := range operationsWithLists(t) {
		if !asked[operation] && notOfRows[operation] == "" {
			t.Errorf("%s has a list: say in this test which rows are behind it", operation)
		}
	}
	metrics := l.send(l.request(http.MethodGet, l.admin+"/metrics", nil)).body
	for table := range counted {
		if !regexp.MustCompile(`cutroom_unreadable_rows_total\{table="` + table + `"\} [1-9]`).Match(metrics) {
			t.Errorf("the unreadable rows of table %s are not counted", table)
		}
	}
}

// operationsWithLists are those of the document whose answer has an array of objects.
// Those of the lab are passed on to the process that started the stack.
func operationsWithLists(t *testing.T) (names []string) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range doc.Paths.Map() {
		if item.Get == nil || item.Get.Responses.Status(http.StatusOK) == nil || slices.Contains(item.Get.Tags, "lab") {
			continue
		}
		for _, media := range item.Get.Responses.Status(http.StatusOK).Value.Content {
			for _, property := range media.Schema.Value.Properties {
				if property.Value.Type.Is("array") && property.Value.Items.Value.Type.Is("object") {
					names = append(names, item.Get.OperationID)
				}
			}
		}
	}
	return names
}

// library is a world with at least two items in every list.
type library struct {
	*world
	words []string
}

func newLibrary(t *testing.T, wire *azuritetest.Wire) *library {
	t.Helper()
	w := newWorld(t, wire)
	other := w.create(map[string]any{"title": "Another by the harbour"}).Id
	w.makeReady(other)
	w.call(http.MethodPatch, "/videos/"+string(w.id), map[string]any{"title": "One by the harbour"}, "If-Match", "*").want(t, http.StatusOK, "")
	for _, id := range []string{string(w.id), other} {
		w.index(id)
	}
	register := workers.New(w.account)
	for _, name := range []string{"first", "second"} {
		if err := register.Beat(t.Context(), workers.Worker{Name: name, SeenAt: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		w.write(azq.PoisonTable, tablestore.Entity{PartitionKey: "probe", RowKey: name, Props: map[string]any{"Reason": "test", "Text": []byte("x"), "Inserted": time.Now(), "PoisonedAt": time.Now()}})
		w.write(workers.Table, tablestore.Entity{PartitionKey: "worker", RowKey: "strange " + name, Props: map[string]any{"Doc": "{"}})
	}
	l := &library{world: w, words: []string{"{id}", string(w.id), "{other}", other, "{event}", w.event}}
	for _, p := range parts {
		if p.library != nil {
			p.library(l)
		}
	}
	return l
}

func (l *library) fill(text string) string { return strings.NewReplacer(l.words...).Replace(text) }

func (w *world) table(name string) *tablestore.Table { return tablestore.New(w.account, name) }

// write puts rows as they are given.
func (w *world) write(table string, rows ...tablestore.Entity) {
	w.t.Helper()
	for _, row := range rows {
		if _, err := w.table(table).Upsert(w.t.Context(), row); err != nil {
			w.t.Fatal(err)
		}
	}
}

// ops asks for an operator's route, on the listener where they always are.
func (w *world) ops(method, path string, body any) answer {
	w.t.Helper()
	return w.send(w.request(method, w.admin+"/api/v1"+path, body))
}

// ask returns what a list has, each item as text.
func (l *library) ask(path string) (items []string, _ error) {
	l.t.Helper()
	path = l.fill(path)
	var a answer
	switch {
	case path == "/ops/events":
		return l.firstEvent()
	case strings.HasPrefix(path, "/ops/"):
		a = l.ops(http.MethodGet, path, nil)
	default:
		a = l.call(http.MethodGet, path, nil)
	}
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", a.StatusCode, a.body)
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(a.body, &whole); err != nil {
		return nil, err
	}
	for _, name := range []string{"items", "days", "steps", "moments", "queues"} {
		var list []json.RawMessage
		if _, found := whole[name]; found {
			if err := json.Unmarshal(whole[name], &list); err != nil {
				return nil, err
			}
		}
		for _, item := range list {
			items = append(items, string(item))
		}
	}
	return items, nil
}

// firstEvent returns the names of workers and poisoned items that a board begins with.
func (l *library) firstEvent() (items []string, _ error) {
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	resp, err := l.client.Do(l.request(http.MethodGet, l.admin+"/api/v1/ops/events", nil).WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // reading only
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("status %d: %w", resp.StatusCode, err)
		}
		data, found := strings.CutPrefix(line, "data: ")
		if !found {
			continue
		}
		var event struct{ Workers, Poison []struct{ Name, ID string } }
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return nil, err
		}
		for _, w := range event.Workers {
			items = append(items, w.Name)
		}
		for _, p := range event.Poison {
			items = append(items, p.ID)
		}
		return items, nil
	}
}

// try damages rows, looks at the list, deletes them as an operator does, and puts back
// what was there.
func (l *library) try(t *testing.T, path string, d damage, before []string) {
	rows, added := l.find(t, d)
	for _, row := range rows {
		l.write(d.table, spoilt(row))
	}
	if !added {
		defer l.write(d.table, rows...)
	}
	var reported []api.UnreadableRow
	azuritetest.Eventually(t, 10*time.Second, func() error { // what is remembered is shown for a moment
		after, err := l.ask(path)
		if err != nil {
			return err
		}
		if reported = l.reported(d.table, rows); len(reported) == 0 {
			return errors.New("operators are not told of the row")
		}
		return compare(before, after, d.loses)
	})
	for _, row := range reported {
		l.ops(http.MethodDelete, "/ops/unreadable/"+row.ID, nil).want(t, http.StatusNoContent, "")
		left, err := l.table(d.table).Get(t.Context(), row.PartitionKey, row.RowKey)
		if !errors.Is(err, tablestore.ErrNotFound) && left.String("State") != string(engine.Deleting) {
			t.Errorf("%s/%s is there after it was deleted: %v", row.PartitionKey, row.RowKey, err)
		}
	}
	if again := l.reported(d.table, rows); len(again) > 0 {
		t.Errorf("reported when they are deleted: %+v", again)
	}
}

// find returns the rows that are to be damaged, as they are, or the one to be added.
func (l *library) find(t *testing.T, d damage) (rows []tablestore.Entity, added bool) {
	t.Helper()
	keys, added := strings.CutPrefix(l.fill(d.keys), "+")
	if added {
		pk, rk, _ := strings.Cut(keys, " ")
		return []tablestore.Entity{{PartitionKey: pk, RowKey: rk}}, true
	}
	wanted := regexp.MustCompile(keys)
	for row, err := range l.table(d.table).Query(t.Context(), tablestore.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if wanted.MatchString(row.PartitionKey + " " + row.RowKey) {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		t.Fatal("there is no such row")
	}
	return rows, false
}

// spoilt is a row with a document that is none, or with properties of other types.
func spoilt(row tablestore.Entity) tablestore.Entity {
	out := tablestore.Entity{PartitionKey: row.PartitionKey, RowKey: row.RowKey, Props: map[string]any{}}
	for name, was := range row.Props {
		out.Props[name] = "damaged"
		if _, text := was.(string); text && name != "Doc" {
			out.Props[name] = int32(7)
		}
	}
	return out
}

// compare says what is wrong with a list that should have lost some items.
func compare(before, after []string, loses int) error {
	lost := 0
	for _, item := range before {
		if !slices.Contains(after, item) {
			lost++
		}
	}
	switch {
	case loses == changes:
		return nil
	case loses == everything && lost == len(before) && len(after) == 0:
		return nil
	case lost != loses:
		return fmt.Errorf("it lost %d of %d items, want %d: %v", lost, len(before), loses, after)
	}
	return nil
}

// reported are those of the rows that operators are told of.
func (l *library) reported(table string, rows []tablestore.Entity) (found []api.UnreadableRow) {
	l.t.Helper()
	listed := decode[api.UnreadableList](l.t, l.ops(http.MethodGet, "/ops/unreadable?limit=100", nil), http.StatusOK)
	for _, told := range listed.Items {
		if told.Table == table && told.Reason != "" && slices.ContainsFunc(rows, func(row tablestore.Entity) bool {
			return row.PartitionKey == told.PartitionKey && row.RowKey == told.RowKey
		}) {
			found = append(found, told)
		}
	}
	return found
}
