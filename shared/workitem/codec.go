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
	"time"

	"github.com/cutroom/cutroom/shared/product"
)

// member is one name and value of the JSON object, the value as received.
type member struct {
	name  string
	value json.RawMessage
}

var typeName = regexp.MustCompile(`^` + product.Name + `\.work\.([a-z][a-z0-9-]{0,39})\.v([1-9][0-9]{0,5})$`)

// Encode returns the text of the queue message: base64, because a message is XML on
// the wire, which cannot hold every character (paper row Q19).
func (i Item) Encode() (string, error) {
	raw, err := i.JSON()
	if err != nil {
		return "", err
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
	var out bytes.Buffer
	write := func(m member) {
		if m.value == nil {
			return
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		name, _ := json.Marshal(m.name) // a string always encodes
		out.Write(name)
		out.WriteByte(':')
		out.Write(m.value)
	}
	// snippet: unknown-members
	for _, received := range i.order {
		if value, ours := take(known, received.name); ours {
			received.value = value // nil when the member was removed since
		}
		write(received)
	}
	for _, m := range known {
		write(m)
	}
	// end snippet
	return slices.Concat([]byte("{"), out.Bytes(), []byte("}")), nil
}

// members returns every member that this code knows, in writing order. A nil
// value means that the member is not to be written.
func (i Item) members() ([]member, error) {
	text := func(s string) json.RawMessage {
		if s == "" {
			return nil
		}
		raw, _ := json.Marshal(s) // a string always encodes
		return raw
	}
	count := func(n int) json.RawMessage {
		if n == 0 {
			return nil
		}
		return strconv.AppendInt(nil, int64(n), 10)
	}
	contentType, data := "application/json", i.Data
	if i.DataRef != "" || len(data) == 0 {
		data = nil
	}
	if data != nil && !json.Valid(data) {
		return nil, fmt.Errorf("data is not JSON")
	}
	if len(i.Data) == 0 && i.DataRef == "" {
		contentType = ""
	}
	return []member{
		{"specversion", text("1.0")},
		{"id", text(i.ID)},
		{"source", text(i.Source)},
		{"type", text(i.Type())},
		{"subject", text(i.Subject)},
		{"time", text(i.Time.UTC().Format(time.RFC3339Nano))},
		{"datacontenttype", text(contentType)},
		{"traceparent", text(i.Traceparent)},
		{"failures", count(i.Failures)},
		{"releases", count(i.Releases)},
		{"kills", count(i.Kills)},
		{"snoozes", count(i.Snoozes)},
		{"starts", count(i.Starts)},
		{"lasterror", text(i.LastError)},
		{"history", text(i.History)},
		{"dataref", text(i.DataRef)},
		{"data", data},
	}, nil
}

// Decode reads the text of a queue message: base64, or plain JSON, which clients of
// some other languages send.
//
// Data of a newer version is no error here: the caller compares Version with what its
// handlers understand. When the CloudEvents version is newer the item is empty and the
// error is [ErrNewerVersion]: the message must keep its text.
func Decode(text string) (Item, error) {
	raw := []byte(text)
	if !IsPlain(text) {
		decoded, err := base64.RawStdEncoding.DecodeString(standardBase64.Replace(text))
		if err != nil {
			return Item{}, fmt.Errorf("%w: neither JSON nor base64: %w", ErrMalformed, err)
		}
		raw = decoded
	}
	order, err := splitObject(bytes.TrimPrefix(bytes.TrimSpace(raw), []byte(byteOrderMark)))
	if err != nil {
		return Item{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return itemFromMembers(order)
}

// byteOrderMark is what some programs begin a text with.
const byteOrderMark = "\uFEFF"

// standardBase64 turns the alphabet of addresses into the usual one and removes what both
// may have or leave out.
var standardBase64 = strings.NewReplacer("-", "+", "_", "/", "=", "", "\r", "", "\n", "", " ", "")

// IsPlain reports whether the text of a message is JSON as it is, and not base64.
func IsPlain(text string) bool {
	return strings.HasPrefix(strings.TrimPrefix(strings.TrimSpace(text), byteOrderMark), "{")
}

// splitObject cuts a JSON object into its members without touching their values.
func splitObject(raw []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object: %v", err)
	}
	var order []member
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("member name: %w", err)
		}
		name, isString := t.(string)
		if !isString || seen[name] {
			return nil, fmt.Errorf("member %q is there twice", name) // readers could disagree on which one counts
		}
		seen[name] = true
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

// itemFromMembers reads the members that we know.
func itemFromMembers(order []member) (Item, error) {
	item := Item{order: order}
	var spec, eventType, at, ignored string
	fields := map[string]any{
		"specversion": &spec, "id": &item.ID, "source": &item.Source, "type": &eventType,
		"subject": &item.Subject, "time": &at, "datacontenttype": &ignored, "traceparent": &item.Traceparent,
		"failures": &item.Failures, "releases": &item.Releases, "kills": &item.Kills, "snoozes": &item.Snoozes, "starts": &item.Starts,
		"lasterror": &item.LastError, "history": &item.History, "dataref": &item.DataRef, "data": &item.Data,
	}
	// The version is read first: the other members may mean something else in another.
	for _, m := range order {
		if m.name == "specversion" {
			_ = json.Unmarshal(m.value, &spec) // a wrong type is reported below
		}
	}
	switch major, _, _ := strings.Cut(spec, "."); {
	case major == "1":
	case newerMajor(major):
		return Item{}, fmt.Errorf("%w: CloudEvents %q", ErrNewerVersion, spec)
	default:
		return Item{}, fmt.Errorf("%w: specversion %q", ErrMalformed, spec)
	}
	for _, m := range order {
		if dst, ours := fields[m.name]; ours {
			if err := json.Unmarshal(m.value, dst); err != nil {
				return Item{}, fmt.Errorf("%w: member %q: %w", ErrMalformed, m.name, err)
			}
		}
	}
	match := typeName.FindStringSubmatch(eventType)
	if match == nil {
		return Item{}, fmt.Errorf("%w: type %q is not cutroom.work.<step>.v<n>", ErrMalformed, eventType)
	}
	item.Step = match[1]
	item.Version, _ = strconv.Atoi(match[2]) // the pattern allows digits only
	if item.ID == "" {
		return Item{}, fmt.Errorf("%w: id is missing", ErrMalformed)
	}
	if at != "" {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return Item{}, fmt.Errorf("%w: time: %w", ErrMalformed, err)
		}
		item.Time = t.UTC()
	}
	for name, n := range map[string]int{"failures": item.Failures, "releases": item.Releases, "kills": item.Kills, "snoozes": item.Snoozes, "starts": item.Starts} {
		if n < 0 || n > 1_000_000 {
			return Item{}, fmt.Errorf("%w: %s is %d", ErrMalformed, name, n)
		}
	}
	return item, nil
}

func newerMajor(major string) bool {
	n, err := strconv.Atoi(major)
	return err == nil && n > 1
}

// take removes the member called name from list and returns its value.
func take(list []member, name string) (value json.RawMessage, found bool) {
	for i := range list {
		if list[i].name == name {
			value, list[i].value = list[i].value, nil
			return value, true
		}
	}
	return nil, false
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// lastLines appends a line to text and keeps the last n lines.
func lastLines(text, line string, n int) string {
	lines := append(strings.Split(text, "\n"), line)
	if text == "" {
		lines = lines[1:]
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
