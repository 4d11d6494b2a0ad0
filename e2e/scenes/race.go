package scenes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/registrations"
)

var _ = register(programs, "the-race", theRace)

// race is the paper's example on a stage.
type race struct {
	*Stage
	store *registrations.Store
	rows  *tablestore.Table
	event registrations.Event
}

// theRace is the paper's example of two RowKeys for one thing (T7), with a key of
// several values (S1), in one transaction (T2), and the ways in which a transaction
// is refused.
func theRace(s *Stage) {
	s.Ensure(nil, registrations.Table)
	office := s.Account("office")
	r := race{s, registrations.New(office), tablestore.New(office, registrations.Table), get(registrations.ParseEvent("2011 New York City Marathon__Full"))}
	john := registrations.Registration{Bib: 1234, Name: "John", Sex: registrations.Male, Age: 55}
	r.register(john)
	keys := r.keys()
	s.Claim(slices.Equal(keys, []string{"AGE:055__1234__John__M", "BIB:01234__John__M__55", "GUARD:01234"}), keys)
	for _, ask := range []registrations.Query{{Bib: &john.Bib}, {AgeFrom: &john.Age, AgeTo: &john.Age}} {
		metered, meter := azstore.WithCounter(s.ctx)
		found, _, err := r.store.List(metered, r.event, ask, 10, "")
		must(err)
		s.Claim(len(found) == 1 && found[0].Name == "John" && meter.Counts().Rows == 1)
	}
	r.failures(john)
	s.Claim(slices.Equal(r.keys(), keys))
	older := 56
	get(r.store.Edit(s.ctx, r.event, john.Bib, "", registrations.Edit{Age: &older}))
	s.Claim(slices.Equal(r.keys(), []string{"AGE:056__1234__John__M", "BIB:01234__John__M__56", "GUARD:01234"}))
}

// failures tries every way in which a transaction is refused.
func (r race) failures(john registrations.Registration) {
	report := r.register(registrations.Registration{Bib: john.Bib, Name: "Jane", Sex: registrations.Female, Age: 30})
	r.Claim(report.Taken == 1 && report.Accepted == 0)

	now := get(r.store.Get(r.ctx, r.event, john.Bib))
	stale := get(r.rows.Get(Quiet(r.ctx), string(r.event), "GUARD:01234"))
	name := "John" // the same values: the version changes all the same
	get(r.store.Edit(r.ctx, r.event, john.Bib, now.ETag, registrations.Edit{Name: &name}))
	_, err := r.rows.Submit(r.ctx, []tablestore.Op{{Kind: tablestore.OpReplace, Entity: stale, IfMatch: stale.ETag}})
	r.Claim(errors.Is(err, tablestore.ErrChanged))

	row := func(partition, key string) tablestore.Op {
		return tablestore.Op{Kind: tablestore.OpInsert, Entity: tablestore.Entity{PartitionKey: partition, RowKey: key}}
	}
	here := string(r.event)
	many := make([]tablestore.Op, tablestore.MaxBatchOps+1)
	for i := range many {
		many[i] = row(here, "X:"+tablestore.Pad(int64(i), 3))
	}
	for _, ops := range [][]tablestore.Op{{row(here, "X"), row("2011 Boston Marathon__Full", "X")}, many, {row(here, "X"), row(here, "X")}} {
		_, err := r.rows.Submit(r.ctx, ops)
		r.Claim(errors.Is(err, tablestore.ErrLimit))
	}
}

// register adds one runner, as a start list of one line does.
func (r race) register(one registrations.Registration) registrations.Report {
	return get(r.store.Import(r.ctx, r.event, func(yield func(registrations.Row, error) bool) {
		yield(registrations.Row{Line: 1, Given: fmt.Sprint(one.Bib), Registration: one}, nil)
	}))
}

// keys lists the rows of the event, without telling it.
func (r race) keys() (keys []string) {
	for row, err := range r.rows.Query(Quiet(r.ctx), tablestore.Query{PartitionKey: string(r.event)}) {
		must(err)
		keys = append(keys, row.RowKey)
	}
	return keys
}
