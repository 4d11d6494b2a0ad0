package recipes

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// busy is a service that always refuses, and counts.
type busy struct{ tries int }

func (b *busy) Do(r *http.Request) (*http.Response, error) {
	b.tries++
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// What each policy does while the service refuses.
func Example_retryPolicy() {
	service := &busy{}
	open := func(config azstore.Config) *azstore.Account {
		config.Transport = service
		return must(azstore.Open(config))
	}
	call := func(ctx context.Context, account *azstore.Account) bool {
		service.tries = 0
		_, err := account.Queue("mail").Create(ctx, nil)
		return err != nil
	}
	// snippet: retry-policy
	page := open(azstore.Config{}) // azstore.DefaultRetry: six tries, 23 s of pauses at most
	waiting, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	failed := call(waiting, page) // all tries share the two seconds
	fmt.Println("a page tries more than once:", failed && service.tries > 1)

	failed = call(azstore.WithoutRetry(context.Background()), page) // repeating does harm
	fmt.Println("a receive tries once:", failed && service.tries == 1)

	batch := open(azstore.Config{Retry: azstore.PaperRetry}) // up to seven minutes of pauses: no user waits
	// end snippet
	defer batch.CloseIdle()
	fmt.Println("a batch pauses at first for", azstore.PaperRetry.Pause(1, 0), "or more")
	// Output:
	// a page tries more than once: true
	// a receive tries once: true
	// a batch pauses at first for 39s or more
}
