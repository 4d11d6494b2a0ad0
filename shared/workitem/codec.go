package workitem

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/product"
)

// member is one name and value of the JSON object, the value as received.
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

// JSON returns the CloudEvents object. An item that was received keeps the order of its
// members. Unknown members are kept byte for byte (paper row Q6).
func (i Item) JSON() ([]byte, error) {
	known, err := i.members()
	if err != nil {
		return nil, fmt.Errorf("encode work item %s: %w", i.ID, err)
	}
	var out []member
	// snippet: unknown-members
	for _, received := range i.order {
		at := slices.IndexFunc(known, func(m member) bool { return m.name == received.name })
		switch {
		case at >= 0:
			out = append(out, known[at])
			known = slices.Delete(known, at, at+1)
		case !slices.Contains(ours, received.name):
			out = append(out, received)
		}
	}
	out = append(out, known...)
	// end snippet
	return object(out), nil
}

// members returns the members that this code knows and that have a value.
func (i Item) members() ([]member, error) {
	e := envelope{SpecVersion: "1.0", Type: i.Type(), Item: i}
	if len(i.Data) > 0 || i.DataRef != "" {
		e.DataContentType = "application/json"
	}
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	known, err := splitObject(text)
	if len(i.Data) > 0 && i.DataRef == "" {
		if !json.Valid(i.Data) {
			return nil, fmt.Errorf("data is not JSON")
		}
		known = append(known, member{"data", i.Data})
	}
	return known, err
}

// object is the JSON object of members.
func object(members []member) []byte {
	parts := make([][]byte, len(members))
	for i, m := range members {
		name, _ := json.Marshal(m.name) // a string always encodes
		parts[i] = slices.Concat(name, []byte(":"), m.value)
	}
	return slices.Concat([]byte("{"), bytes.Join(parts, []byte(",")), []byte("}"))
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
	order, err := splitObject([]byte(raw))
	if err != nil {
		return Item{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	// The version is read first: the other members may mean something else in another.
	if err := checkVersion(order); err != nil {
		return Item{}, err
	}
	item, err := itemOf(order)
	if err != nil {
		return Item{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	item.plain = plain
	return item, nil
}

// byteOrderMark is what some programs begin a text with.
const byteOrderMark = "\uFEFF"

// standardBase64 turns the alphabet of addresses into the usual one and removes what both
// may have or leave out.
var standardBase64 = strings.NewReplacer("-", "+", "_", "/", "=", "", "\r", "", "\n", "", " ", "")

// splitObject cuts a JSON object into its members without touching their values.
func splitObject(raw []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object: %v", err)
	}
	var order []member
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("member name: %w", err)
		}
		name, isString := t.(string)
		if !isString || slices.ContainsFunc(order, func(m member) bool { return m.name == name }) {
			return nil, fmt.Errorf("member %q is there twice", name) // readers could disagree on which one counts
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("member %q: %w", name, err)
		}
		order = append(order, member{name, value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("end of object: %w", err)
	}
	if dec.More() {
		return nil, fmt.Errorf("text after the object")
	}
	return order, nil
}

func checkVersion(order []member) error {
	var version string
	for _, m := range order {
		if m.name == "specversion" {
			_ = json.Unmarshal(m.value, &version) // a wrong type leaves none
		}
	}
	major, _, _ := strings.Cut(version, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil || n < 1:
		return fmt.Errorf("%w: specversion %q", ErrMalformed, version)
	case n > 1:
		return fmt.Errorf("%w: CloudEvents %q", ErrNewerVersion, version)
	}
	return nil
}

// itemOf reads the members that we know.
func itemOf(order []member) (Item, error) {
	var e envelope
	var known []member
	for _, m := range order {
		if m.name == "data" {
			e.Data = m.value
		} else if slices.Contains(ours, m.name) { // the decoder would take "ID" for "id"
			known = append(known, m)
		}
	}
	if err := json.Unmarshal(object(known), &e); err != nil {
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
	item.Step, item.order = match[1], order
	item.Version, _ = strconv.Atoi(match[2]) // the pattern allows digits only
	return item, nil
}
