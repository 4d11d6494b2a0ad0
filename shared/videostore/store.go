package videostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/video"
)

// Names of tables that other packages read.
const (
	VideosTable   = "videos"
	InflightTable = "inflight"
)

// Tables are all that this package keeps.
var Tables = []string{VideosTable, InflightTable, IdempotencyTable, QuotasTable}

// What a caller can do about each: ErrNotFound → 404; ErrChanged → read again and retry, or
// tell the user (412).
var (
	ErrNotFound = errors.New("video not found")
	ErrChanged  = errors.New("video was changed by someone else")
	// ErrUnchanged is returned by an edit function of Change to write nothing.
	ErrUnchanged = errors.New("nothing to change")
)

// Sender is what the store needs of the queues. azq.Client implements it and
// explains the methods.
type Sender interface {
	SendItem(ctx context.Context, queue string, item azq.Item, delay time.Duration) error
	Lane(ctx context.Context, channel string, urgent bool) (lane int, bulk bool)
	Waiting(ctx context.Context, queue string) (bool, error)
}

// Store is safe for concurrent use.
type Store struct {
	videos      *tablestore.Table
	inflight    *tablestore.Table
	keys        *tablestore.Table
	quotas      *tablestore.Table
	limits      Limits
	ledgerLocks [64]ledgerLock // by hash

	sender   Sender
	observer Observer
	plans    *lru.Cache[planID, video.Plan]
}

// maxPlans is how many plans a process keeps in memory. That is safe because a plan
// never changes and no id is used twice. The largest plan has 32,768 characters.
const maxPlans = 512

type planID struct {
	id         video.ID
	generation int
}

// New returns a store on the account's tables, which must exist.
func New(a *azstore.Account, sender Sender) *Store {
	plans, _ := lru.New[planID, video.Plan](maxPlans) // an error only of a size below 1
	return &Store{
		plans:    plans,
		videos:   tablestore.New(a, VideosTable),
		inflight: tablestore.New(a, InflightTable),
		keys:     tablestore.New(a, IdempotencyTable),
		quotas:   tablestore.New(a, QuotasTable),
		sender:   sender,
	}
}

// Record is a video with the ETag of its META row, for If-Match.
type Record struct {
	Video video.Video
	ETag  string
}

// Create inserts v, whose ID must be new, or returns a *QuotaError when its owner has no room.
// The mark is written first, so that the reconciler finds an upload that is never
// finished, and removes it, and what is reserved for one that was never inserted.
func (s *Store) Create(ctx context.Context, v video.Video) (Record, error) {
	mark := markOf(v)
	mark.Awaits = v.State == video.AwaitingUpload
	if err := s.mark(ctx, mark); err != nil {
		return Record{}, err
	}
	if err := s.Reserve(ctx, v); err != nil {
		if errors.As(err, new(*QuotaError)) {
			// No client knows the id. A mark that stays costs a look, a week later.
			_ = s.ClearInflight(ctx, Inflight{ID: v.ID, ETag: tablestore.AnyETag})
		}
		return Record{}, err
	}
	etag, err := s.videos.Insert(ctx, metaRow(v))
	return Record{Video: v, ETag: etag}, err
}

// Get reads one video: a point read.
func (s *Store) Get(ctx context.Context, id video.ID) (Record, error) {
	return read(ctx, s, id, metaKey, ErrNotFound, readMeta)
}

// read reads a row of a video: a point read. The error is absent when there is none.
func read[T any](
	ctx context.Context, s *Store, id video.ID, key string, absent error, decode func(tablestore.Entity) (T, error),
) (none T, _ error) {
	row, err := s.videos.Get(ctx, string(id), key)
	if errors.Is(err, tablestore.ErrNotFound) {
		return none, absent
	}
	if err != nil {
		return none, err
	}
	return tablestore.Decode(ctx, s.videos, row, decode)
}

// Exists reports whether a video exists and is not being deleted: a point read.
func (s *Store) Exists(ctx context.Context, id video.ID) (bool, error) {
	rec, err := s.Get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Video.State != video.Deleting, err
}

// Change applies edit to the newest META and writes it with the messages that edit
// returns in one entity-group transaction. Then it sends them. With ifMatch it changes
// only that version, else ErrChanged. Without ifMatch it repeats edit when META was
// changed meanwhile. When edit returns ErrUnchanged nothing is written. Other errors of
// edit are returned as they are.
func (s *Store) Change(ctx context.Context, id video.ID, ifMatch string, edit func(*video.Video) ([]OutboxMessage, error)) (Record, error) {
	return s.changeWith(ctx, id, ifMatch, func(v *video.Video) ([]OutboxMessage, []tablestore.Op, error) {
		messages, err := edit(v)
		return messages, nil, err
	})
}

// changeWith is Change with more operations in the transaction.
func (s *Store) changeWith(ctx context.Context, id video.ID, ifMatch string, edit func(*video.Video) ([]OutboxMessage, []tablestore.Op, error)) (Record, error) {
	for {
		rec, err := s.Get(ctx, id)
		if err != nil {
			return Record{}, err
		}
		if ifMatch != "" && rec.ETag != ifMatch {
			return Record{}, ErrChanged
		}
		after := rec.Video
		messages, more, err := edit(&after)
		if errors.Is(err, ErrUnchanged) {
			return rec, nil
		}
		if err != nil {
			return Record{}, err
		}
		changed, err := s.write(ctx, rec, after, messages, more...)
		if !errors.Is(err, ErrChanged) || ifMatch != "" {
			return changed, err
		}
	}
}

// write puts after in the place of META, adds the outbox rows and applies more, in one
// transaction. Then it sends the messages. What a video needs of its owner's quota that is
// taken up again, is reserved before; if that is not written then, the mark makes the step on
// change count again. ErrChanged when META or a row of more is not as expected.
// The record's ETag says whether it was written, also when the messages could not be sent.
func (s *Store) write(ctx context.Context, rec Record, after video.Video, messages []OutboxMessage, more ...tablestore.Op) (Record, error) {
	begins := rec.Video.State.Terminal() && (after.State.Active() || after.State == video.AwaitingUpload)
	if len(messages) > 0 || begins {
		if err := s.MarkInflight(ctx, after); err != nil {
			return Record{}, err
		}
	}
	if begins {
		if err := s.Reserve(ctx, after); err != nil {
			return Record{}, err
		}
	}
	after.UpdatedAt = now()
	out := outboxRows(ctx, after.ID, messages)
	ops := slices.Concat([]tablestore.Op{{Kind: tablestore.OpReplace, Entity: metaRow(after), IfMatch: rec.ETag}}, more, inserted(out))
	etags, err := s.videos.Submit(ctx, ops)
	if tablestore.Overtaken(err) {
		return Record{}, ErrChanged
	}
	if err != nil {
		return Record{}, err
	}
	s.notifyVideo(rec.Video, after)
	return Record{Video: after, ETag: etags[0]}, s.sendRows(ctx, after.ID, out)
}

const metaKey = "META"

func metaRow(v video.Video) tablestore.Entity {
	v.Error = stored(v.Error)
	return tablestore.Entity{PartitionKey: string(v.ID), RowKey: metaKey, Props: tablestore.Props(struct {
		State      video.State
		Generation int
		Doc        video.Video
	}{v.State, v.Generation, v})}
}

// VideoOfMeta reports whether a row that cannot be read is META, and of which video.
func VideoOfMeta(row tablestore.Unreadable) (id video.ID, isMeta bool) {
	return video.ID(row.PartitionKey), row.Table == VideosTable && row.RowKey == metaKey
}

// readMeta returns with an error what could be read.
func readMeta(row tablestore.Entity) (Record, error) {
	rec := Record{ETag: row.ETag}
	err := row.JSON("Doc", &rec.Video)
	if err == nil && string(rec.Video.ID) != row.PartitionKey {
		err = fmt.Errorf("it is of video %q", rec.Video.ID)
	}
	return rec, err
}

func planKey(generation int) string { return fmt.Sprintf("PLAN:%05d", generation) }

// now is the time in microseconds. A table keeps 100 ns and JSON more, and what is read
// from both must compare as equal.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Plan reads the plan of a generation: a point read, or none when the plan is in memory.
// ErrGone when there is no plan.
func (s *Store) Plan(ctx context.Context, id video.ID, generation int) (video.Plan, error) {
	if plan, found := s.plans.Get(planID{id, generation}); found {
		return plan, nil
	}
	plan, err := read(ctx, s, id, planKey(generation), ErrGone, readPlan)
	if err == nil {
		s.plans.Add(planID{id, generation}, plan)
	}
	return plan, err
}

func planRow(id video.ID, plan video.Plan) tablestore.Entity {
	return tablestore.Entity{PartitionKey: string(id), RowKey: planKey(plan.Generation), Props: tablestore.Props(struct{ Doc video.Plan }{plan})}
}

func readPlan(row tablestore.Entity) (plan video.Plan, _ error) {
	err := row.JSON("Doc", &plan)
	return plan, err
}
