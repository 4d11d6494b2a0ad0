// Package captions is what both roles know of captions, which a user sends in a file for each
// language. They belong to the video and not to a generation, so there is one row for each
// language, and another file asks for the same run anew: see engine.Store.Request. Until that is
// done, the row keeps the output of the one before, which is served meanwhile.
package captions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// MaxBytes bounds a file of captions. A film's has about 100 KB.
const MaxBytes = 1 << 20

// Codes of captions that cannot be made.
const (
	Invalid     engine.Code = "invalid_captions" // not WebVTT or SRT with cues
	Undecodable engine.Code = "undecodable_text" // in an encoding that cannot be told, or damaged
)

// Output is what the step wrote: a WebVTT file in container "media".
type Output struct {
	Blob    string `json:"blob"`
	Bytes   int64  `json:"bytes"`
	Cues    int    `json:"cues"`
	LeftOut int    `json:"leftOut,omitempty"` // cues, or the end of their text
	Charset string `json:"charset,omitempty"` // what the file was read as
}

// Blob is the name, in SourcesContainer, of captions as they were sent. sum
// is the SHA-256 of the bytes, in hex: other bytes have another name.
func Blob(id engine.ID, language, sum string) string {
	return string(id) + "/captions/" + language + "/" + sum
}

// maxLanguages bounds the captions of one video, so that listing them is one request.
const maxLanguages = 50

// maxTag is how long a tag may be, in bytes: package language takes any number of private
// subtags, and a row key is 1 KiB at most.
const maxTag = 44

var (
	// ErrLanguage says that a text is no BCP 47 tag of a language.
	ErrLanguage = errors.New("not the tag of a language")
	// ErrLanguages says that a video has captions in as many languages as it may.
	ErrLanguages = errors.New("captions in too many languages")
)

// Key names the captions of a video in a language: a BCP 47 tag, of which
// all spellings are one (pt_br is pt-BR). ErrLanguage.
func Key(id engine.ID, tag string) (engine.Key, error) {
	if len(tag) > maxTag {
		return engine.Key{}, fmt.Errorf("a tag of %d bytes: %w", len(tag), ErrLanguage)
	}
	parsed, err := language.Parse(tag)
	if base, _, _ := parsed.Raw(); err != nil || base.String() == "und" {
		return engine.Key{}, fmt.Errorf("%q: %w", tag, ErrLanguage)
	}
	return engine.Key{ID: id, Step: workflow.StepCaptions, Variant: parsed.String()}, nil
}

// Name is what a language is called in itself, such as Deutsch, or its tag.
func Name(tag string) string {
	parsed, err := language.Parse(tag)
	if name := display.Self.Name(parsed); err == nil && name != "" {
		return name
	}
	return tag
}

// All reads the captions of a video in the order of their tags: a row range (T5).
func All(ctx context.Context, s *videostore.Store, id engine.ID) ([]engine.Run, error) {
	all, _, err := s.Requests(ctx, id, workflow.StepCaptions, maxLanguages, "", func(run engine.Run) error {
		_, err := engine.OutputOf[Output](run)
		return err
	})
	return all, err
}

// Request asks for captions to be made from a blob in container "sources", which is
// there already. Safe to repeat: the same blob asks for nothing new, unless it has failed.
// Another blob replaces what was asked for, also while a worker is at it: that worker's commit
// is refused. engine.ErrNotFound when the video is gone or going, ErrLanguages.
func Request(ctx context.Context, s *videostore.Store, key engine.Key, input string) (engine.Run, error) {
	return s.Request(ctx, key, func(_ video.Video, captions *engine.Run) (bool, error) {
		switch {
		case captions.State == "":
			if full, err := s.HasRequests(ctx, key.ID, workflow.StepCaptions, "", maxLanguages); full || err != nil {
				return false, cmp.Or(err, ErrLanguages)
			}
		case captions.Input == input && captions.State != engine.RunFailed:
			return false, nil
		}
		// Without an attempt the row has no owner: a worker in progress is superseded.
		captions.Input, captions.Attempt, captions.Attempts, captions.CreatedAt, captions.History = input, "", 0, engine.Now(), ""
		return true, nil
	})
}

// Track is captions that a player may offer.
type Track struct {
	Language string // BCP 47
	Name     string // of the language in itself
}

// AddTo adds captions to a multivariant playlist. They come and go after
// the video is made, so they are not in the stored one.
func AddTo(master string, tracks []Track) string {
	if len(tracks) == 0 {
		return master
	}
	var media strings.Builder
	for _, t := range tracks {
		fmt.Fprintf(&media, "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subs\",NAME=%s,LANGUAGE=%s,DEFAULT=NO,AUTOSELECT=YES,URI=\"captions/%s.m3u8\"\n", playlist.Quoted(t.Name), playlist.Quoted(t.Language), t.Language)
	}
	master = variant.ReplaceAllString(master, `$0,SUBTITLES="subs"`)
	return strings.Replace(master, "#EXT-X-STREAM-INF:", media.String()+"#EXT-X-STREAM-INF:", 1)
}

var variant = regexp.MustCompile(`(?m)^#EXT-X-STREAM-INF:.*$`)

// Playlist draws the media playlist of a language for a video of a length. All captions are
// one segment, whose times are those of the video, as they are without a map of times
// (RFC 8216, section 3.5).
func Playlist(language string, seconds float64) string {
	segment := ""
	if seconds >= 1e-6 { // less is nothing as it is written
		segment = fmt.Sprintf("#EXTINF:%.6f,\n%s/0.vtt\n", seconds, language)
	}
	return fmt.Sprintf("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:%d\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n%s#EXT-X-ENDLIST\n",
		int(math.Ceil(max(1, seconds))), segment)
}
