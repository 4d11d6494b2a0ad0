package registrations

import (
	"strings"
	"unicode/utf8"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/visible"
)

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

var errEvent = invalid(InvalidEvent, "want event and distance, joined by two underscores: 2011 New York City Marathon__Full")
