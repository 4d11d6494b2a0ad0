package elsewhere

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/riverqueue/river"
)

// Work goes on while its lease is renewed, and ends when a renewal is refused.
func TestRenewing(t *testing.T) {
	t.Parallel()
	var renewals int
	renew := func(context.Context) error { renewals++; return nil }
	slow := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
			return nil
		}
	}
	if err := renewing(t.Context(), 60*time.Millisecond, renew, slow); err != nil || renewals < 2 {
		t.Errorf("work of more than three leases: %v after %d renewals", err, renewals)
	}
	lost := errors.New("lost")
	err := renewing(t.Context(), 60*time.Millisecond, func(context.Context) error { return lost }, slow)
	if !errors.Is(err, lost) {
		t.Errorf("the lease is lost: %v", err)
	}
	broken := func(context.Context) error { return errBroken }
	if err := renewing(t.Context(), time.Minute, renew, broken); !errors.Is(err, errBroken) {
		t.Errorf("work that fails: %v", err)
	}
}

// A film is deleted when it is done, and comes again when it is not.
func TestAmazonSQS(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body  string
		fails error
		want  []string
	}{
		"done":   {`{"id":"a"}`, nil, []string{"ReceiveMessage", "DeleteMessage"}},
		"failed": {`{"id":"a"}`, errBroken, []string{"ReceiveMessage"}},
		"shape":  {`a`, errBroken, []string{"ReceiveMessage"}},
		"empty":  {"", nil, []string{"ReceiveMessage"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, calls := fakeSQS(t, c.body)
			err := AmazonSQS(t.Context(), client, "https://queue", func(_ context.Context, f Film) error {
				if f.ID != "a" {
					t.Errorf("the film is %q", f.ID)
				}
				return c.fails
			})
			if got := calls(); !errors.Is(err, c.fails) || !slices.Equal(got, c.want) {
				t.Errorf("%v: %q, want %q", err, got, c.want)
			}
		})
	}
}

// fakeSQS has one message with a body, or none if it is "", and tells what it was asked for.
func fakeSQS(t *testing.T, body string) (*sqs.Client, func() []string) {
	var mu sync.Mutex
	var calls []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		answer := map[string]any{}
		if call == "ReceiveMessage" && body != "" {
			answer["Messages"] = []any{map[string]any{"MessageId": "1", "ReceiptHandle": "r", "Body": body}}
		}
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, call)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	client := sqs.New(sqs.Options{
		Region: "eu-west-1", BaseEndpoint: &s.URL, DisableMessageChecksumValidation: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret"}, nil
		}),
	})
	return client, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls)
	}
}

// A broken film is cancelled in River, and another failure is tried again.
func TestRiver(t *testing.T) {
	t.Parallel()
	work := func(fails error) error {
		e := Encoder{Encode: func(context.Context, Film) error { return fails }}
		return e.Work(t.Context(), &river.Job[Film]{Args: Film{ID: "a"}})
	}
	var cancelled *river.JobCancelError
	other := errors.New("no disk")
	if !errors.As(work(errBroken), &cancelled) || !errors.Is(work(other), other) || work(nil) != nil {
		t.Errorf("a broken film: %v, another failure: %v, done: %v", work(errBroken), work(other), work(nil))
	}
	river.AddWorker(river.NewWorkers(), Encoder{}) // panics if it is none
}
