package engine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/azq"
)

// Key names one run of one step. Its row, its message, its blobs and its name in the API are
// derived from it. The JSON form, without the subject, is that of the outbox and of messages.
type Key struct {
	ID         ID     `json:"-"`
	Step       string `json:"step,omitempty"`
	Generation int    `json:"generation"`
	Index      int    `json:"index"` // among the step's runs; on request: where the range begins
	// Length is how long the range is that was requested; else 0.
	Length int `json:"length,omitempty"`
	// Variant is which of several was requested, such as a language; else empty. Variants belong
	// to the subject, not to a generation: theirs is 0.
	Variant string `json:"variant,omitempty"`
}

// ErrNotAKey says that a text names no run of a step.
var ErrNotAKey = errors.New("not the name of a step")

// String returns "encode[3] of <id>" for logs and errors.
func (k Key) String() string { return fmt.Sprintf("%s[%d] of %s", k.Step, k.Index, k.ID) }

// OnRequest reports whether it names a run on request.
func (k Key) OnRequest() bool { return k.Length > 0 || k.Variant != "" }

// RowKey is the key of the run's row in its subject's partition:
//
//	STEP:<generation>:<step>:<index>
//	<STEP'S NAME>:<generation>:<index>:<length>   on request
//	<STEP'S NAME>:<variant>                       on request, of a variant
func (k Key) RowKey() string {
	switch {
	case k.Variant != "":
		return requestKind(k.Step) + k.Variant
	case k.OnRequest():
		return fmt.Sprintf("%s%05d:%09d:%06d", requestKind(k.Step), k.Generation, k.Index, k.Length)
	}
	return fmt.Sprintf("STEP:%05d:%s:%05d", k.Generation, k.Step, k.Index)
}

// requestKind is how the keys begin of a step on request. They sort before META, so that the
// view of a subject never reads them.
func requestKind(step string) string { return strings.ToUpper(step) + ":" }

// ParseRowKey is the inverse of [Key.RowKey]. ErrNotAKey for rows of another kind.
func ParseRowKey(id ID, rowKey string) (Key, error) {
	k, fields := Key{ID: id}, strings.Split(rowKey, ":")
	onRequest := len(fields) > 1 && fields[0] < MetaKey
	switch {
	case fields[0] == "STEP" && len(fields) == 4:
		k.Generation, k.Step, k.Index = number(fields[1]), fields[2], number(fields[3])
	case fields[0] != "STEP" && !onRequest:
		return k, fmt.Errorf("row key %q: %w", rowKey, ErrNotAKey)
	case onRequest && len(fields) == 4:
		k.Step, k.Generation, k.Index, k.Length = strings.ToLower(fields[0]), number(fields[1]), number(fields[2]), number(fields[3])
	case onRequest:
		k.Step, k.Variant = strings.ToLower(fields[0]), strings.Join(fields[1:], ":")
	}
	if k.RowKey() != rowKey {
		return k, fmt.Errorf("row key %q is not that of a step", rowKey)
	}
	return k, nil
}

// number reads a field of a key; what is none makes another key.
func number(field string) int {
	n, _ := strconv.Atoi(field)
	return n
}

// ItemID is the id of the run's message, whichever the attempt: "<id>.<row key>".
func (k Key) ItemID() string { return string(k.ID) + "." + k.RowKey() }

// ParseItemID is the inverse of [Key.ItemID]. ErrNotAKey when the text names no run
// of a step that this release knows.
func (d Declaration) ParseItemID(text string) (Key, error) {
	subject, rowKey, _ := strings.Cut(text, ".")
	id, err := ParseID(subject)
	k, bad := ParseRowKey(id, rowKey)
	if err != nil || bad != nil || d.StepOf(k).Stage == 0 {
		return Key{}, fmt.Errorf("item %q: %w", text, ErrNotAKey)
	}
	return k, nil
}

// BlobPrefix is where one attempt of the run writes, in every container. Only what a
// committed attempt wrote is ever read, and the janitor removes the rest.
func (k Key) BlobPrefix(attempt string) string { return k.BlobFolder() + attempt + "/" }

// BlobFolder is where all attempts of the run write.
func (k Key) BlobFolder() string {
	if k.Variant != "" {
		return fmt.Sprintf("%s%s/%s/", Prefix(k.ID), k.Step, k.Variant)
	}
	return fmt.Sprintf("%sg%05d/%s/%05d/", Prefix(k.ID), k.Generation, k.Step, k.Index)
}

// Name is the name of a run on request in the API, unique within its subject and step.
func (k Key) Name() string { return fmt.Sprintf("g%d-%d-%d", k.Generation, k.Index, k.Length) }

// Payload is what a message says beside the step and the subject.
func (k Key) Payload() any {
	k.Step = ""
	return k
}

// KeyOf names the run that an item asks for. Any program may have put the item into its queue:
// a subject that is no id, and data of another shape, are errors that stay.
func KeyOf(item azq.Item) (Key, error) {
	id, err := ParseID(item.Subject)
	if err != nil {
		return Key{}, fmt.Errorf("subject of %s item: %w", item.Kind, err)
	}
	k, err := azq.DecodeData[Key](item)
	k.ID, k.Step = id, item.Kind
	return k, err
}
