package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// TestRegister: a file and a made-up field, as `make register` brings them.
func TestRegister(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{})
	register := func(variables ...string) (string, error) {
		env := map[string]string{"WEBROLE_ADDR": strings.TrimPrefix(s.BaseURL(), "http://")}
		for i := 0; i < len(variables); i += 2 {
			env[variables[i]] = variables[i+1]
		}
		var out bytes.Buffer
		err := run(t.Context(), func(name string) string { return env[name] }, &out)
		return out.String(), err
	}
	file := filepath.Join(t.TempDir(), "runners.csv")
	if err := os.WriteFile(file, []byte("Age;Bib;Name;Sex\r\n55;1234;John;M\r\n54;1235;Jane;W\r\n59;7;Zo\xeb O'Brien;F\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		variables []string
		want      []string
	}{
		"file": {[]string{"FILE", file, "EVENT", "Sierre/Zinal__31 km"}, []string{
			"registered for Sierre/Zinal__31 km", "accepted:   2, of which 0 were there before", "refused:    1", "line 3: invalid_sex",
			"bib 1234:   1 runners: 1 rows read in 1 request", "ages 50–59: 2 runners: 2 rows read in 1 request", "7  Zoë O'Brien  F  59",
		}},
		"field": {[]string{"N", "2000"}, []string{
			"for 2011 New York City Marathon__Full", "accepted:   2000, of which 0 were there before", "refused:    0", "cost:       64 requests",
			"bib 1234:   1 runners: 1 rows read in 1 request", "ages 50–59: 100 runners and more: 100 rows read in 1 request",
		}},
	} {
		out, err := register(c.variables...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s does not say %q:\n%s", name, want, out)
			}
		}
	}
	if out, err := register("N", "2000"); err != nil || !strings.Contains(out, "accepted:   2000, of which 2000 were there before") {
		t.Errorf("the second time: %v\n%s", err, out)
	}
	for _, bad := range [][]string{{"N", "0"}, {"FILE", file + ".none"}, {"EVENT", "Marathon", "N", "1"}} {
		if out, err := register(bad...); err == nil {
			t.Errorf("%v was taken:\n%s", bad, out)
		}
	}
}
