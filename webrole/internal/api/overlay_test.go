package api

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ofDomain are such types; the files of features add theirs.
var ofDomain = map[string]any{
	"Failure": Failure{}, "Message": Message{}, "Poison": Poison{}, "Progress": Progress{}, "Queue": Queue{}, "Race": Race{},
	"UnreadableRow": UnreadableRow{},
}

// A type of the domain that stands for a type of the API has the members that the document
// names and no others: a member that is added to it is not shown by mistake.
func TestTypesOfTheDomainHaveTheMembersOfTheDocument(t *testing.T) {
	t.Parallel()
	document, err := GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range ofDomain {
		want := slices.Sorted(maps.Keys(document.Components.Schemas[name].Value.Properties))
		if diff := cmp.Diff(want, members(reflect.TypeOf(value))); diff != "" {
			t.Errorf("members of %s (-document +type):\n%s", name, diff)
		}
	}
}

// members are the names in JSON of a struct's exported fields, in order.
func members(of reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && !field.Anonymous && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
