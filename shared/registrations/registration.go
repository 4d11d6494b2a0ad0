package registrations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/visible"
)

// Sex is the category that a runner starts in.
type Sex string

// The sexes, as the API and the keys show them.
const (
	Female    Sex = "F"
	Male      Sex = "M"
	NonBinary Sex = "X"
)

// Registration is one runner of an event.
type Registration struct {
	Event      Event  `row:"-"`
	Bib        int    // 1 to MaxBib
	Name       string // NFC, without blanks at the ends
	Sex        Sex
	Age        int       // years, 0 to MaxAge
	FinishedAt time.Time // to the millisecond; zero: not (yet)

	// ETag is the version: it changes with every write.
	ETag string `row:"Version"`

	guard string // storage's own ETag of the guard row; "" when another row was read
}

// Limits of a registration.
const (
	MaxBib  = 99_999 // five digits in the key
	MaxAge  = 150
	MaxName = 200 // characters
)

// Code says why a registration cannot be taken. Codes are stable: the API shows them.
type Code string

// The codes.
const (
	BibTaken      Code = "bib_taken" // another runner has it
	InvalidEvent  Code = "invalid_event"
	InvalidBib    Code = "invalid_bib"
	InvalidName   Code = "invalid_name"
	NameTooLong   Code = "name_too_long" // for people, or escaped for a key
	InvalidSex    Code = "invalid_sex"
	InvalidAge    Code = "invalid_age"
	InvalidFinish Code = "invalid_finish"
	InvalidRow    Code = "invalid_row" // cannot be read at all
)

// Invalid is the error of what cannot be taken. Detail is for people and repeats
// no input.
type Invalid struct {
	Code   Code
	Detail string
}

// Error implements error.
func (e *Invalid) Error() string { return string(e.Code) + ": " + e.Detail }

func invalid(code Code, format string, args ...any) *Invalid {
	return &Invalid{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// normalised returns r as it is stored. The error is an *Invalid.
func (r Registration) normalised() (Registration, error) {
	wellFormed := utf8.ValidString(r.Name)
	r.Name = norm.NFC.String(strings.TrimSpace(r.Name))
	r.FinishedAt = r.FinishedAt.UTC().Truncate(time.Millisecond)
	switch {
	case r.Bib < 1 || r.Bib > MaxBib:
		return r, invalid(InvalidBib, "a bib is a whole number from 1 to %d", MaxBib)
	case !wellFormed || !visible.Is(r.Name, ""):
		return r, invalid(InvalidName, "a name is UTF-8 text that can be seen, without characters that change how others are shown")
	case utf8.RuneCountInString(r.Name) > MaxName:
		return r, invalid(NameTooLong, "a name has at most %d characters", MaxName)
	case !slices.Contains([]Sex{Female, Male, NonBinary}, r.Sex):
		return r, invalid(InvalidSex, "sex is F, M or X")
	case r.Age < 0 || r.Age > MaxAge:
		return r, invalid(InvalidAge, "an age is a whole number from 0 to %d", MaxAge)
	case !r.FinishedAt.IsZero() && (r.FinishedAt.Before(firstTime) || r.FinishedAt.After(lastTime)):
		return r, invalid(InvalidFinish, "a finish is a time between %d and %d", firstTime.Year(), lastTime.Year())
	}
	for _, key := range r.keys() {
		// Emoji take eight characters of a key each, so this is a limit of its own.
		if utf8.RuneCountInString(key) > tablestore.MaxKeyUnits {
			return r, invalid(NameTooLong, "escaped for a key, the name makes it longer than %d characters", tablestore.MaxKeyUnits)
		}
	}
	return r, nil
}

// Times that have 13 digits of Unix milliseconds, padded.
var (
	firstTime = time.UnixMilli(0).UTC()
	lastTime  = time.Date(2286, 1, 1, 0, 0, 0, 0, time.UTC)
)

// sameRunner reports whether two registrations are of one person; the finish
// does not count.
func (r Registration) sameRunner(o Registration) bool {
	return r.Bib == o.Bib && r.Name == o.Name && r.Sex == o.Sex && r.Age == o.Age
}

const (
	bibPrefix   = "BIB:"
	agePrefix   = "AGE:"
	guardPrefix = "GUARD:"

	bibDigits = 5
	ageDigits = 3
)

// bibKey is `BIB:01234__John__M__55`.
func (r Registration) bibKey() string {
	return bibRange(r.Bib) + tablestore.Join(r.Name, string(r.Sex), strconv.Itoa(r.Age))
}

// ageKey is `AGE:055__1234__John__M`.
func (r Registration) ageKey() string {
	return agePrefix + pad(r.Age, ageDigits) + tablestore.Separator + tablestore.Join(strconv.Itoa(r.Bib), r.Name, string(r.Sex))
}

// bibRange is how the keys of a bib begin.
func bibRange(bib int) string { return bibPrefix + pad(bib, bibDigits) + tablestore.Separator }

// guardKey is `GUARD:01234`.
func guardKey(bib int) string { return guardPrefix + pad(bib, bibDigits) }

func pad(n, width int) string { return tablestore.Pad(int64(n), width) }

// keys are those of the rows of r: the guard first.
func (r Registration) keys() []string { return []string{guardKey(r.Bib), r.bibKey(), r.ageKey()} }

func (r Registration) entity(rowKey string) tablestore.Entity {
	return tablestore.Entity{PartitionKey: string(r.Event), RowKey: rowKey, Props: tablestore.Props(r)}
}

// readRegistration reads any of the three rows, which say the same and have keys that
// follow from it.
func readRegistration(e tablestore.Entity) (Registration, error) {
	r := Registration{Event: Event(e.PartitionKey)}
	if strings.HasPrefix(e.RowKey, guardPrefix) {
		r.guard = e.ETag
	}
	err := e.Struct(&r)
	if err == nil {
		_, err = r.normalised()
	}
	if err == nil && !slices.Contains(r.keys(), e.RowKey) {
		err = errors.New("its key is of another registration")
	}
	return r, err
}

// Event is a race over one distance: the PartitionKey of its rows, made by
// ParseEvent. Safe to compare.
type Event string

// ParseEvent reads the text that people write, "<event>__<distance>": exactly
// two fields, each of them something, joined by two underscores (row S1). The
// fields are escaped for the key, which leaves the usual ones as they are. The
// error is an *Invalid with code InvalidEvent.
func ParseEvent(text string) (Event, error) {
	fields := strings.Split(text, tablestore.Separator)
	if len(fields) != 2 || !utf8.ValidString(text) || !visible.Is(text, "") {
		return "", errEvent
	}
	for _, f := range fields {
		// "A___B" could be read in two ways, and blanks at the ends are not seen.
		if f == "" || f != strings.Trim(f, "_") || f != strings.TrimSpace(f) {
			return "", errEvent
		}
	}
	key := tablestore.Join(fields...)
	if utf8.RuneCountInString(key) > tablestore.MaxKeyUnits { // keys have no characters of two units
		return "", invalid(InvalidEvent, "the text is too long")
	}
	return Event(key), nil
}

// UnmarshalText is ParseEvent for an address that names an event.
func (e *Event) UnmarshalText(text []byte) (err error) {
	*e, err = ParseEvent(string(text))
	return err
}

var errEvent = invalid(InvalidEvent, "want event and distance, joined by two underscores: 2011 New York City Marathon__Full")

// eventsKey is the partition of the list of events. No event has this name: it has no
// distance.
const eventsKey = "~events"

// NoteEvent puts an event on the list of events: one upsert. Safe to repeat.
func (s *Store) NoteEvent(ctx context.Context, event Event) error {
	_, err := s.rows.Upsert(ctx, tablestore.Entity{PartitionKey: eventsKey, RowKey: string(event)})
	return err
}

// Events returns a page of the events that have a start list, by name, as people write
// them: one row range. limit is from 1 to 1000; next continues it and is empty at the
// end. tablestore.ErrToken.
func (s *Store) Events(ctx context.Context, limit int, token string) (events []string, next string, err error) {
	_, next, err = s.rows.Page(ctx, tablestore.Query{
		PartitionKey: eventsKey, PageSize: int32(limit), Class: tablestore.RowRange,
		Read: tablestore.Into(&events, func(row tablestore.Entity) (string, error) { return tablestore.UnescapeKey(row.RowKey) }),
	}, token)
	return events, next, err
}
