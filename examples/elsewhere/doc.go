// Package elsewhere is the consumer of docs/elsewhere.md on other queues: it receives a message,
// works, renews while it works, and puts aside what never succeeds. The module stands alone, so
// that the programs of this repository need none of what it requires. Its tests need no broker.
package elsewhere

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Film is what a message is about.
type Film struct {
	ID string `json:"id"`
}

// Kind names the work for azq and for River.
func (Film) Kind() string { return "encode" }

// errBroken says that no further attempt will succeed.
var errBroken = errors.New("the film is broken")

// Encode does the work. It stops when ctx ends, and may run again.
type Encode func(ctx context.Context, film Film) error

// renewing calls work, and renew after each third of the lease. A renewal that fails ends work:
// another worker may have the message. It returns the error of either.
func renewing(ctx context.Context, lease time.Duration, renew, work func(context.Context) error) error {
	ctx, lose := context.WithCancelCause(ctx)
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	defer lose(nil)
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if err := renew(ctx); err != nil {
				lose(err)
				<-done
				return err
			}
		}
	}
}

// film is the work that a body asks for. A body of another shape is broken.
func film(body []byte, encode Encode) func(context.Context) error {
	return func(ctx context.Context) error {
		var f Film
		if err := json.Unmarshal(body, &f); err != nil {
			return errors.Join(errBroken, err)
		}
		return encode(ctx, f)
	}
}
