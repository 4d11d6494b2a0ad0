package papers_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// T4: the tables of a stack that made two videos, of two channels, have the
// granularity that docs/data-model.md promises: a table that is said to be one
// partition is one, and every other has several already. Where each row is said to have a
// partition of its own, none has two.
func TestTablesHaveTheGranularityThatTheDocsSay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: this test runs Azurite and the built roles")
	}
	connection, prefix := azuritetest.ConnectionString(t), azuritetest.Prefix()
	cutroom := stacktest.Start(t, stack.Options{ConnectionString: connection, Env: []string{"CUTROOM_PREFIX=" + prefix}, Workers: 1})
	user, err := journey.New(cutroom.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	var ids []string
	for i, channel := range []string{"Harbour news", "Old mills"} {
		key := fmt.Sprint("key-of-channel-", i)
		res, err := user.API().CreateVideoWithResponse(t.Context(), &client.CreateVideoParams{IdempotencyKey: &key}, client.NewVideo{Title: channel + " today", Channel: &channel})
		if err != nil || res.JSON201 == nil {
			t.Fatalf("create: %v, %s", err, res.Body)
		}
		id, content := res.JSON201.Id, clip(t, i+1)
		if err := user.UploadParts(t.Context(), id, bytes.NewReader(content), int64(len(content)), func(int64) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := user.AwaitReady(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := user.AwaitFound(t.Context(), "today", id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}

	account, err := azstore.Open(azstore.Config{ConnectionString: connection, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	azuritetest.Eventually(t, 30*time.Second, func() error { // a step after ready writes it
		if rows := rowsByPartition(t, account, "twins"); len(rows) < len(ids) {
			return fmt.Errorf("table %s has the partitions %v", "twins", rows)
		}
		return nil
	})
	said, full := granularities(t), 0
	tables, err := azurite.Tables(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		rows := rowsByPartition(t, account, table)
		keys := slices.Sorted(maps.Keys(rows))
		single := said[table] == "single"
		switch {
		case len(keys) == 0, // nothing was asked of it
			table == "quotas",   // without a sign-in there is one
			table == "audit",    // one for each day
			table == "recent",   // eight by ids, of which two videos may have the same
			table == "inflight": // a row is there only while its video is worked on
			continue
		case single != (len(keys) == 1):
			t.Errorf("table %s has the partitions %q, and the docs say %q", table, keys, said[table])
		case said[table] == "unique" && slices.Max(slices.Collect(maps.Values(rows))) > 1:
			t.Errorf("table %s has partitions with several rows, %v, and the docs say that each row has its own", table, rows)
		case table == "videos" && !slices.Equal(keys, slices.Sorted(slices.Values(ids))):
			t.Errorf("table videos has the partitions %q, want one for each video", keys)
		}
		full++
	}
	if full < 8 {
		t.Errorf("only %d tables have rows: this test shows little", full)
	}
}

// granularities are the words of docs/data-model.md, by table: "unique some" where it says
// both.
func granularities(t *testing.T) map[string]string {
	t.Helper()
	model, err := os.ReadFile("../../docs/data-model.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	name, line, word := regexp.MustCompile("`([a-z]+)`"), regexp.MustCompile(`\*\*Granularity\*\*: .*`), regexp.MustCompile(`\*(?:single|some|unique)\*`)
	for _, section := range strings.Split(string(model), "\n## Table")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		lines := line.FindAllString(text, -1)
		for i, table := range name.FindAllStringSubmatch(title, -1) {
			if i >= len(lines) {
				t.Fatalf("docs/data-model.md does not say the granularity of table %s", table[1])
			}
			said[table[1]] = strings.ReplaceAll(strings.Join(word.FindAllString(lines[i], -1), " "), "*", "")
		}
	}
	return said
}

// rowsByPartition counts the rows of a table's partitions.
func rowsByPartition(t *testing.T, account *azstore.Account, table string) map[string]int {
	t.Helper()
	rows := map[string]int{}
	for row, err := range tablestore.New(account, table).Query(t.Context(), tablestore.Query{Class: tablestore.Scan}) {
		if err != nil {
			t.Fatal(err)
		}
		if row.PartitionKey != "probe" { // written in trouble, never read
			rows[row.PartitionKey]++
		}
	}
	return rows
}

// clip makes a film of so many seconds.
func clip(t *testing.T, seconds int) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clip.mp4")
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", fmt.Sprintf("testsrc2=s=64x64:r=10:d=%d", seconds),
		"-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", file).CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
