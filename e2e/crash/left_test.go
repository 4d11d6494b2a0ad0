package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/sourceparts"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/workflow"
)

// nothingLeft waits until the lane is at rest and clean: no message, no promise,
// nothing in flight, no blob that no row names, no row without its video.
func (l *lane) nothingLeft() {
	l.t.Helper()
	var left []string
	if !azuritetest.Poll(3*time.Minute, func() bool { left = l.leftovers(); return len(left) == 0 }) {
		l.t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

func (l *lane) leftovers() (left []string) {
	l.t.Helper()
	for _, name := range azqtest.Names(azq.Options{Queues: workflow.Specs}) {
		if n := l.length(name); n > 0 {
			left = append(left, fmt.Sprintf("%d messages in queue %s", n, name))
		}
	}
	for _, row := range l.rows(engine.InflightTable, "") {
		left = append(left, "in flight: "+row.RowKey)
	}
	named := map[string]string{} // video → everything that its rows say
	for _, row := range l.rows(workflow.VideosTable, "") {
		if strings.HasPrefix(row.RowKey, "OUT:") {
			left = append(left, "promise "+row.PartitionKey+" "+row.RowKey)
		}
		if row.String("State") == string(engine.RunRunning) {
			left = append(left, "running "+row.PartitionKey+" "+row.RowKey)
		}
		named[row.PartitionKey] += text(row)
	}
	for id, said := range named {
		if !strings.Contains(said, "META") {
			left = append(left, "rows without a video: "+id)
		}
	}
	for _, container := range []string{engine.MediaContainer, engine.SourcesContainer, azq.ClaimsContainer} {
		for _, name := range l.blobNames(container, "") {
			id, _, _ := strings.Cut(name, "/")
			uploaded := strings.HasPrefix(name, sourceparts.PrefixOfAll(engine.ID(id))) && named[id] != ""
			if !uploaded && !strings.Contains(named[id], name) {
				left = append(left, "blob "+container+"/"+name)
			}
		}
	}
	steps, _ := filepath.Glob(filepath.Join(l.scratch, "*", "*"))
	for _, dir := range steps {
		left = append(left, "scratch "+dir)
	}
	return left
}

// scratches are the workers' scratch directories, one for each that runs.
func (l *lane) scratches() []string {
	l.t.Helper()
	entries, err := os.ReadDir(l.scratch)
	if err != nil {
		l.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// text is everything that a row says.
func text(row tablestore.Entity) string {
	return fmt.Sprintln(row.PartitionKey, row.RowKey, row.Props)
}

// length is the number of messages in a queue, or in all lanes of a base queue.
func (l *lane) length(queue string) (n int64) {
	l.t.Helper()
	queues := []*azq.Queue{azq.OpenQueue(l.account, azq.Spec{Name: queue, Visibility: time.Minute})}
	for _, spec := range l.queues.Specs() {
		if spec.Base() == queue && spec.Lane() > 0 {
			queues = append(queues, l.queues.Queue(spec.Name))
		}
	}
	for _, q := range queues {
		state, err := q.Length(l.t.Context())
		if err != nil {
			l.t.Fatal(err)
		}
		n += state.Length
	}
	return n
}

func (l *lane) blobNames(container, prefix string) []string {
	l.t.Helper()
	var names []string
	for blob, err := range l.blobs.List(l.t.Context(), container, prefix) {
		if err != nil {
			l.t.Fatal(err)
		}
		names = append(names, blob.Name)
	}
	return names
}

// traces is everything anywhere that belongs to a video, but for messages.
func (l *lane) traces(id engine.ID) (found []string) {
	l.t.Helper()
	for _, container := range []string{engine.MediaContainer, engine.SourcesContainer, azq.ClaimsContainer} {
		for _, name := range l.blobNames(container, engine.Prefix(id)) {
			found = append(found, "blob "+container+"/"+name)
		}
	}
	tables, err := azurite.Tables(l.t.Context(), l.account)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, table := range tables {
		// A message that was poison and who deleted what stay known, and a worker that was frozen
		// after its heartbeat says for ever what it did.
		if slices.Contains([]string{azq.PoisonTable, "audit", workers.Table}, table) {
			continue
		}
		for _, row := range l.rows(table, "") {
			if table == workflow.VideosTable && row.PartitionKey != string(id) {
				continue // another video may say that it is the same as this one
			}
			if strings.Contains(text(row), string(id)) {
				found = append(found, fmt.Sprintf("row %s/%s/%s", table, row.PartitionKey, row.RowKey))
			}
		}
	}
	return found
}

// gone waits until no trace of a video is left.
func (l *lane) gone(id engine.ID, limit time.Duration) {
	l.t.Helper()
	var found []string
	if !azuritetest.Poll(limit, func() bool { found = l.traces(id); return len(found) == 0 }) {
		l.t.Fatalf("after its deletion, video %s still has:\n%s", id, strings.Join(found, "\n"))
	}
}
