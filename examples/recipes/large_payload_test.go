package recipes

import (
	"context"
	"fmt"
	"strings"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
)

// Page has its text in the message, and its scan, of many megabytes, in a blob.
type Page struct{ Text, Scan string }

func (Page) Kind() string { return "page" }

// The text is more than a message holds. It travels in a blob all the same.
func Example_largePayload() {
	ctx, account := context.Background(), azuritetest.Example()
	client, blobs, scan := azq.Open(account, azq.Options{Log: quiet}), blobstore.New(account), []byte("many megabytes")
	check(account.Ensure(ctx, azstore.Names{Containers: []string{"scans"}}))
	// snippet: large-payload
	must(blobs.Put(ctx, "scans", "page-7", scan, blobstore.Options{})) // first the blob, then the message
	page := Page{Text: strings.Repeat("word ", 20_000), Scan: "page-7"}
	must(client.Send(ctx, page, azq.ID("page-7"), azq.Subject("page-7")))

	azq.Handle(client, func(ctx context.Context, job *azq.Job[Page]) error {
		fmt.Println(len(job.Data.Text), "bytes of text, which came by", job.Item.DataRef)
		fmt.Println("the scan is in", job.Data.Scan)
		return nil
	})
	// end snippet
	work(client)
	// Output:
	// 100000 bytes of text, which came by page-7/page/page-7
	// the scan is in page-7
}
