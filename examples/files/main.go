// Command files says of every file that is sent to it how long it is, how many lines it has and
// what its SHA-256 is: the core with one step. `make fork … ONLY=core` keeps it as the product.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math"

	"github.com/cutroom/cutroom/examples/core"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
)

const name = "files"

// none: there is nothing to plan for one step.
type none struct{}

var product = core.Product[none]{
	Name: name, Table: "files",
	Steps: []core.Step[none]{
		{Step: engine.Step{Name: "digest", Stage: engine.First, Queues: []string{"light"}, Weight: 100}, Run: digest},
	},
	Queues: []azq.Spec{{Name: "light"}},
}

func main() { core.Main(product) }

// Facts is what the step finds out.
type Facts struct {
	SHA256 string `json:"sha256"` // in hexadecimal
	Bytes  int64  `json:"bytes"`
	Lines  int64  `json:"lines"` // the last need not end
}

// digest reads the file once. It may run again, and twice at once: one attempt commits.
func digest(ctx context.Context, w *core.Work[none]) (core.Commit[none], error) {
	hash, lines := sha256.New(), counter{last: '\n'}
	if err := core.CopyUpload(ctx, w, io.MultiWriter(hash, &lines), math.MaxInt); err != nil {
		return core.Commit[none]{}, fmt.Errorf("read the file: %w", err)
	}
	facts := Facts{fmt.Sprintf("%x", hash.Sum(nil)), lines.bytes, lines.ends}
	if lines.last != '\n' {
		facts.Lines++
	}
	return core.Commit[none]{Facts: facts}, nil
}

// counter counts what is written to it.
type counter struct {
	bytes, ends int64
	last        byte
}

func (c *counter) Write(some []byte) (int, error) {
	if len(some) > 0 {
		c.bytes, c.ends, c.last = c.bytes+int64(len(some)), c.ends+int64(bytes.Count(some, []byte{'\n'})), some[len(some)-1]
	}
	return len(some), nil
}
