package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workitem"
)

// Key names one run of one step. Its row, its message, its blobs and its name in
// the API are derived from it, and so are the same no matter who makes them. The JSON
// form, without the video, is that of the outbox.
type Key struct {
	ID         video.ID `json:"-"`
	Generation int      `json:"g,omitempty"`
	Step       string   `json:"s"`
	Index      int      `json:"i,omitempty"` // of the chunk or portion; on request: the first frame
	Frames     int      `json:"n,omitempty"` // on request: how many; else 0
	// Language is that of captions, as a BCP 47 tag; else empty. Captions belong to
	// the video, not to a generation: theirs is 0.
	Language string `json:"l,omitempty"`
}

// ErrNotAKey says that a text names no run of a step.
var ErrNotAKey = errors.New("not the name of a step")

// Declared is the declaration of the key's step. An unknown step is in no stage.
func (k Key) Declared() Step {
	s, _ := Find(k.Step)
	return s
}

// Begins reports whether the run makes what a player needs first: the first chunk, or the
// first portion of sound.
func (k Key) Begins() bool { return k.Index == 0 && k.Declared().Makes != Nothing }

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
	k := Key{ID: id}
	parts := strings.Split(rowKey, ":")
	requested, kind := kindOf(parts[0])
	if len(parts) == 2 && requested != "" && parts[1] != "" {
		k.Step, k.Language = requested, parts[1]
		return k, nil
	}
	if len(parts) != 4 || !kind {
		return k, fmt.Errorf("row key %q: %w", rowKey, ErrNotAKey)
	}
	var err1, err2, err3 error
	k.Generation, err1 = strconv.Atoi(parts[1])
	if k.Step = requested; requested != "" {
		k.Index, err2 = strconv.Atoi(parts[2])
		k.Frames, err3 = strconv.Atoi(parts[3])
	} else {
		k.Step = parts[2]
		k.Index, err2 = strconv.Atoi(parts[3])
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		return k, fmt.Errorf("row key %q: %w", rowKey, err)
	}
	return k, nil
}

// kindOf returns the step whose rows are of a kind, empty for the kind that most
// steps share; false when no step has such rows.
func kindOf(kind string) (step string, found bool) {
	i := slices.IndexFunc(Steps, func(s Step) bool { return s.Rows != "" && s.Rows == kind })
	if i >= 0 {
		return Steps[i].Name, true
	}
	return "", kind == "STEP"
}

// IsRow reports whether rows whose keys begin with kind are those of steps.
func IsRow(kind string) bool {
	_, found := kindOf(kind)
	return found
}

// ItemID is the id of the run's message. It does not depend on the attempt, so
// that duplicates are recognised.
func (k Key) ItemID() string {
	id := fmt.Sprintf("%s.%d.%s.%d", k.ID, k.Generation, k.Step, k.Index)
	if k.Language != "" {
		id += "." + k.Language
	}
	if k.Frames > 0 {
		id += fmt.Sprintf(".%d", k.Frames)
	}
	return id
}

// ParseItemID is the inverse of [Key.ItemID]. ErrNotAKey when the text names no run
// of a step that this release knows.
func ParseItemID(text string) (Key, error) {
	parts := strings.Split(text, ".")
	if len(parts) < 4 || len(parts) > 6 {
		return Key{}, fmt.Errorf("item %q: %w", text, ErrNotAKey)
	}
	id, err := video.ParseID(parts[0])
	k := Key{ID: id, Step: parts[2]}
	var err1, err2, err3 error
	k.Generation, err1 = strconv.Atoi(parts[1])
	k.Index, err2 = strconv.Atoi(parts[3])
	for _, more := range parts[4:] { // a language, then frames
		if k.Frames, err3 = strconv.Atoi(more); err3 != nil && k.Language == "" {
			k.Language, err3 = more, nil
		}
	}
	if err := errors.Join(err, err1, err2, err3); err != nil || k.Declared().Stage == 0 || k.ItemID() != text {
		return Key{}, fmt.Errorf("item %q: %w", text, ErrNotAKey)
	}
	return k, nil
}

// BlobPrefix is where one attempt of the run writes, in every container. Two
// attempts never share a name; only what a committed attempt wrote is ever read,
// and the janitor removes the rest.
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

// Name is the name of a run on request in the API, unique within its video and
// step.
func (k Key) Name() string { return fmt.Sprintf("g%d-%d-%d", k.Generation, k.Index, k.Frames) }

// ParseName is the inverse of [Key.Name]. ErrNotAKey when the text is no such name.
func ParseName(id video.ID, step, text string) (Key, error) {
	k := Key{ID: id, Step: step}
	_, err := fmt.Sscanf(text, "g%5d-%9d-%6d", &k.Generation, &k.Index, &k.Frames)
	if err != nil || k.Name() != text || k.Generation < 1 || k.Index < 0 || k.Frames < 1 {
		return Key{}, fmt.Errorf("%q: %w", text, ErrNotAKey)
	}
	return k, nil
}

// payload is the data of every step's message.
type payload struct {
	Generation int    `json:"generation"`
	Index      int    `json:"index"`
	Frames     int    `json:"frames,omitempty"`
	Language   string `json:"language,omitempty"`
}

// Payload is what a message says beside the step and the video.
func (k Key) Payload() any {
	return payload{Generation: k.Generation, Index: k.Index, Frames: k.Frames, Language: k.Language}
}

// KeyOf names the run that an item asks for. The item comes from a queue, where
// any program may have put it: a subject that is no video's id, and data of another
// shape, are errors that stay.
func KeyOf(item workitem.Item) (Key, error) {
	id, err := video.ParseID(item.Subject)
	if err != nil {
		return Key{}, fmt.Errorf("subject of %s item: %w", item.Step, err)
	}
	p, err := workitem.DecodeData[payload](item)
	if err != nil {
		return Key{}, err
	}
	return Key{ID: id, Generation: p.Generation, Step: item.Step, Index: p.Index, Frames: p.Frames, Language: p.Language}, nil
}
