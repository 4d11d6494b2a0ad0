package upkeep

import (
	"context"
	"log/slog"
	"time"

	"github.com/cutroom/cutroom/shared/workers"
)

// beatEvery is how often a worker rewrites its row.
const beatEvery = 3 * time.Second

// Alive is how old the latest heartbeat of a living worker can be, because some may be
// lost.
const Alive = 5 * beatEvery

// Heartbeat keeps a worker's row in the register until ctx ends, then removes it.
func Heartbeat(ctx context.Context, register *workers.Register, now func() workers.Worker, log *slog.Logger) {
	for ctx.Err() == nil {
		w := now()
		w.SeenAt = time.Now().UTC()
		if err := register.Beat(ctx, w); err != nil && ctx.Err() == nil {
			log.Warn("heartbeat", "error", err)
		}
		sleep(ctx, beatEvery)
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := register.Leave(leave, now().Name); err != nil {
		log.Debug("leave the register", "error", err)
	}
}
