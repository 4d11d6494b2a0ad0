package main

import (
	"os"
	"strings"
	"testing"
)

// docs/openapi.yaml is what its parts say, each of which has its own operations.
func TestDocumentIsComposedOfItsParts(t *testing.T) {
	t.Chdir("../../webrole/internal/api")
	for part, whole := range map[string]string{"openapi.yaml": document, "overlay.yaml": "overlay.yaml"} {
		text, err := os.ReadFile(whole)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != compose(part) {
			t.Errorf("%s is not what its parts make: run make generate", whole)
		}
		for _, file := range find(part) {
			one, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(one)) {
				if !strings.Contains(string(text), line) {
					t.Errorf("%s lacks %q of %s", whole, line, file)
				}
			}
		}
	}
	if n := len(find("openapi.yaml")); n < 10 {
		t.Errorf("only %d parts", n)
	}
}

func TestCompose(t *testing.T) {
	whole := &block{}
	whole.add(strings.Split("a:\n  b:\n    x: 1\n  # said\n  c: |\n    one\n\n    two", "\n"))
	whole.add(strings.Split("a:\n  b:\n    y: 2\n  d:\n    - e", "\n"))
	if got, want := whole.String(), "\na:\n  b:\n    x: 1\n    y: 2\n  # said\n  c: |\n    one\n\n    two\n  d:\n    - e\n"; got != want {
		t.Errorf("composed %q, want %q", got, want)
	}
}
