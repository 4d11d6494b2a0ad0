package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/video"
)

// Key names one run of one step. Its row, its message, its blobs and its name in the API are
// derived from it. The JSON form, without the video, is that of the outbox and of messages.
type Key struct {
	ID         video.ID `json:"-"`
	Step       string   `json:"step,omitempty"`
	Generation int      `json:"generation"`
	Index      int      `json:"index"`            // of the chunk or portion; on request: the first frame
	Frames     int      `json:"frames,omitempty"` // on request: how many; else 0
	// Language is that of captions, as a BCP 47 tag; else empty. Captions belong to
	// the video, not to a generation: theirs is 0.
	Language string `json:"language,omitempty"`
}

// ErrNotAKey says that a text names no run of a step.
var ErrNotAKey = errors.New("not the name of a step")

// Declared is the declaration of the key's step. An unknown step is in no stage.
func (k Key) Declared() Step {
	s, _ := Find(k.Step)
	return s
}

// String returns "encode[3] of <id>" for logs and errors.
func (k Key) String() string { return fmt.Sprintf("%s[%d] of %s", k.Step, k.Index, k.ID) }

// RowKey is the key of the run's row in its video's partition:
//
//	STEP:<generation>:<step>:<index>
//	<kind>:<generation>:<first frame>:<frames>   on request
//	<kind>:<language>                            on request, in a language
func (k Key) RowKey() string {
	kind := k.Declared().Rows
	if k.Language != "" {
		return kind + ":" + k.Language
	}
	if kind != "" {
		return fmt.Sprintf("%s:%05d:%09d:%06d", kind, k.Generation, k.Index, k.Frames)
	}
	return fmt.Sprintf("STEP:%05d:%s:%05d", k.Generation, k.Step, k.Index)
}

// ParseRowKey is the inverse of [Key.RowKey]. ErrNotAKey for rows of another kind.
func ParseRowKey(id video.ID, rowKey string) (Key, error) {
	k, fields := Key{ID: id}, strings.Split(rowKey, ":")
	requested := slices.IndexFunc(Steps, func(s Step) bool { return s.Rows != "" && s.Rows == fields[0] })
	switch {
	case fields[0] == "STEP" && len(fields) == 4:
		k.Generation, k.Step, k.Index = number(fields[1]), fields[2], number(fields[3])
	case requested < 0 && fields[0] != "STEP":
		return k, fmt.Errorf("row key %q: %w", rowKey, ErrNotAKey)
	case requested >= 0 && len(fields) == 4:
		k.Step, k.Generation, k.Index, k.Frames = Steps[requested].Name, number(fields[1]), number(fields[2]), number(fields[3])
	case requested >= 0:
		k.Step, k.Language = Steps[requested].Name, strings.Join(fields[1:], ":")
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
func ParseItemID(text string) (Key, error) {
	subject, rowKey, _ := strings.Cut(text, ".")
	id, err := video.ParseID(subject)
	k, bad := ParseRowKey(id, rowKey)
	if err != nil || bad != nil || k.Declared().Stage == 0 {
		return Key{}, fmt.Errorf("item %q: %w", text, ErrNotAKey)
	}
	return k, nil
}

// BlobPrefix is where one attempt of the run writes, in every container. Only what a
// committed attempt wrote is ever read, and the janitor removes the rest.
func (k Key) BlobPrefix(attempt string) string { return k.BlobFolder() + attempt + "/" }

// PreviewPrefix is where one attempt at a preview of the run writes. Beside the prefixes
// of attempts at the run itself, because the janitor keeps the committed one of those.
func (k Key) PreviewPrefix(attempt string) string {
	return fmt.Sprintf("%sg%05d/preview/%s/", video.Prefix(k.ID), k.Generation, attempt)
}

// BlobFolder is where all attempts of the run write.
func (k Key) BlobFolder() string {
	if k.Language != "" {
		return fmt.Sprintf("%s%s/%s/", video.Prefix(k.ID), k.Step, k.Language)
	}
	return fmt.Sprintf("%sg%05d/%s/%05d/", video.Prefix(k.ID), k.Generation, k.Step, k.Index)
}

// Name is the name of a run on request in the API, unique within its video and step.
func (k Key) Name() string { return fmt.Sprintf("g%d-%d-%d", k.Generation, k.Index, k.Frames) }

// Payload is what a message says beside the step and the video.
func (k Key) Payload() any {
	k.Step = ""
	return k
}

// KeyOf names the run that an item asks for. Any program may have put the item into its queue:
// a subject that is no video's id, and data of another shape, are errors that stay.
func KeyOf(item azq.Item) (Key, error) {
	id, err := video.ParseID(item.Subject)
	if err != nil {
		return Key{}, fmt.Errorf("subject of %s item: %w", item.Kind, err)
	}
	k, err := azq.DecodeData[Key](item)
	k.ID, k.Step = id, item.Kind
	return k, err
}
