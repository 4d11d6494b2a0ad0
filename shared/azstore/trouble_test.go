package azstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
)

// reply answers every request with one status and code; status 0 breaks the
// connection, status -1 says nothing until the caller gives up.
type reply struct {
	status int
	code   string
}

func (a reply) Do(r *http.Request) (*http.Response, error) {
	switch a.status {
	case 0:
		return nil, errors.New("connection reset by peer")
	case -1:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"X-Ms-Error-Code": {a.code}},
		Body: io.NopCloser(strings.NewReader("")), Request: r,
	}, nil
}

func TestTroubleSaysNothingAboutTheItem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reply
		want bool
	}{
		{reply{0, ""}, true}, {reply{-1, ""}, true},
		{reply{500, "InternalError"}, true}, {reply{503, "ServerBusy"}, true}, {reply{504, ""}, true},
		{reply{429, ""}, true}, {reply{408, ""}, true},
		{reply{401, "NoAuthenticationInformation"}, true}, {reply{403, "AuthenticationFailed"}, true},
		{reply{404, "ContainerNotFound"}, true}, {reply{404, "QueueNotFound"}, true}, {reply{404, "TableNotFound"}, true},
		{reply{409, "ContainerBeingDeleted"}, true},
		{reply{404, "BlobNotFound"}, false}, {reply{404, "ResourceNotFound"}, false}, {reply{404, "MessageNotFound"}, false},
		{reply{409, "BlobAlreadyExists"}, false}, {reply{412, "ConditionNotMet"}, false},
		{reply{400, "InvalidInput"}, false}, {reply{413, "RequestBodyTooLarge"}, false},
	} {
		account, err := azstore.Open(azstore.Config{
			ConnectionString: azstore.DevelopmentStorage, Transport: c.reply,
			Retry: azstore.Retry{Strategy: azstore.NoRetry, TryTimeout: 20 * time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		_, blobErr := account.Container("media").NewBlobClient("x").GetProperties(ctx, nil)
		_, queueErr := account.Queue("jobs").GetProperties(ctx, nil)
		_, tableErr := tablestore.New(account, "videos").Get(ctx, "p", "r")
		_, batchErr := tablestore.New(account, "videos").Submit(ctx, []tablestore.Op{{Kind: tablestore.OpInsert, Entity: tablestore.Entity{PartitionKey: "p", RowKey: "r"}}})
		for what, call := range map[string]struct {
			err     error
			service azstore.Service
		}{
			"blob": {blobErr, azstore.Blobs}, "queue": {queueErr, azstore.Queues},
			"row": {tableErr, azstore.Tables}, "transaction": {batchErr, azstore.Tables},
		} {
			service, got := azstore.DependencyOf(fmt.Errorf("wrapped: %w", call.err))
			if got != c.want || got && service != call.service {
				t.Errorf("%d %s of a %s: trouble %v of %q, want %v: %v", c.status, c.code, what, got, service, c.want, call.err)
			}
		}
	}
	for _, err := range []error{nil, context.DeadlineExceeded, context.Canceled, io.ErrUnexpectedEOF} {
		if _, got := azstore.DependencyOf(err); got {
			t.Errorf("%v is trouble, and no call of storage", err)
		}
	}
}
