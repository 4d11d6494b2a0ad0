package partitions

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// clock is a time that a test moves by hand.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func newTestModel(t *testing.T, cfg Config) (*model, *clock) {
	t.Helper()
	c := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	cfg.Now = c.read
	cfg, err := cfg.complete()
	if err != nil {
		t.Fatal(err)
	}
	return newModel(cfg), c
}

// drive asks for rows at a steady rate and counts the fates. key chooses the
// PartitionKey of the n-th request.
func drive(m *model, c *clock, perSecond int, d time.Duration, key func(n int) string) map[fate]int {
	fates := map[fate]int{}
	for n := range int(d.Seconds() * float64(perSecond)) {
		c.now = c.now.Add(time.Second / time.Duration(perSecond))
		f, _ := m.admit("t", key(n), true, 1)
		fates[f]++
	}
	return fates
}

// near is within a tenth, and ten.
func near(got, want int) bool {
	d := got - want
	return d*d <= (want/10+10)*(want/10+10)
}

func TestAPartitionsBudgetRefusesAndRecovers(t *testing.T) {
	t.Parallel()
	m, c := newTestModel(t, Config{Scale: 20})
	one := func(int) string { return "hot" }
	if got := drive(m, c, 80, 10*time.Second, one); got[refused] > 0 {
		t.Errorf("80/s of 100/s: %v, want all served", got)
	}
	got := drive(m, c, 400, 10*time.Second, one)
	if !near(got[served], 1000+100) || got[away] > 0 { // ten seconds and a full bucket
		t.Errorf("400/s of 100/s for 10 s: %v, want 1,100 served and nothing moved", got)
	}
	if s := m.stats(); s.RefusedByPartition != got[refused] || s.Splits > 0 || s.Unsplittable == 0 {
		t.Errorf("counters of a hot PartitionKey: %+v", s)
	}
	c.now = c.now.Add(time.Second)
	if got := drive(m, c, 80, 5*time.Second, one); got[refused] > 0 {
		t.Errorf("after a second of rest: %v, want all served", got)
	}
}

func TestTransactionsCostTheirOperations(t *testing.T) {
	t.Parallel()
	m, c := newTestModel(t, Config{Scale: 20})
	operations := 0
	for range 100 { // a hundred transactions of 20 in ten seconds
		c.now = c.now.Add(100 * time.Millisecond)
		if f, _ := m.admit("t", "p", true, 20); f == served {
			operations += 20
		}
	}
	if !near(operations, 1000+100) {
		t.Errorf("%d operations in 10 s, want about 1,100", operations)
	}
}

func TestARangeSplitsAndNeverInsideAPartitionKey(t *testing.T) {
	t.Parallel()
	m, c := newTestModel(t, Config{Scale: 20, MoveTime: time.Second})
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	spread := func(n int) string { return keys[n%len(keys)] }
	before := drive(m, c, 700, 2*time.Second, spread) // a server's budget is 200/s
	if before[refused] == 0 {
		t.Error("one server took more than its budget")
	}
	drive(m, c, 700, 20*time.Second, spread)
	after := drive(m, c, 700, 5*time.Second, spread)
	if after[served] < 3400 {
		t.Errorf("after splitting: %v of 3,500 served", after)
	}
	s, r := m.stats(), m.tables["t"].ranges
	if s.Splits < 3 || s.Moves < s.Splits || len(r) != s.Splits+1 {
		t.Fatalf("%d splits, %d moves, %d ranges", s.Splits, s.Moves, len(r))
	}
	// The ranges have no gaps, and end at keys: a key is in exactly one.
	for i := range r {
		switch {
		case i == 0 && r[i].from != "", i == len(r)-1 && r[i].to != "":
			t.Errorf("the outer ranges end at %q and %q", r[0].from, r[len(r)-1].to)
		case i > 0 && (r[i-1].to != r[i].from || !slices.Contains(keys, r[i].from)):
			t.Errorf("%q follows %q", r[i].from, r[i-1].to)
		}
	}
}

// T3: all writes of an append-only key are at the end of the last range, however
// often it is split.
func TestKeysThatOnlyGrowAreNotHelpedBySplits(t *testing.T) {
	t.Parallel()
	m, c := newTestModel(t, Config{Scale: 20, MoveTime: time.Second, MergeAfter: 10 * time.Second})
	n := 0
	next := func(int) string { n++; return fmt.Sprintf("%012d", n) }
	drive(m, c, 700, 20*time.Second, next)
	got := drive(m, c, 700, 20*time.Second, next)
	s := m.stats()
	if s.Splits == 0 || got[served] > 20*200*11/10 {
		t.Errorf("%v after %d splits; want at most one server's 200/s", got, s.Splits)
	}
	if s.Merges == 0 {
		t.Error("the cold ranges behind were not merged")
	}
}

func TestAMovingRangeIsAwayForTheConfiguredTime(t *testing.T) {
	t.Parallel()
	m, c := newTestModel(t, Config{MoveTime: 4 * time.Second, Seed: 7})
	for _, key := range []string{"a", "m"} {
		m.admit("t", key, true, 1)
	}
	if !m.split(m.tables["t"], m.tables["t"].ranges[0], c.now) {
		t.Fatal("no split between a and m")
	}
	moved := c.now
	fates := map[fate]int{}
	for c.now.Sub(moved) < 4*time.Second-5*time.Millisecond {
		c.now = c.now.Add(4 * time.Millisecond)
		f, _ := m.admit("t", "m", true, 1)
		fates[f]++
		if f == served {
			t.Fatalf("served %v after the move began", c.now.Sub(moved))
		}
		if f, end := m.admit("t", "a", true, 1); f != served || end != "m" {
			t.Fatalf("the range that stayed: fate %d, ends at %q", f, end)
		}
		if !m.replyLost("t", "m", moved.Add(-time.Second)) || m.replyLost("t", "a", moved.Add(-time.Second)) {
			t.Fatal("replies of the moved range are lost, and of no other")
		}
	}
	for _, want := range []fate{away, timedOut, reset, lostReply} {
		if fates[want] == 0 {
			t.Errorf("fate %d never happened: %v", want, fates)
		}
	}
	c.now = moved.Add(4*time.Second + time.Millisecond)
	if f, _ := m.admit("t", "m", true, 1); f != served {
		t.Errorf("after the move: fate %d", f)
	}
	if m.replyLost("t", "m", c.now) {
		t.Error("a reply was lost after the move")
	}
}

func TestChurnSplitsAndMovesWithoutLoad(t *testing.T) {
	t.Parallel()
	run := func() Stats {
		m, c := newTestModel(t, Config{Churn: time.Second, MoveTime: 100 * time.Millisecond, Seed: 3})
		drive(m, c, 20, time.Minute, func(n int) string { return fmt.Sprint(n % 7) })
		return m.stats()
	}
	s := run()
	if s.Moves < 30 || s.Splits < 3 || s.Unavailable == 0 {
		t.Errorf("a minute of churn: %d moves, %d splits, %d requests met one", s.Moves, s.Splits, s.Unavailable)
	}
	if again := run(); again.Moves != s.Moves || again.Unavailable != s.Unavailable || again.LostReplies != s.LostReplies {
		t.Errorf("the same seed and the same requests gave other choices:\n%+v\n%+v", s, again)
	}
}

func TestTheAccountHasABudgetToo(t *testing.T) {
	t.Parallel()
	m, c := newTestModel(t, Config{Scale: 200, PartitionBudget: -1, ServerBudget: -1})
	got := drive(m, c, 300, 10*time.Second, func(n int) string { return fmt.Sprint(n) })
	if !near(got[served], 1000+100) || m.stats().RefusedByAccount != got[refused] {
		t.Errorf("%v, want 1,100 served", got)
	}
}
