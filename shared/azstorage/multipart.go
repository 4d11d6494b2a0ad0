package azstorage

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

// BatchReply is the service's answer to one operation of a table batch.
type BatchReply struct {
	Status int
	Code   string // storage code of a failure
	ETag   string // of a written row
	// Index is the operation that failed, counted from 0, or −1 when the
	// service did not say. It is set in failures only: a failed batch has one
	// reply, whatever its number of operations.
	Index int
}

// BatchFailure returns the failed operation of a table batch. The service
// answers a failed batch with status 202 and tells the truth only inside of the
// multipart body (https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions).
func BatchFailure(err error) (BatchReply, bool) {
	var reply *azcore.ResponseError
	if !errors.As(err, &reply) || reply.StatusCode != http.StatusAccepted || reply.RawResponse == nil {
		return BatchReply{}, false
	}
	replies, _ := BatchReplies(reply.RawResponse)
	i := slices.IndexFunc(replies, func(r BatchReply) bool { return r.Status >= http.StatusBadRequest })
	if i < 0 {
		return BatchReply{}, false
	}
	return replies[i], true
}

// statusLine begins each reply inside the reply to a table batch.
const statusLine = "HTTP/1.1 "

// BatchReplies reads the multipart body of the reply to a table batch. Its boundaries are
// passed over, because Azurite's header does not always name them.
func BatchReplies(resp *http.Response) (replies []BatchReply, _ error) {
	body, err := runtime.Payload(resp)
	if err != nil {
		return nil, err
	}
	for _, text := range strings.Split(string(body), statusLine)[1:] {
		reply, err := readBatchReply(statusLine + text)
		if err != nil {
			return nil, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

func readBatchReply(text string) (BatchReply, error) {
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), nil)
	if err != nil {
		return BatchReply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	r := BatchReply{Status: resp.StatusCode, ETag: resp.Header.Get("ETag"), Index: -1}
	var failure struct {
		Error struct {
			Code    string
			Message struct{ Value string }
		} `json:"odata.error"`
	}
	if r.Status < http.StatusBadRequest || json.NewDecoder(resp.Body).Decode(&failure) != nil { // a boundary may follow
		return r, nil
	}
	r.Code = failure.Error.Code
	// "1:The specified entity already exists." names operation 1.
	number, _, found := strings.Cut(failure.Error.Message.Value, ":")
	if n, err := strconv.Atoi(number); found && err == nil {
		r.Index = n
	}
	return r, nil
}
