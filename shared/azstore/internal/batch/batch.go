// Package batch reads the answers to table batches, which the SDK does not.
package batch

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// Reply is the service's answer to one operation of a table batch.
type Reply struct {
	Status int
	Code   string // storage code of a failure
	ETag   string // of a written row
	// Index is the operation that failed, counted from 0, or −1 when the service did not
	// say. A failed batch has one reply, whatever its number of operations.
	Index int
}

// Failure returns the failed operation of a table batch. The service
// answers a failed batch with status 202 and tells the truth only inside of the
// multipart body (https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions).
func Failure(err error) (Reply, bool) {
	reply, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok || reply.StatusCode != http.StatusAccepted || reply.RawResponse == nil {
		return Reply{}, false
	}
	replies, _ := Replies(reply.RawResponse)
	i := slices.IndexFunc(replies, func(r Reply) bool { return r.Status >= http.StatusBadRequest })
	if i < 0 {
		return Reply{}, false
	}
	return replies[i], true
}

// statusLine begins each reply inside the reply to a table batch.
const statusLine = "HTTP/1.1 "

// Replies reads the multipart body of the reply to a table batch. Its boundaries are
// passed over, because Azurite's header does not always name them.
func Replies(resp *http.Response) (replies []Reply, _ error) {
	body, err := runtime.Payload(resp)
	if err != nil {
		return nil, err
	}
	for _, text := range strings.Split(string(body), statusLine)[1:] {
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(statusLine+text)), nil)
		if err != nil {
			return nil, err
		}
		r := Reply{Status: resp.StatusCode, ETag: resp.Header.Get("ETag"), Index: -1}
		var failure struct {
			Error struct {
				Code    string
				Message struct{ Value string }
			} `json:"odata.error"`
		}
		if r.Status >= http.StatusBadRequest && json.NewDecoder(resp.Body).Decode(&failure) == nil { // a boundary may follow
			r.Code = failure.Error.Code
			// "1:The specified entity already exists." names operation 1.
			number, _, found := strings.Cut(failure.Error.Message.Value, ":")
			if n, err := strconv.Atoi(number); found && err == nil {
				r.Index = n
			}
		}
		_ = resp.Body.Close()
		replies = append(replies, r)
	}
	return replies, nil
}
