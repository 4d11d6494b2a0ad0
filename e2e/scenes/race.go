package scenes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/tablestore"
)

// theRace is the paper's example of two RowKeys for one thing (T7), with a key of
// several values (S1), in one transaction (T2), and the ways in which a transaction
// is refused.
func theRace(ctx context.Context, s *Stage) error {
	office := s.Account("office")
	if err := office.Ensure(Quiet(ctx), nil, nil, []string{registrations.Table}); err != nil {
		return err
	}
	event, err := registrations.ParseEvent("2011 New York City Marathon__Full")
	if err != nil {
		return err
	}
	race, rows := registrations.New(office), tablestore.New(office.Table(registrations.Table))

	s.Say("A runner registers: bib 1234, John, male, 55 years old. Two questions will be asked of the list: who has this bib, and who is of this age? A table has one index, its keys. So the same runner is written twice, and a third time as a guard of the bib, in one transaction.")
	john := registrations.Registration{Bib: 1234, Name: "John", Sex: registrations.Male, Age: 55}
	if _, err := register(ctx, race, event, john); err != nil {
		return err
	}
	keys, err := rowKeys(ctx, rows, string(event))
	if err != nil {
		return err
	}
	s.Claim(slices.Equal(keys, []string{"AGE:055__1234__John__M", "BIB:01234__John__M__55", "GUARD:01234"}), "the RowKeys are the paper's, to the letter: %q", keys)

	s.Say("Who has bib 1234? Who is 55? Each question is one range of RowKeys, and reads the rows it shows and no others.")
	for _, ask := range []registrations.Query{{Bib: &john.Bib}, {AgeFrom: &john.Age, AgeTo: &john.Age}} {
		metered, meter := azstorage.WithCounter(ctx)
		found, _, err := race.List(metered, event, ask, 10, "")
		if err != nil {
			return err
		}
		s.Claim(len(found) == 1 && found[0].Name == "John" && meter.EntitiesRead() == 1, "one request, one row read, one runner shown")
	}
	if err := failures(ctx, s, race, rows, event, john); err != nil {
		return err
	}
	after, err := rowKeys(ctx, rows, string(event))
	if err != nil {
		return err
	}
	s.Claim(slices.Equal(after, keys), "after all these failures the table holds the same three rows: a transaction that is refused leaves nothing")

	s.Say("A birthday: the age is in two keys, so one transaction deletes two rows, inserts two, and replaces the guard in the version that was read.")
	older := 56
	if _, err := race.Edit(ctx, event, john.Bib, "", registrations.Edit{Age: &older}); err != nil {
		return err
	}
	if after, err = rowKeys(ctx, rows, string(event)); err != nil {
		return err
	}
	s.Claim(slices.Equal(after, []string{"AGE:056__1234__John__M", "BIB:01234__John__M__56", "GUARD:01234"}), "nobody can ever see John twice, or with two ages")
	return nil
}

// failures tries every way in which a transaction is refused.
func failures(ctx context.Context, s *Stage, race *registrations.Store, rows *tablestore.Table, event registrations.Event, john registrations.Registration) error {
	s.Say("Jane asks for the same bib. Her two rows have keys of their own, so the table would take them. The guard's key is the bib alone, and it is taken: the whole transaction is refused.")
	report, err := register(ctx, race, event, registrations.Registration{Bib: john.Bib, Name: "Jane", Sex: registrations.Female, Age: 30})
	if err != nil {
		return err
	}
	s.Claim(report.Taken == 1 && report.Accepted == 0, "Jane is refused with bib_taken")

	s.Say("Two officials edit John at the same time. The second one's version is old.")
	now, err := race.Get(ctx, event, john.Bib)
	if err != nil {
		return err
	}
	stale, err := rows.Get(Quiet(ctx), string(event), "GUARD:01234")
	if err != nil {
		return err
	}
	name := "John" // the same values: the version changes all the same
	if _, err := race.Edit(ctx, event, john.Bib, now.ETag, registrations.Edit{Name: &name}); err != nil {
		return err
	}
	_, err = rows.Submit(ctx, []tablestore.Op{{Kind: tablestore.OpReplace, Entity: stale, IfMatch: stale.ETag}})
	s.Claim(errors.Is(err, tablestore.ErrChanged), "the second edit is refused: 412, the row has changed")

	row := func(partition, key string) tablestore.Op {
		return tablestore.Op{Kind: tablestore.OpInsert, Entity: tablestore.Entity{PartitionKey: partition, RowKey: key}}
	}
	many := make([]tablestore.Op, tablestore.MaxBatchOps+1)
	for i := range many {
		many[i] = row(string(event), "X:"+tablestore.Pad(int64(i), 3))
	}
	s.Say("Three more transactions cannot be: on two partitions, of 101 operations, with one row twice. Our code refuses them before it asks.")
	for what, ops := range map[string][]tablestore.Op{
		"two partitions": {row(string(event), "X"), row("2011 Boston Marathon__Full", "X")},
		"101 operations": many,
		"one row twice":  {row(string(event), "X"), row(string(event), "X")},
	} {
		_, err := rows.Submit(ctx, ops)
		s.Claim(errors.Is(err, tablestore.ErrLimit), "%s: refused, and nothing was sent", what)
	}
	return nil
}

// register adds one runner, as a start list of one line does.
func register(ctx context.Context, race *registrations.Store, event registrations.Event, r registrations.Registration) (registrations.Report, error) {
	return race.Import(ctx, event, func(yield func(registrations.Row, error) bool) {
		yield(registrations.Row{Line: 1, Given: fmt.Sprint(r.Bib), Registration: r}, nil)
	})
}

// rowKeys lists a partition, without telling it.
func rowKeys(ctx context.Context, rows *tablestore.Table, partition string) (keys []string, err error) {
	for row, err := range rows.Query(Quiet(ctx), tablestore.Query{PartitionKey: partition}) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, row.RowKey)
	}
	return keys, nil
}
