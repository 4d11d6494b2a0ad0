package partitions

import (
	"cmp"
	"maps"
	"slices"
)

// Count is what one PartitionKey saw.
type Count struct {
	Table, PartitionKey string
	Requests            int // that were served
	Entities            int // that were written or read
	Refused             int // over a budget
	Unavailable         int // while its range moved
}

// Stats is what the model has done so far.
type Stats struct {
	Requests, Entities                                    int
	RefusedByPartition, RefusedByServer, RefusedByAccount int
	Unavailable                                           int // asked for a range that moved
	LostReplies                                           int // applied, and the connection broke
	Splits, Moves, Merges                                 int
	Unsplittable                                          int // hot for one PartitionKey's sake
	EmptyPages, ShortPages, RangeEnds                     int // pages that Azurite would have filled
	Ranges                                                int // now, of all tables
	Partitions                                            []Count
}

// Refused is the number of requests over any budget.
func (s Stats) Refused() int { return s.RefusedByPartition + s.RefusedByServer + s.RefusedByAccount }

type counters struct {
	Stats
	byKey map[[2]string]*Count // table, PartitionKey
}

// maxCounted bounds the PartitionKeys with a count of their own; the others
// share the one of the key "…".
const maxCounted = 20000

func newCounters() counters { return counters{byKey: map[[2]string]*Count{}} }

func (c *counters) of(table, key string) *Count {
	n := c.byKey[[2]string{table, key}]
	if n == nil && len(c.byKey) >= maxCounted {
		key = "…"
		n = c.byKey[[2]string{table, key}]
	}
	if n == nil {
		n = &Count{Table: table, PartitionKey: key}
		c.byKey[[2]string{table, key}] = n
	}
	return n
}

func (c *counters) serve(table, key string, entities float64) {
	c.Requests++
	c.of(table, key).Requests++
	c.add(table, key, entities)
}

func (c *counters) add(table, key string, entities float64) {
	c.Entities += int(entities)
	c.of(table, key).Entities += int(entities)
}

func (c *counters) refuse(table, key string, reason *int) {
	*reason++
	c.of(table, key).Refused++
}

func (c *counters) unavailable(table, key string) {
	c.Unavailable++
	c.of(table, key).Unavailable++
}

func (m *model) countPages(empty, short, rangeEnd bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, yes := range map[*int]bool{&m.counters.EmptyPages: empty, &m.counters.ShortPages: short, &m.counters.RangeEnds: rangeEnd} {
		if yes {
			*n++
		}
	}
}

// stats is a copy; the busiest partitions come first.
func (m *model) stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.counters.Stats
	for _, t := range m.tables {
		s.Ranges += len(t.ranges)
	}
	for n := range maps.Values(m.counters.byKey) {
		s.Partitions = append(s.Partitions, *n)
	}
	slices.SortFunc(s.Partitions, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Entities+b.Refused, a.Entities+a.Refused), cmp.Compare(a.Table, b.Table), cmp.Compare(a.PartitionKey, b.PartitionKey))
	})
	return s
}
