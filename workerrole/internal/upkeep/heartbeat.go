package upkeep

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/workers"
)

const (
	// beatEvery is how often a worker rewrites its row.
	beatEvery = 3 * time.Second
	// noteEvery is how soon the row tells people who watch that an item began or ended.
	noteEvery = time.Second
)

// Alive is how old the latest heartbeat of a living worker can be: some may be lost.
const Alive = 5 * beatEvery

// Heartbeat keeps a worker's row in the register until ctx ends, then removes it. A
// worker whose items stay the same writes every 3 s, another one at most every second.
func Heartbeat(ctx context.Context, register *workers.Register, now func() workers.Worker, log *slog.Logger) {
	var last workers.Worker // as the row has it
	Repeat(ctx, noteEvery, func() {
		w := now()
		if time.Since(last.SeenAt) < beatEvery && sameItems(w, last) {
			return
		}
		w.SeenAt = time.Now().UTC()
		if err := register.Beat(ctx, w); err != nil && ctx.Err() == nil {
			log.Warn("heartbeat", "error", err)
		}
		last = w
	})
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := register.Leave(leave, now().Name); err != nil {
		log.Debug("leave the register", "error", err)
	}
}

// sameItems reports whether a worker holds what it held, and does so equally well.
func sameItems(a, b workers.Worker) bool {
	return a.Draining == b.Draining && a.Leader == b.Leader && a.Trouble == b.Trouble &&
		slices.EqualFunc(a.Busy, b.Busy, func(x, y azq.Running) bool {
			return x.MessageID == y.MessageID && x.DequeueCount == y.DequeueCount && x.Renewals == y.Renewals
		})
}
