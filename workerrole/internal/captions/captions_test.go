package captions_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/unicode"

	"github.com/cutroom/cutroom/shared/azuritetest"
	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/captions"
)

const srt = "1\r\n00:00:01,000 --> 00:00:02,500\r\nGood <i>morning</i>,\r\n& welcome\r\n\r\n2\r\n00:00:59,500 --> 00:01:01,000\r\na --> b\r\n"

const clean = `WEBVTT

00:00:01.000 --> 00:00:02.500
Good morning,
&amp; welcome

00:00:59.500 --> 00:01:01.000
a -&gt; b
`

// Whatever people have is read, and comes out as times and text.
func TestRead(t *testing.T) {
	t.Parallel()
	utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String("1\n00:00:01,000 --> 00:00:02,000\nÜber\n")
	if err != nil {
		t.Fatal(err)
	}
	one := func(text string) string { return "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n" + text + "\n" }
	for name, c := range map[string]struct{ file, want string }{
		"vtt":                   {"WEBVTT - a title\n\nNOTE hidden\n\nSTYLE\n::cue { background: url(https://example.com/spy) }\n\nintro\n00:01.000 --> 00:02.000 align:start\n<v Anna><c.loud>Hello</c></v>\n", one("Hello")},
		"byte order mark":       {"\ufeffWEBVTT\n\n00:01.000 --> 00:02.000\nx\n", one("x")},
		"UTF-16":                {utf16, one("Über")},
		"Windows-1252":          {"1\n00:00:01,000 --> 00:00:02,000\n\xdcber\n", one("Über")},
		"script":                {"1\n00:00:01,000 --> 00:00:02,000\n<script>alert(1)</script>&lt;b&gt;\n", one("alert(1)&lt;b&gt;")},
		"out of order":          {"1\n00:00:03,000 --> 00:00:04,000\nlater\n\n2\n00:00:01,000 --> 00:00:02,000\nx\n", one("x") + "\n00:00:03.000 --> 00:00:04.000\nlater\n"},
		"ends before it begins": {"1\n00:00:03,000 --> 00:00:02,000\nno\n\n2\n00:00:01,000 --> 00:00:02,000\nx\n", one("x")},
		"settings":              {"WEBVTT\n\n00:01.000 --> 00:02.000 region:none line:0\nx\n", one("x")},
		"control characters":    {"1\n00:00:01,000 --> 00:00:02,000\nx\x00\x1b[31m\n", one("x[31m")},
	} {
		track, err := captions.Read([]byte(c.file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, string(track.Whole())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	track, err := captions.Read([]byte(srt))
	if err != nil || track.Cues() != 2 || string(track.Whole()) != clean {
		t.Errorf("SRT: %v, %d cues:\n%s", err, track.Cues(), track.Whole())
	}
	again, err := captions.Read(track.Whole())
	if err != nil || !bytes.Equal(again.Whole(), track.Whole()) {
		t.Errorf("read again: %v\n%s", err, again.Whole())
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	hours := "00:00:00,000 --> 23:00:00,000\n" + strings.Repeat("x", 1000) + "\n\n"
	for name, file := range map[string]string{
		"nothing": "", "header only": "WEBVTT\n", "prose": "hello\nworld\n", "no end": "1\n00:00:01,000 -->\nx\n", "vtt, no end": "WEBVTT\n\n00:01.000 -->\nx\n",
		"binary": "\x1a\x45\xdf\xa3\x00\x00", "too large": "WEBVTT\n" + strings.Repeat("x", video.MaxCaptions), "cues of a day": strings.Repeat(hours, 100),
	} {
		track, err := captions.Read([]byte(file))
		if err == nil {
			_, err = track.Segments(time.Minute)
		}
		if !errors.Is(err, captions.ErrUnreadable) {
			t.Errorf("%s: %v, want ErrUnreadable", name, err)
		}
	}
}

// A cue of a million tags is read in time and memory that its size explains.
func TestManyTags(t *testing.T) {
	t.Parallel()
	file := "1\n00:00:01,000 --> 00:00:02,000\n" + strings.Repeat(strings.Repeat("<<b>b>x", 1000)+"\n", video.MaxCaptions/7001)
	began := time.Now()
	if track, err := captions.Read([]byte(file)); err != nil || track.Cues() != 1 {
		t.Errorf("%d cues, %v; want 1", track.Cues(), err)
	}
	if took := time.Since(began); took > azuritetest.Patience(20*time.Second) {
		t.Errorf("read after %v", took)
	}
}

// A cue over the border of two segments is in both, and a minute without cues is
// a file of its own.
func TestSegments(t *testing.T) {
	t.Parallel()
	track, err := captions.Read([]byte(srt + "\n3\n00:03:00,000 --> 00:03:01,000\nend\n"))
	if err != nil {
		t.Fatal(err)
	}
	segments, err := track.Segments(time.Minute)
	if err != nil || len(segments) != 4 {
		t.Fatalf("%d segments, %v; want 4", len(segments), err)
	}
	for i, want := range []int{2, 1, 0, 1} {
		text := string(segments[i])
		if n := strings.Count(text, " --> "); n != want || !strings.HasPrefix(text, playlist.CaptionsHeader) {
			t.Errorf("segment %d has %d cues, want %d:\n%s", i, n, want, text)
		}
	}
}

// No file breaks the reader, and what it writes it reads again.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{srt, clean, "WEBVTT\n\n00:01.000 -->\n", "\xff\xfe1\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		track, err := captions.Read(file)
		if err != nil {
			return
		}
		again, err := captions.Read(track.Whole())
		if err != nil || again.Cues() != track.Cues() {
			t.Errorf("%d cues, read again %d: %v", track.Cues(), again.Cues(), err)
		}
	})
}
