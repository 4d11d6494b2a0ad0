package enginetest

import (
	"context"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
)

// Mailbox is an engine.Sender that keeps the items: a test delivers them, in any order and as
// often as it likes.
type Mailbox struct {
	mu    sync.Mutex
	Items []azq.Item // read and changed while no step runs
}

// SendItem implements engine.Sender.
func (m *Mailbox) SendItem(_ context.Context, _ string, item azq.Item, _ time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Items = append(m.Items, item)
	return nil
}

// Lane implements engine.Sender.
func (*Mailbox) Lane(context.Context, string, bool) (int, bool) { return 0, false }

// Waiting implements engine.Sender.
func (*Mailbox) Waiting(context.Context, string) (bool, error) { return true, nil }
