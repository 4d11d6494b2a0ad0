// Command apiparts generates the HTTP API from its parts, which stand in the folders of the core
// and of the features: docs/openapi.yaml, composed of each folder's openapi.yaml; the types, of
// that and of each overlay.yaml; a server interface for each routes.yaml; and the Go client.
// `go generate ./webrole/internal/api` runs it there.
package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const document = "../../../docs/openapi.yaml"

func main() {
	log.SetFlags(0)
	for part, whole := range map[string]string{"openapi.yaml": document, "overlay.yaml": "overlay.yaml"} {
		if err := os.WriteFile(whole, []byte(compose(part)), 0o600); err != nil { // the mode stays
			log.Fatalf("write what parts make: %v", err)
		}
	}
	configs := map[string]string{"config.yaml": "api.gen.go", "../../../e2e/client/config.yaml": "../../../e2e/client/client.gen.go"}
	for _, name := range find("routes.yaml") {
		configs[name] = strings.TrimSuffix(name, "yaml") + "gen.go"
	}
	for config, output := range configs {
		if out, err := exec.Command("go", "tool", "oapi-codegen", "-config", config, "-o", output, document).CombinedOutput(); err != nil {
			log.Fatalf("generate %s: %v\n%s", output, err, out)
		}
	}
}

// find returns the files of this name: first that of the core, which begins the document.
func find(name string) (found []string) {
	for _, dir := range []string{"../httpapi", "../*", "../feature/*"} {
		files, _ := filepath.Glob(filepath.Join(dir, name)) // the patterns are good
		found = append(found, slices.DeleteFunc(files, func(file string) bool {
			return slices.Contains(found, file) || filepath.Dir(file) == "../api"
		})...)
	}
	return found
}

// block is a line of YAML and what is indented more below it.
type block struct {
	line  string
	below []*block
}

// compose puts the parts of a document together: where they have the same key, what stands
// below it is joined, line by line, comments and all.
func compose(name string) string {
	whole := &block{}
	for _, file := range find(name) {
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatalf("read a part: %v", err)
		}
		whole.add(strings.Split(strings.TrimRight(string(text), "\n"), "\n"))
	}
	return whole.String()[1:]
}

func (b *block) add(lines []string) {
	for i := 0; i < len(lines); {
		end := i + 1
		for end < len(lines) && (lines[end] == "" || depth(lines[end]) > depth(lines[i])) {
			end++
		}
		b.child(lines[i], end > i+1).add(lines[i+1 : end])
		i = end
	}
}

// child is the block of the same key, if both have something below, or a new one.
func (b *block) child(line string, more bool) *block {
	for _, known := range b.below {
		if more && known.line == line && len(known.below) > 0 && strings.HasSuffix(line, ":") {
			return known
		}
	}
	b.below = append(b.below, &block{line: line})
	return b.below[len(b.below)-1]
}

func depth(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// String implements fmt.Stringer.
func (b *block) String() string {
	text := b.line + "\n"
	for _, child := range b.below {
		text += fmt.Sprint(child)
	}
	return text
}
