// Command images makes three sizes of each image that is sent to it: another product on the
// engine of Cutroom. main.go says which steps there are, and steps.go does the work. All else is
// package core.
package main

import (
	"errors"
	"time"

	"github.com/cutroom/cutroom/examples/core"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/engine"
)

// Sizes is what is planned for an image. The plan is written once, so any worker can make any of
// them.
type Sizes []Size

// Size is one picture to make.
type Size struct {
	Name          string
	Width, Height int // pixels
}

// perSize is the count of a step that runs once for each size of the plan.
const perSize engine.Count = "size"

// Short work does not wait behind long work (paper row Q5), and the message of a worker that was
// killed is hidden for as long as Visibility says (Q16a).
var product = core.Product[Sizes]{
	Name: "images", Table: "images",
	Steps: []core.Step[Sizes]{
		{Step: engine.Step{Name: "inspect", Stage: engine.First, Queues: []string{"light"}, Weight: 5}, Run: inspect},
		{Step: engine.Step{Name: "resize", Stage: engine.Part, Count: perSize, Queues: []string{"heavy"}, Weight: 90}, Run: resize},
		{Step: engine.Step{Name: "finish", Stage: engine.Last, Queues: []string{"light"}, Weight: 5}, Run: finish},
	},
	Queues: []azq.Spec{
		{Name: "light"},
		{Name: "heavy", Pool: "heavy", Visibility: 10 * time.Second},
	},
	Accept: func(d core.Document) error {
		if d.SizeBytes > maxBytes {
			return errors.New("an image has at most 100 MiB")
		}
		return nil
	},
}

const maxBytes = 100 << 20

func main() { core.Main(product) }
