// Package recent remembers values that cost many storage requests and that
// change, and lets all callers that ask for one at the same time share one
// reading. The number of readings then does not follow the number of viewers.
//
// Next: webrole/internal/playback, which shows what is remembered.
package recent

import (
	"context"
	"fmt"
	"time"

	"github.com/jellydator/ttlcache/v3"
	"golang.org/x/sync/singleflight"
)

const (
	// minPause is the least between the starts of two readings of one value, and a
	// reading that takes long is followed by a pause of pauseFactor times as long:
	// however many callers, a value is read for a fifth of the time at most.
	minPause    = 50 * time.Millisecond
	pauseFactor = 4
	// readTimeout ends a reading. It is of the reading's own, because those who
	// wait for it have different deadlines.
	readTimeout = 30 * time.Second
)

// Cache holds the values that were used last. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	read    func(context.Context, K) (V, error)
	known   *ttlcache.Cache[K, reading[V]]
	loading singleflight.Group
}

type reading[V any] struct {
	value V
	began time.Time
	took  time.Duration
}

// New returns a cache of at most size values, which read reads.
func New[K comparable, V any](size uint64, read func(context.Context, K) (V, error)) *Cache[K, V] {
	return &Cache[K, V]{read: read, known: ttlcache.New(ttlcache.WithCapacity[K, reading[V]](size))}
}

// Get returns the remembered value when it is enough: enough is told the value
// and how long ago its reading began, and may be called several times. Otherwise
// it returns a value whose reading began after the call, whether that is enough
// or not: so nothing is missed that was written before the call. A caller whose
// ctx ends stops waiting, and the reading goes on for the others. Errors of read
// are not remembered.
func (c *Cache[K, V]) Get(ctx context.Context, key K, enough func(value V, age time.Duration) bool) (none V, _ error) {
	asked := time.Now()
	for {
		if known := c.known.Get(key); known != nil {
			if r := known.Value(); r.began.After(asked) || enough(r.value, time.Since(r.began)) {
				return r.value, nil
			}
		}
		shared := c.loading.DoChan(fmt.Sprint(key), func() (any, error) { return c.readNow(ctx, key) })
		select {
		case <-ctx.Done():
			return none, ctx.Err()
		case result := <-shared:
			if result.Err != nil {
				return none, result.Err
			}
			// A reading that began before the call may have missed something.
			if r := result.Val.(reading[V]); r.began.After(asked) {
				return r.value, nil
			}
		}
	}
}

// readNow reads a value for all who wait for it: it does not end with the
// request that happened to be the first.
func (c *Cache[K, V]) readNow(ctx context.Context, key K) (reading[V], error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	if last := c.known.Get(key); last != nil {
		pause := max(minPause, (1+pauseFactor)*last.Value().took)
		time.Sleep(pause - time.Since(last.Value().began)) // at once when that is past
	}
	r := reading[V]{began: time.Now()}
	var err error
	if r.value, err = c.read(ctx, key); err != nil {
		return r, err
	}
	r.took = time.Since(r.began)
	c.known.Set(key, r, ttlcache.DefaultTTL)
	return r, nil
}

// NewMemory returns what keeps at most size values, those that were used last, each for life.
func NewMemory[K comparable, V any](size uint64, life time.Duration) *ttlcache.Cache[K, V] {
	return ttlcache.New(
		ttlcache.WithCapacity[K, V](size), ttlcache.WithTTL[K, V](life), ttlcache.WithDisableTouchOnHit[K, V](),
	)
}
