package calculator

import (
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cutroom/cutroom/shared/price"
)

// What the calculators say is what a person finds with paper and pencil, or the papers' and the
// documents' own numbers.
func TestCalculatorsAgainstOtherNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, query string
		want        map[string]any
	}{
		// A third of 60 s is 20 s, a tenth less or more 18 and 22; 600 s have 33 times 18 s and 27
		// times 22 s. The margin is a tenth of 60 s, so the work is stopped after 54 s.
		{"visibility", "work=600&visibility=60", map[string]any{
			"soon": 18.0, "late": 22.0, "fewest": 27.0, "most": 33.0, "stop": 54.0, "back": 60.0, "twice": true, "never": 2000.0}},
		{"visibility", "work=5&visibility=30", map[string]any{
			"soon": 9.0, "late": 11.0, "fewest": 0.0, "most": 0.0, "stop": 25.0, "back": 30.0, "twice": false, "never": 17.0}},
		{"visibility", "work=18&visibility=60", map[string]any{"fewest": 0.0, "most": 0.0}}, // done when the renewal is due
		{"visibility", "work=8&visibility=8", map[string]any{"soon": 2.4, "most": 3.0, "stop": 6.0, "twice": true}},

		// 60 a minute of 30 s keep 30 slots busy: 15 workers of two.
		{"workers", "rate=60&waiting=0&each=30&slots=2&within=30", map[string]any{"wanted": 15}},
		{"workers", "rate=0&waiting=60&each=30&slots=2&within=10", map[string]any{"wanted": 2}},  // the question of the last stop
		{"workers", "rate=0&waiting=100&each=30&slots=1&within=30", map[string]any{"wanted": 2}}, // 3,000 s in 1,800 s
		{"workers", "rate=0&waiting=3&each=3600&slots=2&within=1", map[string]any{"wanted": 2}},  // no more slots than messages
		{"workers", "rate=0&waiting=0&each=1&slots=1&within=1", map[string]any{"wanted": 1}},

		// docs/limits.md: the peak ÷ 1,000, and one more. FNV-1a of video-7 is 0x6104b26c, 4 modulo 8.
		{"suffixes", "peak=999", map[string]any{"count": 1}},
		{"suffixes", "peak=1000", map[string]any{"count": 2, "last": 1}},
		{"suffixes", "peak=7000", map[string]any{"count": 8, "last": 7, "computed": 4}},

		// The paper's example: 5 retries, z = 45 s, between 3 s and 90 s.
		{"retries", "retries=5&z=45&zmin=3&zmax=90", map[string]any{"pauses": [][]any{
			{1, 39.0, 57.0, 39.0, 57.0}, {2, 90.0, 90.0, 129.0, 147.0}, {3, 90.0, 90.0, 219.0, 237.0}, {4, 90.0, 90.0, 309.0, 327.0}, {5, 90.0, 90.0, 399.0, 417.0}}}},
		// Ours: 0.1 s, and 0.4 to 0.6 s times 1, 3, 7, 15, 31, at most 8 s.
		{"retries", "retries=5&z=0.5&zmin=0.1&zmax=8", map[string]any{"pauses": [][]any{
			{1, 0.5, 0.7, 0.5, 0.7}, {2, 1.3, 1.9, 1.8, 2.6}, {3, 2.9, 4.3, 4.7, 6.9}, {4, 6.1, 8.0, 10.8, 14.9}, {5, 8.0, 8.0, 18.8, 22.9}}}},

		// docs/azure.md: 66 × 43,800 × 0.004 USD ÷ 10,000.
		{"cost", "items=0&looks=66", map[string]any{"requests": 0.0, "looks": 1.15632, "cpu": 0.0, "all": 1.15632}},
		// 24 a day are 730 a month: 730,000 messages are 0.292 USD, as many blobs 4.015 USD, and
		// 730 hours of a processor 35.04 USD.
		{"cost", "items=24&queue.write=1000&table.write=0&blob.write=1000&blob.read=0&cpu=3600&looks=0", map[string]any{
			"requests": 4.307, "cpu": 35.04, "all": 39.347}},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		all, err := All(query, price.Default)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(one Calculator) bool { return one.Name == c.name })
		for what, want := range c.want {
			if diff := cmp.Diff(want, all[i].Is[what], cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Errorf("%s?%s: %s (-want +got):\n%s", c.name, c.query, what, diff)
			}
		}
	}
}

// Each example that the page begins with has an answer.
func TestExamplesHaveAnswers(t *testing.T) {
	t.Parallel()
	all, err := All(nil, price.Default)
	if err != nil || len(all) != 5 {
		t.Fatalf("%d calculators, %v", len(all), err)
	}
	for _, one := range all {
		if len(one.Is) == 0 || one.Page == "" {
			t.Errorf("%s has only %v", one.Name, one.Is)
		}
	}
}

// A field that is no number within its bounds is wrong, and nothing follows from it.
func TestWrongNumbers(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{"", " ", "x", "-1", "NaN", "Inf", "1e99", "1000001"} {
		all, err := All(url.Values{"peak": {typed}}, price.Default)
		if err != nil {
			t.Fatal(err)
		}
		if f := all[2].Fields[0]; !f.Wrong || all[2].Is != nil {
			t.Errorf("peak=%q: %+v, %v", typed, f, all[2].Is)
		}
	}
}
