package videostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/cutroom/cutroom/shared/tablestore"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/workflow"
)

// Captions are asked for like clips, by sending a file. They belong to the video
// and not to a generation, so there is one row for each language,
//
//	CAPTIONS:<language>
//
// and sending another file asks for the same run anew. Until it is done, the row
// keeps the output of the one before, which is served meanwhile.

// maxLanguages bounds the captions of one video, so that listing them is one
// request of a bounded size.
const maxLanguages = 50

// maxTag is how long a tag may be, in bytes: as the API takes them. Package language
// takes any number of private subtags, and a row key is 1 KiB at most.
const maxTag = 44

var (
	// ErrLanguage says that a text is no BCP 47 tag of a language.
	ErrLanguage = errors.New("not the tag of a language")
	// ErrLanguages says that a video has captions in as many languages as it may.
	ErrLanguages = errors.New("captions in too many languages")
)

// CaptionsKey names the captions of a video in a language: a BCP 47 tag, of which
// all spellings are one (pt_br is pt-BR). ErrLanguage.
func CaptionsKey(id video.ID, tag string) (workflow.Key, error) {
	if len(tag) > maxTag {
		return workflow.Key{}, fmt.Errorf("a tag of %d bytes: %w", len(tag), ErrLanguage)
	}
	parsed, err := language.Parse(tag)
	if base, _, _ := parsed.Raw(); err != nil || base.String() == "und" {
		return workflow.Key{}, fmt.Errorf("%q: %w", tag, ErrLanguage)
	}
	return workflow.Key{ID: id, Step: workflow.StepCaptions, Language: parsed.String()}, nil
}

// LanguageName is what a language of captions is called in itself, such as
// Deutsch; the tag when it is unknown.
func LanguageName(tag string) string {
	parsed, err := language.Parse(tag)
	if name := display.Self.Name(parsed); err == nil && name != "" {
		return name
	}
	return tag
}

// CaptionsOutput is what is served of captions: what the run made that was done
// last, also while another is under way. false when there is nothing yet.
func (s Step) CaptionsOutput() (out video.CaptionsOutput, found bool, err error) {
	if len(s.Output) == 0 {
		return out, false, nil
	}
	out, err = outputOf[video.CaptionsOutput](s)
	return out, err == nil, err
}

// AllCaptions reads the captions of a video in the order of their tags: one row
// range (T5) of at most maxLanguages rows.
func (s *Store) AllCaptions(ctx context.Context, id video.ID) (all []Step, _ error) {
	query := requests(id, workflow.StepCaptions)
	query.Read = tablestore.Into(&all, readCaptions)
	if _, err := s.videos.First(ctx, query, maxLanguages); err != nil {
		return nil, fmt.Errorf("list captions of %s: %w", id, err)
	}
	return all, nil
}

func readCaptions(row tablestore.Entity) (Step, error) {
	step, err := readStep(row)
	if err == nil {
		_, _, err = step.CaptionsOutput()
	}
	return step, err
}

// RequestCaptions asks for captions to be made from a blob in container "sources",
// which is there already: output first, then the row. Safe to repeat: the same
// blob asks for nothing new, unless it has failed. Another blob replaces what was
// asked for, also while a worker is at it: that worker's commit is refused.
// ErrNotFound when the video is gone or going, ErrLanguages.
func (s *Store) RequestCaptions(ctx context.Context, key workflow.Key, input string) (Step, error) {
	return s.promiseRequest(ctx, key, func(_ video.Video, captions *Step) (bool, error) {
		switch {
		case captions.State == "":
			if full, err := s.full(ctx, key.ID, workflow.StepCaptions, "", maxLanguages); full || err != nil {
				return false, cmp.Or(err, ErrLanguages)
			}
		case captions.Input == input && captions.State != StepFailed:
			return false, nil
		}
		// Without an attempt the row has no owner: a worker in progress is superseded.
		captions.Input, captions.Attempt, captions.Attempts, captions.CreatedAt, captions.History = input, "", 0, now(), ""
		return true, nil
	})
}

// DropCaptions removes captions; the janitor removes their blobs. ErrNoCaptions.
func (s *Store) DropCaptions(ctx context.Context, key workflow.Key) error {
	err := s.videos.Delete(ctx, string(key.ID), key.RowKey(), tablestore.AnyETag)
	if errors.Is(err, tablestore.ErrNotFound) {
		return ErrNoCaptions
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return nil
}
