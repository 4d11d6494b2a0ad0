package recent

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Memory keeps values for a limited time: those that were used last, up to a number. It
// is safe for concurrent use.
type Memory[K comparable, V any] struct {
	life time.Duration
	kept *lru.Cache[K, entry[V]]
}

type entry[V any] struct {
	value V
	since time.Time
}

// NewMemory returns a memory of at most size values, each of which is kept for life.
func NewMemory[K comparable, V any](size int, life time.Duration) *Memory[K, V] {
	return &Memory[K, V]{life: life, kept: newLRU[K, entry[V]](size)}
}

// Get returns the value of a key, or false when there is none or its time is over.
func (m *Memory[K, V]) Get(key K) (value V, found bool) {
	e, found := m.kept.Get(key)
	if !found || time.Since(e.since) >= m.life {
		return value, false
	}
	return e.value, true
}

// Add keeps a value, whose time began at since.
func (m *Memory[K, V]) Add(key K, value V, since time.Time) { m.kept.Add(key, entry[V]{value, since}) }

// Remove forgets the value of a key.
func (m *Memory[K, V]) Remove(key K) { m.kept.Remove(key) }

func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // the size is a constant of the caller, and not positive
	}
	return cache
}
