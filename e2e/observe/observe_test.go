package observe

import (
	"slices"
	"testing"
)

// What is not exported is found, and what is only described, or recorded by a rule, is
// not taken for exported or missing.
func TestMissing(t *testing.T) {
	t.Parallel()
	page := "# HELP cutroom_c Described.\ncutroom_a{queue=\"x\"} 1\ncutroom_b 2\n"
	got := Missing([]string{"cutroom_a", "cutroom_b", "cutroom_c", "cutroom_d", "cutroom:e:f"}, page, "cutroom_d 0\n")
	if want := []string{"cutroom_c"}; !slices.Equal(got, want) {
		t.Errorf("missing %v, want %v", got, want)
	}
}
