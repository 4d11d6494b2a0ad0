package soak

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// What a held commit says is found in the request as the SDK sends it: package inject
// tests the holding.
func TestCommitOfPart(t *testing.T) {
	t.Parallel()
	body := `{"PartitionKey":"abc234","RowKey":"STEP:00001:encode:00002","Attempt":"a","State":"done","Worker":"soak-1"}`
	if got := commitOfPart.FindStringSubmatch(body); len(got) != 4 || got[1] != "abc234" || got[2] != "STEP:00001:encode:00002" || got[3] != "soak-1" {
		t.Errorf("found %q", got)
	}
	if commitOfPart.MatchString(strings.Replace(body, "done", "running", 1)) {
		t.Error("a claim is taken for a commit")
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

// Scratch that is not used any more is found: of a worker that is dead, and of a step that
// is over. An empty directory of a living worker is as it should be.
func TestScratchThatIsLeftIsFound(t *testing.T) {
	t.Parallel()
	c := &checker{scratch: t.TempDir()}
	plant := func(name string, lives bool, inside ...string) {
		dir := filepath.Join(c.scratch, "cutroom-scratch-"+name)
		if err := os.MkdirAll(filepath.Join(append([]string{dir}, inside...)...), 0o700); err != nil {
			t.Fatal(err)
		}
		lock, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lock.Close() })
		if lives {
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		}
	}
	plant("idle", true)
	var left findings
	if c.scratchLeft(&left); len(left) > 0 {
		t.Errorf("an idle worker: %v", left)
	}
	plant("dead", false)
	plant("over", true, "encode-1")
	c.scratchLeft(&left)
	if len(left) != 2 || !strings.Contains(left[0], "dead") || !strings.Contains(left[1], "over/encode-1") {
		t.Errorf("found %v, want a dead worker's directory and a step's", left)
	}
}
