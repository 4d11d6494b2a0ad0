package enginetest

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/runner"
	"github.com/cutroom/cutroom/shared/engine/workers"
)

// The steps of sums, the product that the engine is tested with: numbers are added up.
const (
	Split   = "split"   // First: reads the numbers
	Vet     = "vet"     // Gate: rejects negative numbers, and withdraws what serves
	Limit   = "limit"   // Gate behind vet: rejects large numbers
	Add     = "add"     // Part, leads: adds up two numbers
	Square  = "square"  // Part: adds up the squares of four numbers
	Total   = "total"   // Last: adds up what add and square made
	Report  = "report"  // AfterReady: writes a file
	Average = "average" // OnRequest: of some of the numbers
	List    = "list"    // OnChange: copies the total into another table
	Erase   = "erase"   // OnDelete
)

// What a plan of sums has several of.
const (
	PerPair engine.Count = "pairs"
	PerFour engine.Count = "fours"
	vetted  engine.Count = "vetted"
)

// The queues of sums.
const (
	First = "first" // the first pair of every sum
	Bulk  = "bulk"  // the other pairs, and what is asked for
	Rest  = "rest"
)

// TotalsTable has a copy of every total: PartitionKey the id, RowKey "SUM".
const TotalsTable = "totals"

// Why a gate rejects a sum.
const (
	NegativeNumber engine.Code = "negative_number"
	LargeNumber    engine.Code = "large_number" // above 1000
)

// SumNames are all that sums are kept in, but for the queues.
var SumNames = azstore.Names{
	Tables:     []string{"sums", engine.InflightTable, engine.IdempotencyTable, TotalsTable, workers.Table},
	Containers: []string{engine.SourcesContainer, engine.MediaContainer},
}

// Sum is a subject: numbers that are to be added up.
type Sum struct {
	engine.Meta
	Title   string `json:"title,omitempty"`
	Total   int    `json:"total"`   // of the generation that serves
	Squares int    `json:"squares"` // the sum of the squares
}

// Plan says which numbers each run adds up.
type Plan struct {
	engine.Plan
	Numbers []int `json:"numbers"`
	Vetted  bool  `json:"vetted,omitempty"` // its gates are promised
}

// Counts is how many runs a plan has of what steps run for.
func (p Plan) Counts() map[engine.Count]int {
	counts := map[engine.Count]int{PerPair: (len(p.Numbers) + 1) / 2, PerFour: (len(p.Numbers) + 3) / 4}
	if p.Vetted {
		counts[vetted] = 1
	}
	return counts
}

// some are numbers of one run of a step with so many for each.
func (p Plan) some(index, each int) []int {
	return p.Numbers[min(index*each, len(p.Numbers)):min((index+1)*each, len(p.Numbers))]
}

// Made is what a run commits: a number, and the blob that holds it, too.
type Made struct {
	Value int    `json:"value"`
	Blob  string `json:"blob"`
}

// The engine's types, of sums.
type (
	Store  = engine.Store[Sum, Plan]
	View   = engine.View[Sum, Plan]
	Claim  = engine.Claim[Sum, Plan]
	Commit = engine.Commit[Sum, Plan]
	Record = engine.Record[Sum]
	Work   = runner.Work[Sum, Plan]
)

// Sums declares the steps. A test may add some.
func Sums() engine.Declaration {
	rest, pairs := []string{Rest}, []string{First, Bulk}
	d := engine.Declaration{Name: "sums", Table: "sums", Steps: []engine.Step{
		// snippet: steps
		{Name: Split, Stage: engine.First, Queues: rest, Weight: 10},
		{Name: Vet, Stage: engine.Gate, If: vetted, Withdraws: true, Queues: rest},
		{Name: Limit, Stage: engine.Gate, If: vetted, Round: 1, Queues: rest},
		{Name: Add, Stage: engine.Part, Count: PerPair, Leads: true, Queues: pairs, Choose: firstIsUrgent, Weight: 70},
		{Name: Square, Stage: engine.Part, Count: PerFour, Queues: []string{Bulk}, Weight: 10},
		{Name: Total, Stage: engine.Last, Queues: rest, Weight: 10},
		// end snippet
		{Name: Report, Stage: engine.AfterReady, Queues: rest},
		{Name: Average, Stage: engine.OnRequest, Queues: []string{Bulk}, Expires: true},
		{Name: List, Stage: engine.OnChange, Queues: rest},
		{Name: Erase, Stage: engine.OnDelete, Queues: rest},
	}}
	d.Queues = Queues(30*time.Second, d)
	return d
}

func firstIsUrgent(_ engine.Meta, _ engine.Plan, index int) string {
	if index == 0 {
		return First
	}
	return Bulk
}

// Queues are the queues that the steps of a declaration travel on.
func Queues(visibility time.Duration, d engine.Declaration) (specs []azq.Spec) {
	for _, s := range d.Steps {
		for _, name := range s.Queues {
			i := slices.IndexFunc(specs, func(q azq.Spec) bool { return q.Name == name })
			if i < 0 {
				i = len(specs)
				specs = append(specs, azq.Spec{Name: name, Visibility: visibility, Typical: 50 * time.Millisecond, MaxIdlePoll: 200 * time.Millisecond})
			}
			specs[i].Kinds = append(specs[i].Kinds, s.Name)
		}
	}
	return specs
}

// ItemVersion is that of the messages of sums.
const ItemVersion = 2

// NewStore returns a store of sums with those steps.
func NewStore(a *azstore.Account, sender engine.Sender, d engine.Declaration) *Store {
	return engine.New(a, sender, engine.Product[Sum, Plan]{Declaration: d, ItemVersion: ItemVersion, Promises: func(p Plan) []engine.Promise {
		return d.PromisesFor(p.Counts())
	}, Playable: func(v View) (bool, error) {
		first, _ := v.Find(v.Subject.Generation, Add, 0)
		return first.State == engine.RunDone, nil
	}})
}

// Epoch is that of the upload of every sum.
const Epoch = "e"

// Awaiting is a sum whose numbers are awaited.
func Awaiting() Sum {
	id := engine.NewID()
	return Sum{Meta: engine.Meta{
		ID: id, Owner: "owner", Channel: string(id), State: engine.AwaitingUpload, Priority: engine.Normal,
		Upload: &engine.Upload{Bytes: 900, PartBytes: 1000, Epoch: Epoch},
	}, Title: "A title"}
}

// Source is the blob with the numbers of a sum.
func Source(id engine.ID) string { return engine.Prefix(id) + "parts/" + Epoch + "/00000" }

// put stores a number as a blob of an attempt.
func put(ctx context.Context, w *Work, value int) (Made, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return Made{}, err
	}
	file, err := w.PutData(ctx, "value.json", text, "application/json")
	return Made{Value: value, Blob: file.Blob}, err
}

// get reads a blob of JSON.
func get[T any](ctx context.Context, blobs *blobstore.Store, container, name string) (value T, err error) {
	text, err := blobs.Get(ctx, container, name)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	return value, err
}

// PutNumbers uploads the numbers of a sum.
func PutNumbers(ctx context.Context, blobs *blobstore.Store, id engine.ID, numbers []int) error {
	text, err := json.Marshal(numbers)
	if err == nil {
		_, err = blobs.Put(ctx, engine.SourcesContainer, Source(id), text, blobstore.Options{})
	}
	return err
}
