package azq

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
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

	// ErrNewerVersion says that the message was written for a newer worker: snooze it.
	ErrNewerVersion = errors.New("message has a newer format than this worker understands")
)

// DefaultNamespace begins the type of items that a program gives no namespace of its own.
const DefaultNamespace = "azq"

// Item is one request for work, a CloudEvents 1.0 JSON object (paper row Q6), base64 in the
// queue message (Q19): see FORMAT.md. The zero value is not valid: use [NewItem].
//
// Items are values. Data and the unknown members are shared between copies and
// never changed in place.
type Item struct {
	ID          string          `json:"id"`                    // the same in every attempt and every duplicate
	Namespace   string          `json:"-"`                     // begins the type: the product that the work belongs to
	Kind        string          `json:"-"`                     // names the handler: the middle of the CloudEvents type
	Version     int             `json:"-"`                     // of Data and what it stands for, from 1: the N in the type "<namespace>.work.<kind>.vN"
	Subject     string          `json:"subject,omitempty"`     // what the work is about; only the handler knows what is valid
	Source      string          `json:"source,omitempty"`      // the sender, a URI reference
	Time        time.Time       `json:"time,omitzero"`         // when it was asked
	Traceparent string          `json:"traceparent,omitempty"` // W3C trace context of the asker; may be empty
	Data        json.RawMessage `json:"-"`                     // what the work needs: see [DecodeData]; nil when there is nothing or DataRef is not fetched yet

	// DataRef names the claim-check blob that holds Data when Data is too large
	// for a message (paper row Q9). An item with a DataRef travels without Data.
	DataRef string `json:"dataref,omitempty"`

	Failures  int    `json:"failures,omitempty"`  // failed attempts; when there are Spec.MaxFailures the item is poison
	Releases  int    `json:"releases,omitempty"`  // releases (drain, lease ending, trouble): not the item's fault
	Kills     int    `json:"kills,omitempty"`     // releases because a child process was killed; many mean that the item needs too much memory
	Snoozes   int    `json:"snoozes,omitempty"`   // snoozes (not yet, newer version)
	Starts    int    `json:"starts,omitempty"`    // attempts that were noted before they began and have left no other record: see Lease.Renew
	LastError string `json:"lasterror,omitempty"` // of the latest failure
	History   string `json:"history,omitempty"`   // the latest failures, oldest first, one line each: "<time> <worker> <error>"

	unknown []byte // members as received, each after a comma
	plain   bool   // it came as JSON, and not as base64
}

// NewItem makes an item of version 1. Use the same id whenever the same work is asked for again,
// so that duplicates are recognised. The data is anything that encodes as JSON, or nil. A kind or id
// that is not valid is an error when the item is sent.
func NewItem(kind, subject, id string, data any) (Item, error) {
	item := Item{
		ID: id, Kind: kind, Version: 1, Subject: subject,
		Namespace: DefaultNamespace, Source: "/" + DefaultNamespace, Time: time.Now().UTC().Truncate(time.Millisecond),
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
func (i Item) Type() string {
	return fmt.Sprintf("%s.work.%s.v%d", cmp.Or(i.Namespace, DefaultNamespace), i.Kind, i.Version)
}

// DecodeData reads the item's data as a T. Data of the wrong shape is [ErrMalformed], and so
// is none.
func DecodeData[T any](i Item) (data T, err error) {
	if err := json.Unmarshal(i.Data, &data); err != nil {
		return data, fmt.Errorf("data of work item %s: %w: %w", i.ID, ErrMalformed, err)
	}
	return data, nil
}

// Fail records one failed attempt.
func (i *Item) Fail(at time.Time, worker string, cause error) {
	text := azstore.Storable(strings.Join(strings.Fields(cause.Error()), " "), maxErrorBytes)
	if len(text) > maxErrorBytes {
		text = strings.ToValidUTF8(text[:maxErrorBytes], "")
	}
	i.Failures, i.LastError = i.Failures+1, text
	line := fmt.Sprintf("%s %s %s", at.UTC().Format(time.RFC3339), worker, text)
	lines := strings.Split(strings.TrimPrefix(i.History+"\n"+line, "\n"), "\n")
	i.History = strings.Join(lines[max(0, len(lines)-maxHistoryLines):], "\n")
}

// Unexplained is the number of earlier deliveries that left no record in the item: the
// worker died or lost its lease. Very many mean that the item kills its workers.
func (i Item) Unexplained(dequeueCount int64) int {
	return max(0, int(dequeueCount)-1-i.Failures-i.Releases-i.Snoozes)
}

// envelope is the members that this code knows.
type envelope struct {
	SpecVersion     string `json:"specversion"`
	Type            string `json:"type"`
	DataContentType string `json:"datacontenttype,omitempty"`
	Item
	Data json.RawMessage `json:"data,omitempty"` // when it is read; JSON appends it
}

// ours are the names of all members that this code knows.
var ours = strings.Fields("specversion type datacontenttype id source subject time traceparent" +
	" failures releases kills snoozes starts lasterror history dataref data")

var typeName = regexp.MustCompile(`^([a-z][a-z0-9-]{0,39})\.work\.([a-z][a-z0-9-]{0,39})\.v([1-9][0-9]{0,5})$`)

// Encode returns the text of the queue message: base64 (paper row Q19). An item that came as
// plain JSON stays that: base64 is a third longer, and may not fit. ErrMalformed, ErrTooLarge.
func (i Item) Encode() (string, error) {
	if !typeName.MatchString(i.Type()) || i.ID == "" { // it would be poison
		return "", fmt.Errorf("%w: type %q, of lower-case letters, digits and hyphens, id %q", ErrMalformed, i.Type(), i.ID)
	}
	raw, err := i.JSON()
	text := string(raw)
	if !i.plain {
		text = base64.StdEncoding.EncodeToString(raw)
	}
	if len(text) > maxMessage {
		err = fmt.Errorf("%w: %d bytes", ErrTooLarge, len(text))
	}
	return text, err
}

// JSON returns the CloudEvents object. Unknown members of an item that was received are kept
// byte for byte and in their order (paper row Q6).
func (i Item) JSON() ([]byte, error) {
	e := envelope{SpecVersion: "1.0", Type: i.Type(), Item: i}
	if len(i.Data) > 0 || i.DataRef != "" {
		e.DataContentType = "application/json"
	}
	text, err := json.Marshal(e)
	if err == nil && len(i.Data) > 0 && !json.Valid(i.Data) {
		err = errors.New("data is not JSON")
	}
	if err != nil {
		return nil, fmt.Errorf("encode work item %s: %w", i.ID, err)
	}
	// snippet: unknown-members
	text = slices.Concat(bytes.TrimSuffix(text, []byte("}")), i.unknown)
	if len(i.Data) > 0 && i.DataRef == "" {
		text = slices.Concat(text, []byte(`,"data":`), i.Data)
	}
	return append(text, '}'), nil
	// end snippet
}

// DecodeItem reads the text of a queue message: base64, or plain JSON, which clients of
// some other languages send.
//
// Data of a newer version is no error here: the caller compares Version with what its
// handlers understand. When the CloudEvents version is newer the item is empty and the
// error is [ErrNewerVersion]: the message must keep its text.
func DecodeItem(text string) (Item, error) {
	raw := strings.TrimPrefix(strings.TrimSpace(text), byteOrderMark)
	plain := strings.HasPrefix(raw, "{")
	if !plain {
		decoded, err := base64.RawStdEncoding.DecodeString(standardBase64.Replace(text))
		if err != nil {
			return Item{}, fmt.Errorf("%w: neither JSON nor base64: %w", ErrMalformed, err)
		}
		raw = strings.TrimPrefix(strings.TrimSpace(string(decoded)), byteOrderMark)
	}
	known, unknown, err := splitObject([]byte(raw))
	if err != nil {
		return Item{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	// The version is read first: the other members may mean something else in another.
	if err := checkVersion(known); err != nil {
		return Item{}, err
	}
	item, err := itemOf(known)
	if err != nil {
		return Item{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	item.unknown, item.plain = unknown, plain
	return item, nil
}

// byteOrderMark is what some programs begin a text with.
const byteOrderMark = "\uFEFF"

// standardBase64 turns the alphabet of addresses into the usual one and removes what both
// may have or leave out.
var standardBase64 = strings.NewReplacer("-", "+", "_", "/", "=", "", "\r", "", "\n", "", " ", "")

// splitObject parts a JSON object into an object of the members that we know and the others,
// without touching their values. The decoder would take "ID" for "id".
func splitObject(raw []byte) (known, unknown []byte, _ error) {
	var object struct{}
	if err := json.Unmarshal(raw, &object); err != nil || raw[0] != '{' {
		return nil, nil, fmt.Errorf("not a JSON object: %v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw)) // which finds no mistake any more
	_, _ = dec.Token()
	seen := map[any]bool{}
	for dec.More() {
		name, _ := dec.Token()
		if seen[name] {
			return nil, nil, fmt.Errorf("member %q is there twice", name) // readers could disagree on which one counts
		}
		seen[name] = true
		var value json.RawMessage
		_ = dec.Decode(&value)
		quoted, _ := json.Marshal(name) // a string always encodes
		member := slices.Concat([]byte(","), quoted, []byte(":"), value)
		if slices.Contains(ours, name.(string)) { // the decoder allows nothing else there
			known = append(known, member...)
		} else {
			unknown = append(unknown, member...)
		}
	}
	return slices.Concat([]byte("{"), bytes.TrimPrefix(known, []byte(",")), []byte("}")), unknown, nil
}

func checkVersion(known []byte) error {
	var e struct{ SpecVersion string }
	_ = json.Unmarshal(known, &e) // a wrong type leaves none
	major, _, _ := strings.Cut(e.SpecVersion, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil || n < 1:
		return fmt.Errorf("%w: specversion %q", ErrMalformed, e.SpecVersion)
	case n > 1:
		return fmt.Errorf("%w: CloudEvents %q", ErrNewerVersion, e.SpecVersion)
	}
	return nil
}

// itemOf reads the members that we know.
func itemOf(known []byte) (Item, error) {
	var e envelope
	if err := json.Unmarshal(known, &e); err != nil {
		return Item{}, err
	}
	match := typeName.FindStringSubmatch(e.Type)
	if match == nil {
		return Item{}, fmt.Errorf("type %q is not <namespace>.work.<kind>.v<n>", e.Type)
	}
	if e.ID == "" {
		return Item{}, fmt.Errorf("id is missing")
	}
	for _, n := range []int{e.Failures, e.Releases, e.Kills, e.Snoozes, e.Starts} {
		if n < 0 || n > 1_000_000 {
			return Item{}, fmt.Errorf("a counter is %d", n)
		}
	}
	item := e.Item
	item.Namespace, item.Kind, item.Data = match[1], match[2], e.Data
	item.Version, _ = strconv.Atoi(match[3]) // the pattern allows digits only
	return item, nil
}
