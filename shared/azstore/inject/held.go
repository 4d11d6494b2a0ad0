package inject

import (
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
)

// Held is a write to a table that is kept on its way.
type Held struct {
	caught chan struct{} // closed when there is one; then found is set
	wanted *regexp.Regexp
	found  []string
	lost   atomic.Bool
	once   sync.Once
	freed  chan struct{}
}

// Caught is closed when a write is being kept.
func (p *Held) Caught() <-chan struct{} { return p.caught }

// Found is what the groups of the expression matched in its body, once it is caught.
func (p *Held) Found() []string { return p.found }

// Lose says that the sender has died: the write still arrives, and its caller is not told
// what became of it.
func (p *Held) Lose() { p.lost.Store(true) }

// Release lets the write arrive, or none be kept. Safe to repeat.
func (p *Held) Release() { p.once.Do(func() { close(p.freed) }) }

// Hold keeps the next write to a table whose body matches, until it is released.
// What becomes of its sender meanwhile makes no difference: a packet knows of no
// lease.
func (p *Proxy) Hold(wanted *regexp.Regexp) *Held {
	held := &Held{wanted: wanted, caught: make(chan struct{}), freed: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, held)
	return held
}

// keep holds a request that is to be held, and reports whether its sender
// died meanwhile.
func (p *Proxy) keep(body []byte) (lost bool) {
	held := p.catch(body)
	if held == nil {
		return false
	}
	close(held.caught)
	<-held.freed
	return held.lost.Load()
}

func (p *Proxy) catch(body []byte) *Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = slices.DeleteFunc(p.held, func(held *Held) bool {
		select {
		case <-held.freed:
			return true
		default:
			return false
		}
	})
	for i, held := range p.held {
		found := held.wanted.FindSubmatch(body)
		if found == nil {
			continue
		}
		p.held = slices.Delete(p.held, i, i+1)
		for _, group := range found[1:] {
			held.found = append(held.found, string(group))
		}
		return held
	}
	return nil
}
