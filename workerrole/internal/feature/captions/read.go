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

	"golang.org/x/text/language"

	"github.com/cutroom/cutroom/shared/captions"
	"github.com/cutroom/cutroom/shared/charset"
	"github.com/cutroom/cutroom/shared/playlist"
)

// Bounds on what is taken, besides captions.MaxBytes, far above what people read.
const (
	maxCues = 20_000
	maxText = 2_000          // characters of a cue
	latest  = 24 * time.Hour // end of the last cue
)

// ErrUnreadable says that a file has no cues that can be read. Its text is for the user.
var ErrUnreadable = errors.New("it is not a WebVTT or SRT file with cues")

// Track is captions as a WebVTT file.
type Track struct {
	Text []byte // cues in the order of their times; each has text and ends after it begins
	Cues int
	// LeftOut is how many cues were left out, or the end of their text, because they end
	// before they begin, or too late, or are too long.
	LeftOut int
	Charset string // encoding of the file that was read; charset.UTF8 if it was Unicode already
}

type cue struct {
	from, to time.Duration
	text     string // escaped, lines separated by one newline
}

// Read reads WebVTT, when the file says so, or SRT, in the encodings that people have
// for a language. ErrUnreadable, *charset.Error.
func Read(file []byte, in language.Tag) (Track, error) {
	if len(file) > captions.MaxBytes {
		return Track{}, fmt.Errorf("%w: it is larger than %d bytes", ErrUnreadable, captions.MaxBytes)
	}
	text, encoding, err := charset.Decode(file, in)
	if err != nil {
		return Track{}, err //nolint:wrapcheck // its text is for the user
	}
	blocks, err := parse(string(text))
	if err != nil {
		return Track{}, err
	}
	track := Track{Charset: encoding}
	var cues []cue
	for _, b := range blocks {
		text, cut := plain(b.lines)
		late := b.to <= b.from || b.to > latest
		if text != "" && (late || cut) {
			track.LeftOut++
		}
		if text == "" || late {
			continue
		}
		if cues = append(cues, cue{b.from, b.to, text}); len(cues) > maxCues {
			return Track{}, fmt.Errorf("%w: it has more than %d", ErrUnreadable, maxCues)
		}
	}
	switch {
	case track.LeftOut > 0 && len(cues) == 0:
		return Track{}, fmt.Errorf("%w: all of them end before they begin, or after %v", ErrUnreadable, latest)
	case len(cues) == 0:
		return Track{}, fmt.Errorf("%w: it has no line such as 00:00:01,000 --> 00:00:02,500 with text below it", ErrUnreadable)
	}
	slices.SortStableFunc(cues, func(a, b cue) int { return int(a.from - b.from) })
	track.Cues, track.Text = len(cues), write(cues)
	return track, nil
}

// block is a cue as it stands in the file.
type block struct {
	from, to time.Duration
	lines    []string
}

const clock = `((?:\d{1,4}:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,3})?)`

var (
	// timing is the beginning of a line that begins a cue. Settings may follow.
	timing = regexp.MustCompile(`^\s*` + clock + `\s*-->\s*` + clock + `(?:\s|$)`)
	// almost is what looks like one, to a person, too.
	almost = regexp.MustCompile(`^\s*\d+\s*:\s*\d.*-->`)
	number = regexp.MustCompile(`^\s*\d+\s*$`)
)

// parse finds the cues. In WebVTT their text ends at a blank line, and what stands
// between them is no text. SRT has a number before each, and people leave blank lines in
// the text, or none after it.
func parse(text string) (blocks []block, _ error) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	webVTT := strings.HasPrefix(strings.TrimSpace(text), "WEBVTT")
	var open *block // whose text the next line belongs to
	for i, line := range strings.Split(text, "\n") {
		times := timing.FindStringSubmatch(line)
		switch {
		case times != nil:
			if open != nil && len(open.lines) > 0 && number.MatchString(open.lines[len(open.lines)-1]) {
				open.lines = open.lines[:len(open.lines)-1]
			}
			blocks = append(blocks, block{from: parseTime(times[1]), to: parseTime(times[2])})
			open = &blocks[len(blocks)-1]
		case almost.MatchString(line):
			return nil, fmt.Errorf("%w: the times in line %d are not like 00:00:01,000 --> 00:00:02,500", ErrUnreadable, i+1)
		case webVTT && strings.TrimSpace(line) == "":
			open = nil
		case open != nil:
			open.lines = append(open.lines, line)
		}
	}
	return blocks, nil
}

func parseTime(text string) time.Duration {
	parts := strings.Split(strings.ReplaceAll(text, ",", "."), ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	d, _ := time.ParseDuration(parts[0] + "h" + parts[1] + "m" + parts[2] + "s") // digits only
	return d
}

var (
	lineBreak = regexp.MustCompile(`(?i)<br\s*/?>`)
	// markup is the tags of WebVTT, those of HTML that are found in SRT and any with
	// attributes, and the overrides of ASS and MicroDVD as ffmpeg knows them: {\an8},
	// {y:i}. Other angles and braces are text.
	markup = regexp.MustCompile(`(?i)</?(?:(?:b|i|u|s|em|strong|font|span|p|div|c|v|lang|ruby|rt|a|script|style)(?:\.[^\s<>]*)?\s*/?)?>` +
		`|<[a-z]\w*\s+[\w-]+\s*=[^<>]*>` +
		`|<(?:v|lang)(?:\.[^\s<>]*)?\s[^<>]*>` +
		`|<[\d:]+\.\d+>` +
		`|\{(?:\\|[cfopsy]:)[^{}]*\}`)
)

// plain is the text of a cue, without what would be markup, and whether it was cut.
func plain(lines []string) (text string, cut bool) {
	var kept []string
	left := maxText
	for _, line := range lines {
		line = markup.ReplaceAllString(lineBreak.ReplaceAllString(line, "\n"), "")
		for part := range strings.SplitSeq(line, "\n") {
			part = strings.TrimSpace(strings.Map(func(r rune) rune {
				switch left--; {
				case left < 0:
					cut = true
					return -1
				case r == '\t':
					return ' '
				case unicode.IsControl(r):
					return -1
				}
				return r
			}, html.UnescapeString(part)))
			if part != "" {
				kept = append(kept, escape.Replace(part))
			}
		}
	}
	return strings.Join(kept, "\n"), cut
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func write(cues []cue) []byte {
	b := bytes.NewBufferString("WEBVTT\n")
	for _, c := range cues {
		fmt.Fprintf(b, "\n%s --> %s\n%s\n", playlist.CaptionTime(c.from), playlist.CaptionTime(c.to), c.text)
	}
	return b.Bytes()
}
