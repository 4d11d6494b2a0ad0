// Package workitem is the format of a request for work on a queue: a CloudEvents
// 1.0 JSON object, base64 in the queue message (paper rows Q6 and Q19).
//
//	{"specversion":"1.0","id":"…","source":"/cutroom","type":"cutroom.work.encode.v1",
//	 "subject":"<what it is about>","time":"2026-01-02T03:04:05Z","datacontenttype":"application/json",
//	 "failures":1,"lasterror":"…","data":{"generation":1,"index":4}}
//
// Old and new versions of a worker read the same queue. So members that we do not know are
// kept byte for byte and in their order, and a newer format ([ErrNewerVersion]) or version of
// the data is snoozed for a newer worker. A text that cannot be read is [ErrMalformed], and
// its item is poison without further attempts.
//
// Next: shared/workqueue, how items travel and how a message is leased.
package workitem

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/product"
	"github.com/cutroom/cutroom/shared/storable"
)

// Bounds on what deliveries add to a message. A message holds 48 KiB before base64;
// with these bounds an item that fitted when it was sent always fits.
const (
	maxErrorBytes   = 400
	maxHistoryLines = 5
)

var (
	// ErrMalformed says that a message is not a work item. It is permanent.
	ErrMalformed = errors.New("message is not a work item")

	// ErrNewerVersion says that the message was written for a newer worker. It is to
	// be snoozed, not lost, and does not count as a failure.
	ErrNewerVersion = errors.New("message has a newer format than this worker understands")
)

var stepName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// Item is one request for work. The zero value is not valid: use [New].
//
// Items are values. Data and the unknown members are shared between copies and
// never changed in place.
type Item struct {
	ID          string          `json:"id"`                    // the same in every attempt and every duplicate
	Step        string          `json:"-"`                     // names the handler: the middle of the CloudEvents type
	Version     int             `json:"-"`                     // of Data and what it stands for, from 1: the N in the type "cutroom.work.<step>.vN"
	Subject     string          `json:"subject,omitempty"`     // what the work is about; only the handler knows what is valid
	Source      string          `json:"source,omitempty"`      // the sender, a URI reference
	Time        time.Time       `json:"time,omitzero"`         // when it was asked
	Traceparent string          `json:"traceparent,omitempty"` // W3C trace context of the asker; may be empty
	Data        json.RawMessage `json:"-"`                     // what the step needs: see [DecodeData]; nil when there is nothing or DataRef is not fetched yet

	// DataRef names the claim-check blob that holds Data when Data is too large
	// for a message (paper row Q9). An item with a DataRef travels without Data.
	DataRef string `json:"dataref,omitempty"`

	Failures  int    `json:"failures,omitempty"`  // failed attempts; when there are Spec.MaxFailures the item is poison
	Releases  int    `json:"releases,omitempty"`  // releases (drain, lease ending, trouble): not the item's fault
	Kills     int    `json:"kills,omitempty"`     // releases because a child process was killed; many mean that the item needs too much memory
	Snoozes   int    `json:"snoozes,omitempty"`   // snoozes (not yet, newer version)
	Starts    int    `json:"starts,omitempty"`    // attempts that were noted before they began and have left no other record: see Lease.Note
	LastError string `json:"lasterror,omitempty"` // of the latest failure
	History   string `json:"history,omitempty"`   // the latest failures, oldest first, one line each: "<time> <worker> <error>"

	unknown []member // as received
	plain   bool     // it came as JSON, and not as base64
}

// New makes an item of version 1. Use the same id whenever the same work is asked for
// again, for example "<order>.mail.2", so that duplicates are recognised. The data is
// anything that encodes as JSON, or nil.
func New(step, subject, id string, data any) (Item, error) {
	if !stepName.MatchString(step) {
		return Item{}, fmt.Errorf("new work item: step %q is not lower-case letters, digits and hyphens", step)
	}
	if id == "" {
		return Item{}, errors.New("new work item: id is empty")
	}
	item := Item{
		ID: id, Step: step, Version: 1, Subject: subject,
		Source: "/" + product.Name, Time: time.Now().UTC().Truncate(time.Millisecond),
	}
	if data != nil {
		raw, err := json.Marshal(data)
		if err != nil {
			return Item{}, fmt.Errorf("new work item: data of %s: %w", id, err)
		}
		item.Data = raw
	}
	return item, nil
}

// Type is the CloudEvents type: what is asked for, and in which version.
func (i Item) Type() string { return fmt.Sprintf("%s.work.%s.v%d", product.Name, i.Step, i.Version) }

// DecodeData reads the item's data as a T. Unknown members are ignored, as the
// format demands. Data of the wrong shape is [ErrMalformed], and so is none.
func DecodeData[T any](i Item) (data T, err error) {
	if err := json.Unmarshal(i.Data, &data); err != nil {
		return data, fmt.Errorf("data of work item %s: %w: %w", i.ID, ErrMalformed, err)
	}
	return data, nil
}

// Fail records one failed attempt.
func (i *Item) Fail(at time.Time, worker string, cause error) {
	text := storable.Text(strings.Join(strings.Fields(cause.Error()), " "), maxErrorBytes)
	if len(text) > maxErrorBytes {
		text = strings.ToValidUTF8(text[:maxErrorBytes], "")
	}
	i.Failures, i.LastError = i.Failures+1, text
	line := fmt.Sprintf("%s %s %s", at.UTC().Format(time.RFC3339), worker, text)
	lines := strings.Split(strings.TrimPrefix(i.History+"\n"+line, "\n"), "\n")
	i.History = strings.Join(lines[max(0, len(lines)-maxHistoryLines):], "\n")
}

// Reset forgets what happened to earlier attempts, as a redrive from the poison
// queue does. The id stays, so that the work is still recognised as the same.
func (i *Item) Reset() {
	i.Failures, i.Releases, i.Kills, i.Snoozes, i.Starts, i.LastError, i.History = 0, 0, 0, 0, 0, "", ""
}

// Unexplained is the number of earlier deliveries that left no record in the item: the
// worker died or lost its lease. Very many mean that the item kills its workers.
func (i Item) Unexplained(dequeueCount int64) int {
	return max(0, int(dequeueCount)-1-i.Failures-i.Releases-i.Snoozes)
}
