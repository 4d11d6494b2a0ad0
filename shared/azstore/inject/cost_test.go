package inject_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// BenchmarkWay is what the way through a calm proxy costs (docs/lab.md). The two ways
// take turns, so that what else the machine does meets both; medians are reported.
//
//	go test -run '^$' -bench Way ./shared/azstore/inject
func BenchmarkWay(b *testing.B) {
	emulator, err := azurite.Start(b.Context(), azurite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = emulator.Stop() })
	p, err := inject.Start(emulator.ConnectionString(), 1)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	var ways []*azstore.Account
	for _, connection := range []string{emulator.ConnectionString(), p.ConnectionString()} {
		account, err := azstore.Open(azstore.Config{ConnectionString: connection})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(account.CloseIdle)
		ways = append(ways, account)
	}
	if err := ways[0].Ensure(b.Context(), azstore.Names{Containers: []string{"things"}, Queues: []string{"things"}, Tables: []string{"things"}}); err != nil {
		b.Fatal(err)
	}
	for _, work := range works {
		b.Run(work.name, func(b *testing.B) {
			took := make([][]time.Duration, len(ways))
			for n := range b.N {
				for i := range ways {
					way := (i + n) % len(ways)
					began := time.Now()
					if err := work.do(b.Context(), ways[way], n); err != nil {
						b.Fatal(err)
					}
					took[way] = append(took[way], time.Since(began))
				}
			}
			for way, name := range []string{"ms-direct", "ms-through"} {
				slices.Sort(took[way])
				b.ReportMetric(float64(took[way][len(took[way])/2].Microseconds())/1000, name)
			}
			b.ReportMetric(0, "ns/op") // of both together: says nothing
		})
	}
}

// content of the blob that is written and read.
var content = bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)

var works = []struct {
	name string
	do   func(ctx context.Context, a *azstore.Account, n int) error
}{
	{"upsert a row", func(ctx context.Context, a *azstore.Account, n int) error {
		_, err := tablestore.New(a, "things").Upsert(ctx, tablestore.Entity{PartitionKey: "p", RowKey: fmt.Sprint(n % 100)})
		return err
	}},
	{"read a row", func(ctx context.Context, a *azstore.Account, _ int) error {
		_, err := tablestore.New(a, "things").Get(ctx, "p", "0")
		return err
	}},
	{"look at a queue", func(ctx context.Context, a *azstore.Account, _ int) error {
		_, err := a.Queue("things").GetProperties(ctx, nil)
		return err
	}},
	{"write 4 MiB", func(ctx context.Context, a *azstore.Account, _ int) error {
		_, err := blobstore.New(a).Put(ctx, "things", "a", content, blobstore.Options{})
		return err
	}},
	{"read 4 MiB", func(ctx context.Context, a *azstore.Account, _ int) error {
		body, _, err := blobstore.New(a).Open(ctx, "things", "a", blobstore.Range{}, "")
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		_, err = io.Copy(io.Discard, body)
		return err
	}},
}
