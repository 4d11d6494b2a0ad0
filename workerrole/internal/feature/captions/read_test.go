package captions_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/language"

	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	shared "github.com/cutroom/cutroom/shared/captions"
	"github.com/cutroom/cutroom/shared/charset"
	"github.com/cutroom/cutroom/workerrole/internal/feature/captions"
)

const srt = "1\r\n00:00:01,000 --> 00:00:02,500\r\nGood <i>morning</i>,\r\n& welcome\r\n\r\n2\r\n00:00:59,500 --> 00:01:01,000\r\na --> b\r\n"

const clean = `WEBVTT

00:00:01.000 --> 00:00:02.500
Good morning,
&amp; welcome

00:00:59.500 --> 00:01:01.000
a --&gt; b
`

// Whatever people have is read, and comes out as times and text.
func TestRead(t *testing.T) {
	t.Parallel()
	utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String("1\n00:00:01,000 --> 00:00:02,000\nÜber\n")
	if err != nil {
		t.Fatal(err)
	}
	one := func(text string) string { return "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n" + text + "\n" }
	sent := func(text string) string { return "1\n00:00:01,000 --> 00:00:02,000\n" + text + "\n" }
	later := "\n00:00:03.000 --> 00:00:04.000\nlater\n"
	for name, c := range map[string]struct{ file, want string }{
		"vtt":                   {"WEBVTT - a title\n\nNOTE hidden\n\nSTYLE\n::cue { background: url(https://example.com/spy) }\n\nintro\n00:01.000 --> 00:02.000 align:start\n<v Anna><c.loud>Hello</c></v>\n", one("Hello")},
		"words of WebVTT":       {"WEBVTT\n\n00:01.000 --> 00:02.000\nSTYLE matters\nNOTE this\nRegion: here\n\n7\n00:03.000 --> 00:04.000\nlater\n", one("STYLE matters\nNOTE this\nRegion: here") + later},
		"byte order mark":       {"\ufeffWEBVTT\n\n00:01.000 --> 00:02.000\nx\n", one("x")},
		"UTF-16":                {utf16, one("Über")},
		"Windows-1252":          {sent("\xdcber"), one("Über")},
		"script":                {sent("<script>alert(1)</script>&lt;b&gt;"), one("alert(1)&lt;b&gt;")},
		"out of order":          {"1\n00:00:03,000 --> 00:00:04,000\nlater\n\n2\n00:00:01,000 --> 00:00:02,000\nx\n", one("x") + later},
		"ends before it begins": {"1\n00:00:03,000 --> 00:00:02,000\nno\n\n2\n00:00:01,000 --> 00:00:02,000\nx\n", one("x")},
		"settings":              {"WEBVTT\n\n00:01.000 --> 00:02.000 region:none line:0\nx\n", one("x")},
		"coordinates":           {"1\n00:00:01,000 --> 00:00:02,000  X1:10 X2:20 Y1:3 Y2:4\nx\n", one("x")},
		"control characters":    {sent("x\x00\x1b[31m\ty"), one("x[31m y")},
		"ASS overrides":         {sent("{\\an8}Top <i>it</i> & {\\pos(1,2)\\c&HFFFFFF&}more{\\i0} {y:i}slanted"), one("Top it &amp; more slanted")},
		"braces":                {sent("{a} {\\an8 {b: c} \\o/"), one("{a} {\\an8 {b: c} \\o/")},
		"no tags":               {sent("- 5 < 6 and 7 > 3\nx<y and y>z, a <b and c> d <3 <John> << >> I <laughs>"), one("- 5 &lt; 6 and 7 &gt; 3\nx&lt;y and y&gt;z, a &lt;b and c&gt; d &lt;3 &lt;John&gt; &lt;&lt; &gt;&gt; I &lt;laughs&gt;")},
		"tags":                  {sent(`<img src=x onerror="y"><FONT color="#ff0000" size=3>a</FONT><b>b</b><v.loud Anna Lee>c</v><lang en-GB>d</lang><00:01.500><c.x.y>e</c><ruby>f<rt>g</rt></ruby></><i >h</i >`), one("abcdefgh")},
		"line breaks":           {sent("one<br>two<BR />three"), one("one\ntwo\nthree")},
		"character references":  {sent("&amp;lt;b&amp;gt; &eacute; AT&T"), one("&amp;lt;b&amp;gt; é AT&amp;T")},
		"times of all kinds":    {"1\n0:00:01,0 --> 00:02\nx\n\n2\n0:00:03.0-->0:00:04,00\nlater\n", one("x") + later},
		"no number":             {sent("42") + "\n00:00:03,000 --> 00:00:04,000\nlater\n", one("42") + later},
		"no blank line":         {sent("x") + "2\n00:00:03,000 --> 00:00:04,000\nlater\n", one("x") + later},
		"a blank line inside":   {sent("x\n\ny") + "\n2\n00:00:03,000 --> 00:00:04,000\nlater\n", one("x\ny") + later},
		"a very long line":      {sent(strings.Repeat("&shy;x", 20_000)+"\nend") + "\n2\n00:00:03,000 --> 00:00:04,000\nlater\n", one(strings.Repeat("\u00adx", 1000)) + later},
	} {
		track, err := captions.Read([]byte(c.file), language.English)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, string(track.Text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	track, err := captions.Read([]byte(srt), language.English)
	if err != nil || track.Cues != 2 || string(track.Text) != clean || track.LeftOut != 0 {
		t.Errorf("SRT: %v, %d cues:\n%s", err, track.Cues, track.Text)
	}
	again, err := captions.Read(track.Text, language.English)
	if err != nil || !bytes.Equal(again.Text, track.Text) {
		t.Errorf("read again: %v\n%s", err, again.Text)
	}
}

// The language that was sent says which encoding older files are in.
func TestLanguages(t *testing.T) {
	t.Parallel()
	const times = "00:00:01,000 --> 00:00:02,000\r\n"
	for name, c := range map[string]struct{ file, language, want, charset string }{
		"Russian": {"1\r\n" + times + "\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0\r\n", "ru", "Привет мир", "windows-1251"},
		"Polish":  {times + "Wa\xb3\xeasa\r\n", "pl-PL", "Wałęsa", "windows-1250"},
		"Chinese": {times + "\xc4\xe3\xba\xc3\r\n", "zh", "你好", "gb18030"},
		"Taiwan":  {times + "\xa7A\xa6n\r\n", "zh-TW", "你好", "big5"},
		"UTF-8":   {times + "Привет\r\n", "de", "Привет", "utf-8"},
	} {
		track, err := captions.Read([]byte(c.file), language.MustParse(c.language))
		if err != nil || !strings.HasSuffix(string(track.Text), "\n"+c.want+"\n") || track.Charset != c.charset {
			t.Errorf("%s: %v, read as %s:\n%s", name, err, track.Charset, track.Text)
		}
	}
	var refused *charset.Error
	if _, err := captions.Read([]byte("\ufeff1\n"+times+"\xdcber\n"), language.German); !errors.As(err, &refused) || refused.Line != 3 {
		t.Errorf("damaged: %v, want line 3", err)
	}
}

// What is not kept is counted: cues without a time to show them, and text that is cut.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file          string
		cues, leftOut int
	}{
		"all kept":            {srt + "\n3\n00:00:59,500 --> 00:01:01,000\n<i> </i>\n", 2, 0},
		"backwards and empty": {srt + "\n3\n00:00:05,000 --> 00:00:04,000\nx\n\n4\n00:00:05,000 --> 00:00:04,000\n\n", 2, 1},
		"after a day":         {srt + "\n3\n25:00:05,000 --> 25:00:06,000\nx\n", 2, 1},
		"long":                {srt + "\n3\n00:00:05,000 --> 00:00:06,000\n" + strings.Repeat("x", 2001) + "\n", 3, 1},
		"just not too long":   {srt + "\n3\n00:00:05,000 --> 00:00:06,000\n" + strings.Repeat("x", 2000) + "\n", 3, 0},
	} {
		track, err := captions.Read([]byte(c.file), language.English)
		if err != nil || track.Cues != c.cues || track.LeftOut != c.leftOut {
			t.Errorf("%s: %d cues, %d left out, %v; want %d and %d", name, track.Cues, track.LeftOut, err, c.cues, c.leftOut)
		}
	}
}

// Who sent what cannot be read is told why.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, says string }{
		"nothing":               {"", "no line such as"},
		"header only":           {"WEBVTT\n", "no line such as"},
		"prose":                 {"hello\nworld\n", "no line such as"},
		"no end":                {"1\n00:00:01,000 -->\nx\n", "the times in line 2 are not like"},
		"vtt, no end":           {"WEBVTT\n\n00:01.000 -->\nx\n", "the times in line 3 are not like"},
		"a letter in a time":    {srt + "00:00:0l,000 --> 00:00:02,000\nx\n", "the times in line 9 are not like"},
		"a semicolon in a time": {srt + "00:00:01;000 --> 00:00:02,000\nx\n", "the times in line 9 are not like"},
		"microseconds":          {srt + "00:00:01,000000 --> 00:00:02,000000\nx\n", "the times in line 9 are not like"},
		"binary":                {"\x1a\x45\xdf\xa3\x00\x00", ""},
		"too large":             {"WEBVTT\n" + strings.Repeat("x", shared.MaxBytes), "larger than"},
		"backwards":             {"1\n00:00:02,000 --> 00:00:01,000\nx\n", "end before they begin"},
		"too many":              {strings.Repeat("00:01 --> 00:02\nx\n", 20_001), "more than 20000"},
	} {
		_, err := captions.Read([]byte(c.file), language.English)
		var undecodable *charset.Error
		if name == "binary" && errors.As(err, &undecodable) {
			continue
		}
		if !errors.Is(err, captions.ErrUnreadable) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want ErrUnreadable that says %q", name, err, c.says)
		}
	}
}

// A cue of a million tags is read in time and memory that its size explains.
func TestManyTags(t *testing.T) {
	t.Parallel()
	file := "1\n00:00:01,000 --> 00:00:02,000\n" + strings.Repeat(strings.Repeat("<<b>b>x", 1000)+"\n", shared.MaxBytes/7001)
	began := time.Now()
	if track, err := captions.Read([]byte(file), language.English); err != nil || track.Cues != 1 {
		t.Errorf("%d cues, %v; want 1", track.Cues, err)
	}
	if took := time.Since(began); took > azuritetest.Patience(20*time.Second) {
		t.Errorf("read after %v", took)
	}
}

// No file breaks the reader, and what it writes it reads again as it is. A text may look
// like an override when the one inside it is taken out.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		srt, clean, "WEBVTT\n\n00:01.000 -->\n", "\xff\xfe1\x00",
		"00:01 --> 00:02\n{\\an8}5 < 6 <b>&amp;lt;</b>\n", "00:01 --> 00:02\n\xcf\xf0\xe8\xe2\xe5\xf2\n", "1\n0:0:1,5-->0:0:2\nx\n2\n0:3 --> 0:4\ny\n",
	} {
		f.Add([]byte(seed), "ru")
	}
	f.Fuzz(func(t *testing.T, file []byte, tag string) {
		track, err := captions.Read(file, language.Make(tag))
		if err != nil {
			return
		}
		whole := track.Text
		again, err := captions.Read(whole, language.Make(tag))
		if bytes.Contains(whole, []byte("{")) {
			return
		}
		if err != nil || !bytes.Equal(again.Text, whole) || again.LeftOut != 0 {
			t.Errorf("%q, read again %q: %v", whole, again.Text, err)
		}
	})
}
