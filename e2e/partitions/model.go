package partitions

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// model is the partition layer without HTTP: who serves a key, and whether now.
// Nothing in it waits; time passes with the calls.
type model struct {
	cfg Config

	mu       sync.Mutex
	random   *rand.Rand
	account  bucket
	servers  []server
	tables   map[string]*table
	counters counters
	balanced time.Time // when hot and cold ranges were last looked for
}

// server serves ranges of any tables. load is entities/s asked for of late.
type server struct {
	bucket bucket
	load   float64
}

// table is its ranges, in order and without gaps: each ends where the next
// begins, the first begins at "", and the last one's end, "", is no end.
type table struct {
	ranges     []*keyRange
	partitions map[string]*bucket // by PartitionKey; full ones are forgotten
}

// keyRange is a run of PartitionKeys that one server serves: from is in it, to
// is not.
type keyRange struct {
	from, to string
	server   int
	asked    float64            // entities asked for since the last look
	keys     map[string]float64 // the same by PartitionKey, older looks count less
	hotSince time.Time          // zero: not hot
	usedAt   time.Time
	moving   struct{ since, until time.Time }
}

// bucket holds what may be used at once: a second's worth. It can be overdrawn,
// for a transaction may be larger than the bucket of a small scale, and a
// query's cost is known when it is over.
type bucket struct {
	tokens float64
	at     time.Time
}

func (b *bucket) fill(perSecond float64, now time.Time) {
	if b.at.IsZero() {
		b.tokens = perSecond
	} else {
		b.tokens = min(perSecond, b.tokens+perSecond*now.Sub(b.at).Seconds())
	}
	b.at = now
}

// open reports whether a request may begin. A negative budget is no limit.
func (b *bucket) open(perSecond float64, now time.Time) bool {
	if perSecond < 0 {
		return true
	}
	b.fill(perSecond, now)
	return b.tokens >= 1 || b.tokens >= perSecond
}

func newModel(cfg Config) *model {
	return &model{
		cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 0x7a627e5)), //nolint:gosec // a model, repeatable
		servers: make([]server, cfg.Servers), tables: map[string]*table{}, counters: newCounters(),
	}
}

// fate is what becomes of a request.
type fate int

const (
	served    fate = iota
	refused        // 503 ServerBusy: over a budget
	away           // 503 ServerBusy: the range moves
	timedOut       // 500 OperationTimedOut: the range moves
	reset          // the connection breaks, nothing applied: the range moves
	lostReply      // applied, then the connection breaks: the range begins to move
)

// handover is the part of a move's beginning in which the old server still
// finishes what it has.
const handover = 20 // MoveTime divided by it

// admit decides about a request that begins now. whole says that key is a
// PartitionKey, not only where a query of several begins. rangeEnd is where the
// range of the key ends, "" for no end.
func (m *model) admit(tableName, key string, whole bool, cost float64) (f fate, rangeEnd string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	m.balance(now)
	t := m.table(tableName)
	r := t.find(key)
	r.usedAt = now
	r.asked += cost
	p := &bucket{} // a full one, when no PartitionKey is named
	if whole {
		p = t.partition(key)
		r.note(key, cost)
	}
	if now.Before(r.moving.until) {
		switch dice := m.random.Float64(); {
		case now.Sub(r.moving.since) < m.cfg.MoveTime/handover:
			f = lostReply
		case dice < 0.2:
			f = timedOut
		case dice < 0.4:
			f = reset
		default:
			f = away
		}
		if f != lostReply {
			m.counters.unavailable(tableName, key)
			return f, r.to
		}
	}
	s := &m.servers[r.server]
	switch {
	case !p.open(m.cfg.PartitionBudget, now):
		m.counters.refuse(tableName, key, &m.counters.RefusedByPartition)
		return refused, r.to
	case !s.bucket.open(m.cfg.ServerBudget, now):
		m.counters.refuse(tableName, key, &m.counters.RefusedByServer)
		return refused, r.to
	case !m.account.open(m.cfg.AccountBudget, now):
		m.counters.refuse(tableName, key, &m.counters.RefusedByAccount)
		return refused, r.to
	}
	p.tokens -= cost
	s.bucket.tokens -= cost
	m.account.tokens--
	m.counters.serve(tableName, key, cost)
	if f == lostReply {
		m.counters.LostReplies++
	}
	return f, r.to
}

// admitAccount decides about a request that concerns no row, such as the
// creation of a table.
func (m *model) admitAccount() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.account.open(m.cfg.AccountBudget, m.cfg.Now()) {
		m.counters.RefusedByAccount++
		return false
	}
	m.account.tokens--
	return true
}

// charge adds what a query turned out to cost, by PartitionKey.
func (m *model) charge(tableName string, costs map[string]float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, now := m.table(tableName), m.cfg.Now()
	for key, cost := range costs {
		p, r := t.partition(key), t.find(key)
		p.open(m.cfg.PartitionBudget, now) // a new one is full
		p.tokens -= cost
		r.asked += cost
		r.note(key, cost)
		m.servers[r.server].bucket.tokens -= cost
		m.counters.add(tableName, key, cost)
	}
}

// replyLost reports whether the key's range began to move after the request did.
func (m *model) replyLost(tableName, key string, began time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost := m.table(tableName).find(key).moving.since.After(began)
	if lost {
		m.counters.LostReplies++
	}
	return lost
}

// page is how a query is answered.
type page int

const (
	fullPage page = iota
	shortPage
	emptyPage
)

// cut decides about the page of a query that may return top rows. Only a first
// page is empty: every later one brings at least one row nearer to the end.
func (m *model) cut(first bool, top int) (p page, newTop int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch dice := m.random.Float64(); {
	case first && dice < m.cfg.EmptyPages:
		return emptyPage, 1
	case dice >= 1-m.cfg.ShortPages && top > 1:
		return shortPage, 1 + m.random.IntN(min(top-1, 50))
	}
	return fullPage, top
}

func (m *model) table(name string) *table {
	t := m.tables[name]
	if t == nil {
		t = &table{partitions: map[string]*bucket{}}
		t.ranges = []*keyRange{{server: m.leastBusy(), keys: map[string]float64{}, usedAt: m.cfg.Now()}}
		m.tables[name] = t
	}
	return t
}

// forget is for a table that was deleted.
func (m *model) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tables, name)
}

// partition is the bucket of a PartitionKey.
func (t *table) partition(key string) *bucket {
	b := t.partitions[key]
	if b == nil {
		b = &bucket{}
		t.partitions[key] = b
	}
	return b
}

// note remembers what a PartitionKey was asked for.
func (r *keyRange) note(key string, cost float64) {
	if _, known := r.keys[key]; known || len(r.keys) < maxKeys {
		r.keys[key] += cost
	}
}

func (t *table) find(key string) *keyRange {
	i, found := slices.BinarySearchFunc(t.ranges, key, func(r *keyRange, key string) int { return cmp.Compare(r.from, key) })
	if !found {
		i--
	}
	return t.ranges[i]
}

// leastBusy is the server with the least load, and the first of equals.
func (m *model) leastBusy() int {
	best := 0
	ranges := m.rangesByServer()
	for i := range m.servers {
		a, b := m.servers[i].load, m.servers[best].load
		if a < b || a == b && ranges[i] < ranges[best] {
			best = i
		}
	}
	return best
}

func (m *model) rangesByServer() []int {
	n := make([]int, len(m.servers))
	for _, t := range m.tables {
		for _, r := range t.ranges {
			n[r.server]++
		}
	}
	return n
}

// maxKeys bounds what is remembered about the keys of a range, maxRanges the
// ranges of a table.
const (
	maxKeys   = 4096
	maxRanges = 64
)

// balance looks for hot and cold ranges, four times in SplitAfter.
func (m *model) balance(now time.Time) {
	if m.balanced.IsZero() {
		m.balanced = now
	}
	passed := now.Sub(m.balanced)
	if passed < m.cfg.SplitAfter/4 && (m.cfg.Churn == 0 || passed < m.cfg.Churn/4) {
		return
	}
	m.balanced = now
	for i := range m.servers {
		m.servers[i].load = 0
	}
	// In the order of their names: the same seed makes the same choices.
	names := slices.Sorted(maps.Keys(m.tables))
	for _, name := range names {
		for _, r := range m.tables[name].ranges {
			m.servers[r.server].load += r.asked / passed.Seconds()
		}
	}
	for _, name := range names {
		t := m.tables[name]
		for _, r := range slices.Clone(t.ranges) {
			hot := m.cfg.ServerBudget > 0 && r.asked/passed.Seconds() >= hotShare*m.cfg.ServerBudget
			switch {
			case !hot || now.Before(r.moving.until):
				r.hotSince = time.Time{}
			case r.hotSince.IsZero():
				r.hotSince = now
			case now.Sub(r.hotSince) >= m.cfg.SplitAfter:
				m.relieve(t, r, now)
			}
			r.asked = 0
		}
		m.merge(t, now)
		for key, b := range t.partitions {
			if b.fill(m.cfg.PartitionBudget, now); b.tokens >= m.cfg.PartitionBudget {
				delete(t.partitions, key)
			}
		}
		for _, r := range t.ranges {
			for key := range r.keys {
				if r.keys[key] /= 2; r.keys[key] < 0.1 {
					delete(r.keys, key)
				}
			}
		}
	}
	if m.cfg.Churn > 0 && m.random.Float64() < float64(passed)/float64(m.cfg.Churn) {
		m.churn(names, now)
	}
}

// relieve splits a hot range and moves one half, or, when all its load is one
// PartitionKey's, gives it a server for itself.
func (m *model) relieve(t *table, r *keyRange, now time.Time) {
	r.hotSince = time.Time{}
	if m.split(t, r, now) {
		return
	}
	m.counters.Unsplittable++
	if to := m.leastBusy(); r.rested(now, m.cfg) && m.rangesByServer()[r.server] > 1 && m.servers[to].load < m.servers[r.server].load/2 {
		m.move(r, to, now)
	}
}

// split cuts a range before the PartitionKey that halves its load. It is false
// when fewer than two keys were asked for: within a PartitionKey nothing is cut.
func (m *model) split(t *table, r *keyRange, now time.Time) bool {
	if len(r.keys) < 2 || len(t.ranges) >= maxRanges {
		return false
	}
	keys := slices.Sorted(maps.Keys(r.keys))
	total := 0.0
	for _, key := range keys {
		total += r.keys[key]
	}
	at, left := 0, 0.0
	for i := 1; i < len(keys); i++ {
		left += r.keys[keys[i-1]]
		at = i
		if left+r.keys[keys[i]]/2 >= total/2 {
			break
		}
	}
	right := &keyRange{from: keys[at], to: r.to, server: r.server, keys: map[string]float64{}, usedAt: now, moving: r.moving}
	for _, key := range keys[at:] {
		right.keys[key] = r.keys[key]
		delete(r.keys, key)
	}
	r.to = right.from
	t.ranges = slices.Insert(t.ranges, slices.Index(t.ranges, r)+1, right)
	m.counters.Splits++
	m.move(right, m.leastBusy(), now)
	return true
}

// move makes a range unavailable for MoveTime.
func (m *model) move(r *keyRange, to int, now time.Time) {
	share := m.servers[r.server].load / 2
	m.servers[r.server].load -= share // a guess until the next look
	m.servers[to].load += share
	r.server = to
	r.moving.since, r.moving.until = now, now.Add(m.cfg.MoveTime)
	r.hotSince = time.Time{}
	m.counters.Moves++
}

// rest is how long a range is left alone after a move, in times of MoveTime:
// what moves as often as it serves is broken, not balanced.
const rest = 4

func (r *keyRange) rested(now time.Time, cfg Config) bool {
	return !now.Before(r.moving.until.Add(rest * cfg.MoveTime))
}

// merge joins neighbours that were idle for long.
func (m *model) merge(t *table, now time.Time) {
	cold := func(r *keyRange) bool { return now.Sub(r.usedAt) >= m.cfg.MergeAfter }
	for i := 1; i < len(t.ranges); i++ {
		if a, b := t.ranges[i-1], t.ranges[i]; cold(a) && cold(b) {
			a.to = b.to
			t.ranges = slices.Delete(t.ranges, i, i+1)
			m.counters.Merges++
			i--
		}
	}
}

// churn splits or moves some range that is in use and has rested.
func (m *model) churn(names []string, now time.Time) {
	var tables []*table
	var ranges []*keyRange
	for _, name := range names {
		for _, r := range m.tables[name].ranges {
			if len(r.keys) > 0 && r.rested(now, m.cfg) {
				tables, ranges = append(tables, m.tables[name]), append(ranges, r)
			}
		}
	}
	if len(ranges) == 0 {
		return
	}
	i := m.random.IntN(len(ranges))
	if !m.split(tables[i], ranges[i], now) {
		m.move(ranges[i], m.random.IntN(len(m.servers)), now)
	}
}
