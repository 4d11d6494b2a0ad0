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
		return azstore.IsUnavailable(err)
	}
	// snippet: retry-policy
	page := open(azstore.Config{}) // azstore.DefaultRetry: six tries in up to 25 s
	waiting, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	failed := call(waiting, page) // all tries share the second
	fmt.Println("a page tries more than once:", failed && service.tries > 1)

	failed = call(azstore.WithoutRetry(context.Background()), page) // repeating does harm
	fmt.Println("a receive tries once:", failed && service.tries == 1)

	batch := open(azstore.Config{Retry: azstore.PaperRetry}) // up to eight minutes: no user waits
	// end snippet
	hurry, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fmt.Println("a batch fails, too:", call(hurry, batch))
	// Output:
	// a page tries more than once: true
	// a receive tries once: true
	// a batch fails, too: true
}
