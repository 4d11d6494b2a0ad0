// Package captions reads subtitle files that anybody may have made and writes plain
// WebVTT (https://www.w3.org/TR/webvtt1/): times and text, no styles, no markup,
// nothing that a browser would interpret.
//
// Next: workerrole/internal/step, which stores the result.
package captions

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/asticode/go-astisub"
	"golang.org/x/text/encoding/charmap"
	encoding "golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
)

// Bounds on what is taken, besides video.MaxCaptions, far above what people read.
const (
	maxCues = 20_000
	maxText = 2_000                 // characters of a cue
	latest  = 24 * time.Hour        // end of the last cue
	maxCut  = 8 * video.MaxCaptions // of all segments: a cue of hours is in many
)

// ErrUnreadable says that a file has no cues that can be read. Its text is for
// the user.
var ErrUnreadable = errors.New("not a WebVTT or SRT file with cues")

// Track is captions in the order of their times. Every cue has text and ends after
// it begins.
type Track struct{ cues []cue }

type cue struct {
	from, to time.Duration
	text     string // escaped, lines separated by one newline
}

// Read reads WebVTT, when the file says so, or SRT, in UTF-8, UTF-16 with a byte
// order mark, or else Windows-1252, as older SRT files are. ErrUnreadable.
func Read(file []byte) (Track, error) {
	text, err := decode(file)
	if err != nil {
		return Track{}, err
	}
	parsed, err := parse(text)
	if err != nil {
		return Track{}, err
	}
	var track Track
	for _, item := range parsed.Items {
		c := cue{from: max(0, item.StartAt).Truncate(time.Millisecond), to: item.EndAt.Truncate(time.Millisecond), text: plain(item)}
		if c.text == "" || c.to <= c.from || c.to > latest {
			continue
		}
		if track.cues = append(track.cues, c); len(track.cues) > maxCues {
			return Track{}, fmt.Errorf("%w: more than %d cues", ErrUnreadable, maxCues)
		}
	}
	if len(track.cues) == 0 {
		return Track{}, ErrUnreadable
	}
	slices.SortStableFunc(track.cues, func(a, b cue) int { return int(a.from - b.from) })
	return track, nil
}

// decode returns the file as UTF-8, without a byte order mark and carriage returns,
// simplified.
func decode(file []byte) ([]byte, error) {
	if len(file) > video.MaxCaptions {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrUnreadable, video.MaxCaptions)
	}
	other := charmap.Windows1252.NewDecoder()
	var decoder transform.Transformer = encoding.BOMOverride(other)
	if utf8.Valid(file) {
		decoder = encoding.BOMOverride(encoding.UTF8.NewDecoder())
	}
	text, _, err := transform.Bytes(decoder, file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return simplify(bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))), nil
}

var (
	// timing is the beginning of a line that begins a cue; what may follow are
	// settings, such as a region.
	timing = regexp.MustCompile(`^\s*[\d:]+[.,]\d+\s*-->\s*[\d:]+[.,]\d+`)
	tag    = regexp.MustCompile(`<[^<>]*>`)
)

// simplify takes out what is not kept anyway and what the library does not bear:
// settings of regions that it does not know, "-->" in the text, and tags, which it
// collects for each word.
func simplify(text []byte) []byte {
	lines := bytes.Split(text, []byte("\n"))
	for i, line := range lines {
		if begins := timing.Find(line); begins != nil {
			lines[i] = begins
			continue
		}
		line = bytes.ReplaceAll(line, []byte("-->"), []byte("->"))
		line = tag.ReplaceAll(line, nil)
		lines[i] = bytes.ReplaceAll(line, []byte("<"), []byte("&lt;"))
	}
	return bytes.Join(lines, []byte("\n"))
}

// parse lets the library read the file. It panics at some damaged ones, such as a
// cue without an end.
func parse(text []byte) (parsed *astisub.Subtitles, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrUnreadable, p)
		}
	}()
	if strings.HasPrefix(strings.TrimSpace(string(text[:min(len(text), 100)])), "WEBVTT") {
		parsed, err = astisub.ReadFromWebVTT(bytes.NewReader(text))
	} else {
		parsed, err = astisub.ReadFromSRT(bytes.NewReader(text))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return parsed, nil
}

// plain is the text of a cue, without what would be markup.
func plain(item *astisub.Item) string {
	var lines []string
	left := maxText
	for _, line := range item.Lines {
		text := strings.TrimSpace(strings.Map(func(r rune) rune {
			if left--; left < 0 || unicode.IsControl(r) {
				return -1
			}
			return r
		}, html.UnescapeString(line.String())))
		if text != "" {
			lines = append(lines, escape.Replace(text))
		}
	}
	return strings.Join(lines, "\n")
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Cues is how many there are.
func (t Track) Cues() int { return len(t.cues) }

// Whole is the track as one file.
func (t Track) Whole() []byte {
	b := bytes.NewBufferString("WEBVTT\n")
	for _, c := range t.cues {
		c.write(b)
	}
	return b.Bytes()
}

// Segments cuts the track into files of a length each, as HLS wants them. A cue
// that reaches into several is in each of them. After the last segment there are
// no cues. ErrUnreadable when so many cues last so long that the segments would
// be many times the file.
func (t Track) Segments(length time.Duration) ([][]byte, error) {
	var files []*bytes.Buffer
	size := 0
	for _, c := range t.cues {
		for n := int(c.from / length); n <= int((c.to-1)/length); n++ {
			for len(files) <= n {
				files = append(files, bytes.NewBufferString(playlist.CaptionsHeader))
			}
			c.write(files[n])
			if size += len(c.text); size > maxCut {
				return nil, fmt.Errorf("%w: its cues last too long", ErrUnreadable)
			}
		}
	}
	segments := make([][]byte, len(files))
	for i, f := range files {
		segments[i] = f.Bytes()
	}
	return segments, nil
}

func (c cue) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n%s --> %s\n%s\n", stamp(c.from), stamp(c.to), c.text)
}

func stamp(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%02d:%02d:%02d.%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, ms%1000)
}
