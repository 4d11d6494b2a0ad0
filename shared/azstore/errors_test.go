package azstore_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Of what services replied a person reads the status and the code, on one line.
func TestErrorsAreBrief(t *testing.T) {
	t.Parallel()
	reply := func(status int, code string) error {
		return &azcore.ResponseError{StatusCode: status, ErrorCode: code, RawResponse: &http.Response{
			StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: http.NoBody, Request: httptest.NewRequest(http.MethodGet, "http://127.0.0.1:1/queue", nil),
		}}
	}
	for want, err := range map[string]error{
		"receive from x: 503 ServerBusy": fmt.Errorf("receive from x: %w", reply(503, "ServerBusy")),
		"500 Internal Server Error":      reply(500, ""),
	} {
		if got := azstore.Brief(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := azstore.Brief(errors.New("no reply")); got != "no reply" {
		t.Errorf("%q", got)
	}
}
