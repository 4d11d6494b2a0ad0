package soak

import (
	"maps"
	"testing"
)

// What attempts are charged with is read from the workers' logs as they write them.
func TestChargesAreCounted(t *testing.T) {
	t.Parallel()
	log := `time=2026-11-25T09:00:00Z level=WARN msg="attempt failed" worker=w queue=encode-high step=encode item=9f379417-0311-4ae7-8603-366b6ad9dc80 subject=4hwv7jzco3ivh63fkofkxtor5i failures=1 retryIn=1s error="encode \"4hwv7jzco3ivh63fkofkxtor5i\": chunk 3 | 4\nand more"
time=2026-11-25T09:00:01Z level=WARN msg="trouble, given back" step=encode error=x
time=2026-11-25T09:00:02Z level=WARN msg="attempt failed" step=encode failures=2 error="encode \"5hwv7jzco3ivh63fkofkxtor5i\": chunk 12 | 5"
time=2026-11-25T09:00:03Z level=WARN msg="attempt failed" step=finish failures=1 error=EOF
`
	want := map[string]int{`encode: encode "…": chunk … / …`: 2, "finish: EOF": 1}
	var r Report
	r.charge(log)
	if !maps.Equal(r.Charged, want) {
		t.Errorf("%v, want %v", r.Charged, want)
	}
}
