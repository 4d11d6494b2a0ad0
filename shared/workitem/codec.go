package workitem

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/product"
)

// member is one name and value of the JSON object, the value as it was received.
type member struct {
	name  string
	value json.RawMessage
}

// envelope is the members that this code knows, but for data, which keeps its bytes.
type envelope struct {
	SpecVersion     string `json:"specversion"`
	Type            string `json:"type"`
	DataContentType string `json:"datacontenttype,omitempty"`
	Item
}

// ours are the names of all members that this code knows.
var ours = strings.Fields("specversion type datacontenttype id source subject time traceparent" +
	" failures releases kills snoozes starts lasterror history dataref data")

var typeName = regexp.MustCompile(`^` + product.Name + `\.work\.([a-z][a-z0-9-]{0,39})\.v([1-9][0-9]{0,5})$`)

// Encode returns the text of the queue message: base64, because a message is XML on
// the wire, which cannot hold every character (paper row Q19). An item that came as plain
// JSON stays that: base64 is a third longer, and may not fit.
func (i Item) Encode() (string, error) {
	raw, err := i.JSON()
	if err != nil || i.plain {
		return string(raw), err
	}
	return base64.StdEncoding.EncodeToString(raw), nil
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
	more := i.unknown
	if len(i.Data) > 0 && i.DataRef == "" {
		more = append(slices.Clip(more), member{"data", i.Data})
	}
	text = bytes.TrimSuffix(text, []byte("}"))
	for _, m := range more {
		name, _ := json.Marshal(m.name) // a string always encodes
		text = slices.Concat(text, []byte(","), name, []byte(":"), m.value)
	}
	return append(text, '}'), nil
	// end snippet
}

// Decode reads the text of a queue message: base64, or plain JSON, which clients of
// some other languages send.
//
// Data of a newer version is no error here: the caller compares Version with what its
// handlers understand. When the CloudEvents version is newer the item is empty and the
// error is [ErrNewerVersion]: the message must keep its text.
func Decode(text string) (Item, error) {
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
	if err := checkVersion(known["specversion"]); err != nil {
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

// splitObject cuts a JSON object into its members without touching their values.
func splitObject(raw []byte) (known map[string]json.RawMessage, unknown []member, _ error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, fmt.Errorf("not a JSON object: %v", err)
	}
	known, seen := map[string]json.RawMessage{}, map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, nil, fmt.Errorf("member name: %w", err)
		}
		m := member{name: t.(string)} // the decoder allows nothing else there
		if seen[m.name] {
			return nil, nil, fmt.Errorf("member %q is there twice", m.name) // readers could disagree on which one counts
		}
		seen[m.name] = true
		if err := dec.Decode(&m.value); err != nil {
			return nil, nil, fmt.Errorf("member %q: %w", m.name, err)
		}
		if slices.Contains(ours, m.name) {
			known[m.name] = m.value
		} else {
			unknown = append(unknown, m)
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, nil, fmt.Errorf("end of object: %w", err)
	}
	if dec.More() {
		return nil, nil, errors.New("text after the object")
	}
	return known, unknown, nil
}

func checkVersion(member json.RawMessage) error {
	var version string
	_ = json.Unmarshal(member, &version) // a wrong type leaves none
	major, _, _ := strings.Cut(version, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil || n < 1:
		return fmt.Errorf("%w: specversion %q", ErrMalformed, version)
	case n > 1:
		return fmt.Errorf("%w: CloudEvents %q", ErrNewerVersion, version)
	}
	return nil
}

// itemOf reads the members that we know. Others are left out of what the decoder sees,
// because it would take "ID" for "id".
func itemOf(known map[string]json.RawMessage) (Item, error) {
	var e envelope
	text, err := json.Marshal(known)
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		return Item{}, err
	}
	match := typeName.FindStringSubmatch(e.Type)
	if match == nil {
		return Item{}, fmt.Errorf("type %q is not %s.work.<step>.v<n>", e.Type, product.Name)
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
	item.Step, item.Data = match[1], known["data"]
	item.Version, _ = strconv.Atoi(match[2]) // the pattern allows digits only
	return item, nil
}
