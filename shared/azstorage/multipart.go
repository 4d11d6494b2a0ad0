package azstorage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
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
	replies, err := BatchReplies(reply.RawResponse)
	if err != nil {
		return BatchReply{}, false
	}
	for _, r := range replies {
		if r.Status >= 400 {
			return r, true
		}
	}
	return BatchReply{}, false
}

// BatchReplies reads the multipart body of the reply to a table batch.
func BatchReplies(resp *http.Response) ([]BatchReply, error) {
	body, err := runtime.Payload(resp)
	if err != nil {
		return nil, err
	}
	outer, err := partsOf(body)
	if err != nil {
		return nil, err
	}
	var replies []BatchReply
	for _, changeset := range outer {
		inner, err := partsOf(changeset)
		if err != nil {
			return nil, err
		}
		for _, part := range inner {
			r, err := readBatchReply(part)
			if err != nil {
				return nil, err
			}
			replies = append(replies, r)
		}
	}
	return replies, nil
}

// partsOf splits a multipart text. The boundary is taken from its first line:
// Azurite's header does not always name it.
func partsOf(text []byte) ([][]byte, error) {
	text = bytes.TrimLeft(text, "\r\n")
	line, _, found := bytes.Cut(text, []byte("\n"))
	boundary := strings.TrimPrefix(strings.TrimSpace(string(line)), "--")
	if !found || boundary == "" {
		return nil, errors.New("table batch: reply has no boundary")
	}
	reader := multipart.NewReader(bytes.NewReader(text), boundary)
	var parts [][]byte
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(part)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		parts = append(parts, content)
	}
}

func readBatchReply(part []byte) (BatchReply, error) {
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(part)), nil)
	if err != nil {
		return BatchReply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	r := BatchReply{Status: resp.StatusCode, ETag: resp.Header.Get("ETag"), Index: -1}
	if resp.StatusCode < 400 {
		return r, nil
	}
	content, _ := io.ReadAll(resp.Body) // a short body still holds what was sent
	var failure struct {
		Error struct {
			Code    string `json:"code"`
			Message struct {
				Value string `json:"value"`
			} `json:"message"`
		} `json:"odata.error"`
	}
	if json.Unmarshal(content, &failure) == nil {
		r.Code = failure.Error.Code
		// "1:The specified entity already exists." names operation 1.
		if number, _, found := strings.Cut(failure.Error.Message.Value, ":"); found {
			if n, err := strconv.Atoi(number); err == nil {
				r.Index = n
			}
		}
	}
	return r, nil
}
