package tablestore_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

type colour string

type inner struct{ Small, Large int64 }

type everything struct {
	inner
	Text    colour
	Whole   int
	Wide    int
	Part    float64
	Yes     bool
	At      time.Time
	Raw     []byte
	Doc     json.RawMessage
	List    []string
	Nested  *inner
	Renamed string `row:"Other"`
	Skipped string `row:"-"`
	private string
}

// What is written is read as it was, and zero fields are not written.
func TestStructsComeBack(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{"structs"}}); err != nil {
		t.Fatal(err)
	}
	table := tablestore.New(a, "structs")
	for name, want := range map[string]everything{
		"full": {
			inner: inner{Small: 1, Large: math.MaxInt64}, Text: "red", Whole: -7, Wide: 1 << 40, Part: 2, Yes: true,
			At: time.Date(2026, 11, 20, 23, 0, 45, 123456700, time.UTC), Raw: []byte{0, 1}, Doc: json.RawMessage(`{"a":1}`),
			List: []string{"x", "y"}, Nested: &inner{Small: 3}, Renamed: "r",
		},
		"empty": {},
	} {
		want.Skipped, want.private = "s", "p"
		if _, err := table.Upsert(t.Context(), tablestore.Entity{PartitionKey: "p", RowKey: name, Props: tablestore.Props(want)}); err != nil {
			t.Fatal(err)
		}
		row, err := table.Get(t.Context(), "p", name)
		if err != nil {
			t.Fatal(err)
		}
		if _, renamed := row.Props["Other"]; renamed != (name == "full") || name == "empty" && len(row.Props) != 0 {
			t.Errorf("%s is stored as %v", name, row.Props)
		}
		got := everything{Skipped: "s", private: "p"}
		if err := row.Struct(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(everything{}, inner{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestStructsThatCannotBe(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Tables: []string{"structs"}}); err != nil {
		t.Fatal(err)
	}
	table := tablestore.New(a, "structs")
	row := tablestore.Entity{PartitionKey: "p", RowKey: "r", Props: tablestore.Props(everything{Doc: json.RawMessage(`{`)})}
	if _, err := table.Upsert(t.Context(), row); err == nil || !strings.Contains(err.Error(), "Doc") {
		t.Errorf("broken JSON is written: %v", err)
	}
	for property, value := range map[string]any{"Text": int32(1), "Whole": "one", "Part": "half", "Yes": "yes", "At": "now", "Raw": "raw", "List": "{", "Nested": true} {
		row.Props = map[string]any{property: value}
		if _, err := table.Upsert(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		stored, err := table.Get(t.Context(), "p", "r")
		if err != nil {
			t.Fatal(err)
		}
		if err := stored.Struct(&everything{}); err == nil || !strings.Contains(err.Error(), property) {
			t.Errorf("%s = %v is read: %v", property, value, err)
		}
	}
}
