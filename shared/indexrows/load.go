package indexrows

import (
	"context"
	"fmt"

	"github.com/cutroom/cutroom/shared/video"
)

// Load writes the derived rows of many videos at once. It is for filling a new
// index: the tables must have no rows of these videos, and no other process may write
// to them. Rows of different videos that share a partition are written in one
// transaction, so Load needs a fraction of the requests of as many Syncs. Later
// Syncs keep its rows up to date. Applied is not called. Safe to repeat; it needs
// memory for all videos.
func (k *Keeper) Load(ctx context.Context, videos []video.Video) error {
	var all []Row
	for _, v := range videos {
		rows, err := k.Rows(v)
		if err != nil {
			return fmt.Errorf("planning rows of %s: %w", v.ID, err)
		}
		if len(rows) == 0 {
			continue
		}
		written := make([]Key, len(rows))
		for i, r := range rows {
			written[i] = r.key()
		}
		ref, err := k.entity(v.ID, &reference{Rows: keysOf(written)})
		if err != nil {
			return fmt.Errorf("planning rows of %s: %w", v.ID, err)
		}
		all = append(append(all, rows...), Row{Table: k.home, Entity: ref})
	}
	if err := k.apply(ctx, all, nil); err != nil {
		return fmt.Errorf("loading rows: %w", err)
	}
	return nil
}
