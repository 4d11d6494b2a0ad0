package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// InflightTable names the subjects that may have unfinished work.
const InflightTable = "inflight"

// What a caller can do about each: ErrNotFound → 404; ErrChanged → read again and retry, or
// tell the user (412).
var (
	ErrNotFound = errors.New("subject not found")
	ErrChanged  = errors.New("subject was changed meanwhile")
	// ErrUnchanged is returned by an edit function of Change to write nothing.
	ErrUnchanged = errors.New("nothing to change")
	// ErrRefused is what an error of Quotas.Reserve is that says that nothing was taken.
	ErrRefused = errors.New("refused")
)

// Sender is what the store needs of the queues. azq.Client implements it and
// explains the methods.
type Sender interface {
	SendItem(ctx context.Context, queue string, item azq.Item, delay time.Duration) error
	Lane(ctx context.Context, channel string, urgent bool) (lane int, bulk bool)
	Waiting(ctx context.Context, queue string) (bool, error)
}

// Product is what the engine has to know of a product: V is its document of a subject, P its
// plan of a generation. All but the declaration and Promises may be nil.
type Product[V, P any] struct {
	Declaration
	// ItemVersion is that of messages for generations that begin: workers of a release that does not
	// understand it leave them to others (paper row Q6). 0 is 1.
	ItemVersion int
	// Promises is what a new plan promises: see Declaration.PromisesFor.
	Promises func(plan P) []Promise
	// DueWith reports whether a run, of a step that does not lead, may be promised while its
	// upload goes on and so many runs of the leading step are. nil: none may.
	DueWith func(plan P, step Step, index, promised int) bool
	// Playable reports whether something of a subject can be used before it is ready.
	Playable func(View[V, P]) (bool, error)
	// RowKinds are kinds of rows that the product adds to a subject for a generation, each with
	// what says why a row cannot be read. Keys are <kind>:<generation>:…, between META and STEP.
	RowKinds map[string]func(tablestore.Entity) error
	Quotas   Quotas[V]
	Observer Observer[V, P]
}

// Quotas bound what subjects take of what is limited; nil bounds nothing. Safe for concurrent
// use, and to repeat.
type Quotas[V any] interface {
	// Reserve takes what a subject will need, before it is created or begins again. An error
	// that is ErrRefused says that nothing was taken.
	Reserve(ctx context.Context, subject V) error
	// TakePlace takes a place for work that is about to be promised: a run on request, which asker
	// asks for, or the first of a generation that is made again. It goes when the work has ended.
	TakePlace(ctx context.Context, asker string, work Key) error
	// CountOwned makes what is counted follow META, or its absence.
	CountOwned(ctx context.Context, id ID) error
}

// unlimited are the quotas of a product without any.
type unlimited[V any] struct{}

func (unlimited[V]) Reserve(context.Context, V) error { return nil }

func (unlimited[V]) TakePlace(context.Context, string, Key) error { return nil }

func (unlimited[V]) CountOwned(context.Context, ID) error { return nil }

// Store is safe for concurrent use.
type Store[V, P any] struct {
	Product[V, P]
	subjects *tablestore.Table
	inflight *tablestore.Table
	keys     *tablestore.Table
	sender   Sender
}

// New returns a store on the account's tables, which must exist: the declared one,
// InflightTable and IdempotencyTable. V embeds Meta, and P embeds Plan.
func New[V, P any, D interface {
	*V
	document
}, Q interface {
	*P
	planDocument
}](a *azstore.Account, sender Sender, product Product[V, P]) *Store[V, P] {
	if product.Quotas == nil {
		product.Quotas = unlimited[V]{}
	}
	return &Store[V, P]{
		Product:  product,
		subjects: tablestore.New(a, product.Table),
		inflight: tablestore.New(a, InflightTable),
		keys:     tablestore.New(a, IdempotencyTable),
		sender:   sender,
	}
}

// Record is a subject's document with the ETag of its META row, for If-Match.
type Record[V any] struct {
	Subject V
	ETag    string
}

// Meta is the engine's part of the document.
func (r Record[V]) Meta() Meta { return *metaOf(&r.Subject) }

// Create inserts a subject, whose ID must be new, or returns the refusal of its quotas.
// The mark is written first, so that the reconciler finds an upload that is never
// finished, and removes it, and what is reserved for one that was never inserted.
func (s *Store[V, P]) Create(ctx context.Context, v V) (Record[V], error) {
	m := *metaOf(&v)
	mark := markOf(m)
	mark.Awaits = m.State == AwaitingUpload
	if err := s.mark(ctx, mark); err != nil {
		return Record[V]{}, err
	}
	if err := s.Quotas.Reserve(ctx, v); err != nil {
		if errors.Is(err, ErrRefused) {
			// No client knows the id. A mark that stays costs a look, a week later.
			_ = s.ClearInflight(ctx, Inflight{ID: m.ID, ETag: tablestore.AnyETag})
		}
		return Record[V]{}, err
	}
	etag, err := s.subjects.Insert(ctx, metaRow(v))
	return Record[V]{Subject: v, ETag: etag}, err
}

// Get reads one subject: a point read.
func (s *Store[V, P]) Get(ctx context.Context, id ID) (Record[V], error) {
	return read(ctx, s.subjects, id, MetaKey, ErrNotFound, readMeta[V])
}

// read reads a row of a subject: a point read. The error is absent when there is none.
func read[T any](
	ctx context.Context, subjects *tablestore.Table, id ID, key string, absent error, decode func(tablestore.Entity) (T, error),
) (none T, _ error) {
	row, err := subjects.Get(ctx, string(id), key)
	if errors.Is(err, tablestore.ErrNotFound) {
		return none, absent
	}
	if err != nil {
		return none, err
	}
	return tablestore.Decode(ctx, subjects, row, decode)
}

// rowsOf selects the rows of a subject whose keys begin so: a row range (T5).
func rowsOf(id ID, prefix string) tablestore.Query {
	return tablestore.Query{PartitionKey: string(id), RowFrom: prefix, RowTo: tablestore.PrefixEnd(prefix), Class: tablestore.RowRange}
}

// Exists reports whether a subject exists and is not being deleted: a point read.
func (s *Store[V, P]) Exists(ctx context.Context, id ID) (bool, error) {
	rec, err := s.Get(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Meta().State != Deleting, err
}

// Change applies edit to the newest META and writes it with the messages that edit
// returns in one entity-group transaction. Then it sends them. With ifMatch it changes
// only that version, else ErrChanged. Without ifMatch it repeats edit when META was
// changed meanwhile. When edit returns ErrUnchanged nothing is written. Other errors of
// edit are returned as they are.
func (s *Store[V, P]) Change(ctx context.Context, id ID, ifMatch string, edit func(*V) ([]OutboxMessage, error)) (Record[V], error) {
	return s.change(ctx, id, ifMatch, s.Get, edit)
}

func (s *Store[V, P]) change(
	ctx context.Context, id ID, ifMatch string, get func(context.Context, ID) (Record[V], error), edit func(*V) ([]OutboxMessage, error),
) (Record[V], error) {
	for {
		rec, err := get(ctx, id)
		if err != nil {
			return Record[V]{}, err
		}
		if ifMatch != "" && rec.ETag != ifMatch {
			return Record[V]{}, ErrChanged
		}
		after := rec.Subject
		messages, err := edit(&after)
		if errors.Is(err, ErrUnchanged) {
			return rec, nil
		}
		if err != nil {
			return Record[V]{}, err
		}
		changed, err := s.write(ctx, rec, after, messages)
		if !errors.Is(err, ErrChanged) || ifMatch != "" {
			return changed, err
		}
	}
}

// write puts after in the place of META, adds the outbox rows and applies more, in one
// transaction. Then it sends the messages. What a subject needs of its owner's quota that is
// taken up again, is reserved before; if that is not written then, the mark makes the step on
// change count again. ErrChanged when META or a row of more is not as expected.
// The record's ETag says whether it was written, also when the messages could not be sent.
func (s *Store[V, P]) write(ctx context.Context, rec Record[V], after V, messages []OutboxMessage, more ...tablestore.Op) (Record[V], error) {
	m := metaOf(&after)
	begins := rec.Meta().State.Terminal() && (m.State.Active() || m.State == AwaitingUpload)
	if len(messages) > 0 || begins {
		if err := s.MarkInflight(ctx, *m); err != nil {
			return Record[V]{}, err
		}
	}
	if begins {
		if err := s.Quotas.Reserve(ctx, after); err != nil {
			return Record[V]{}, err
		}
	}
	m.UpdatedAt = Now()
	out := outboxRows(ctx, m.ID, messages)
	ops := slices.Concat([]tablestore.Op{{Kind: tablestore.OpReplace, Entity: metaRow(after), IfMatch: rec.ETag}}, more, inserted(out))
	etags, err := s.subjects.Submit(ctx, ops)
	if tablestore.Overtaken(err) {
		return Record[V]{}, ErrChanged
	}
	if err != nil {
		return Record[V]{}, err
	}
	s.notifySubject(rec.Subject, after)
	return Record[V]{Subject: after, ETag: etags[0]}, s.sendRows(ctx, m.ID, out)
}

// MetaKey is the RowKey of a subject's document.
const MetaKey = "META"

func metaRow[V any](v V) tablestore.Entity {
	m := metaOf(&v)
	m.Error = stored(m.Error)
	return tablestore.Entity{PartitionKey: string(m.ID), RowKey: MetaKey, Props: tablestore.Props(struct {
		State      State
		Generation int
		Doc        V
	}{m.State, m.Generation, v})}
}

// readMeta returns with an error what could be read.
func readMeta[V any](row tablestore.Entity) (Record[V], error) {
	rec := Record[V]{ETag: row.ETag}
	err := row.JSON("Doc", &rec.Subject)
	if id := rec.Meta().ID; err == nil && string(id) != row.PartitionKey {
		err = fmt.Errorf("it is of subject %q", id)
	}
	return rec, err
}

func planKey(generation int) string { return fmt.Sprintf("PLAN:%05d", generation) }

// Now is the time in microseconds. A table keeps 100 ns and JSON more, and what is read
// from both must compare as equal.
func Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Plan reads the plan of a generation: a point read. ErrGone when there is none.
func (s *Store[V, P]) Plan(ctx context.Context, id ID, generation int) (P, error) {
	return read(ctx, s.subjects, id, planKey(generation), ErrGone, readPlan[P])
}

func planRow[P any](id ID, plan P) tablestore.Entity {
	return tablestore.Entity{PartitionKey: string(id), RowKey: planKey(planOf(plan).Generation), Props: tablestore.Props(struct{ Doc P }{plan})}
}

func readPlan[P any](row tablestore.Entity) (plan P, _ error) {
	err := row.JSON("Doc", &plan)
	return plan, err
}
