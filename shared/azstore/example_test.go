package azstore_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// An account is opened with a key or with an identity. That sends nothing.
func ExampleOpen() {
	account, err := azstore.Open(azstore.Config{
		Account: "letters", // with DefaultAzureCredential; or ConnectionString
		Prefix:  "stage2",  // before every name, so that stacks share the account
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(account.Container("scans").URL())
	fmt.Println(account.Name("mail"))
	// Output:
	// https://letters.blob.core.windows.net/stage2scans
	// stage2mail
}

// OpenFromEnv does the same with the environment of the process. One error lists every
// variable that is wrong.
func ExampleConfigFromEnv() {
	environment := map[string]string{
		"AZURE_STORAGE_ACCOUNT": "letters", "LETTERS_RETRY_MAX": "many", "LETTERS_RETRY_DELAY": "2h",
	}
	_, err := azstore.ConfigFromEnv(func(name string) string { return environment[name] }, "LETTERS")
	fmt.Println(err)
	// Output:
	// LETTERS_RETRY_MAX: "many": want a whole number, from 0 to 20
	// LETTERS_RETRY_DELAY: "2h": want a duration such as 1h30m, from 1ms to 10m0s
}

// What work costs is counted below its context: every try, by the kinds of a price list.
func ExampleWithCounter() {
	ctx, account := context.Background(), azuritetest.Example()
	if err := account.Ensure(ctx, azstore.Names{Tables: []string{"letters"}}); err != nil {
		panic(err)
	}
	letters := tablestore.New(account, "letters")

	ctx, counter := azstore.WithCounter(ctx)
	_, err := letters.Insert(ctx, tablestore.Entity{PartitionKey: "Ada", RowKey: "7"})
	if err == nil {
		_, err = letters.First(ctx, tablestore.Query{PartitionKey: "Ada"}, 10)
	}
	if err != nil {
		panic(err)
	}
	counts := counter.Counts()
	fmt.Println(counter.Requests(), "requests, rows read:", counts.Rows)
	fmt.Println(counts.Requests["table.write"], "write,", counts.Requests["table.list"], "list")
	fmt.Println(counter.ByClass(tablestore.RowRange), "query of a row range")
	// Output:
	// 2 requests, rows read: 1
	// 1 write, 1 list
	// 1 query of a row range
}

// busy is a service that refuses its first requests.
type busy struct{ refusals int }

func (b *busy) Do(r *http.Request) (*http.Response, error) {
	status := http.StatusCreated
	if b.refusals > 0 {
		b.refusals, status = b.refusals-1, http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// One strategy holds for all three services. A deadline of the caller bounds all tries of a
// call together, and calls whose repetition does harm are tried once.
func ExampleRetry() {
	account, err := azstore.Open(azstore.Config{
		Retry: azstore.Retry{
			Strategy: azstore.Exponential, MaxRetries: 3,
			Delay: time.Millisecond, MaxDelay: 8 * time.Millisecond, TryTimeout: 30 * time.Second,
		},
		Transport: &busy{refusals: 3},                                          // for the example
		Seen:      func(try azstore.Try) { fmt.Println(try.Kind, try.Status) }, // for metrics
	})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	_, err = account.Queue("mail").Create(azstore.WithoutRetry(ctx), nil)
	fmt.Println("once:", azstore.Brief(err), azstore.IsUnavailable(err))
	_, err = account.Queue("mail").Create(ctx, nil)
	fmt.Println("with retries:", err)
	// Output:
	// queue.write 503
	// once: 503 Service Unavailable true
	// queue.write 503
	// queue.write 503
	// queue.write 201
	// with retries: <nil>
}

// An error of any call tells status and code of the service.
func ExampleDescribe() {
	account := azuritetest.Example()
	_, err := account.Queue("mail").GetProperties(context.Background(), nil)
	status, code, _ := azstore.Describe(err)
	fmt.Println(status, code)
	service, trouble := azstore.DependencyOf(err) // not a message's fault: the whole queue is missing
	fmt.Println(service, trouble)
	// Output:
	// 404 QueueNotFound
	// queue true
}
