// Package charset converts text in common encodings to UTF-8. Text that is
// Unicode is recognised. All else is a guess, from the bytes and from the languages
// that the text may be in: writings.go has which encodings are tried for each. A text
// that was guessed comes in NFC.
//
// Next: workerrole/internal/feature/captions and webrole/internal/startlist, which read it.
package charset

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/language"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// UTF8 is the name of text that is not changed.
const UTF8 = "utf-8"

// Error says that bytes are no text that can be read. Its text is for the user.
type Error struct {
	Charset string // what the text is in otherwise; "" when that cannot be told
	Line    int    // from 1; 0 when Charset is ""
}

// Error implements error.
func (e *Error) Error() string {
	if e.Charset == "" {
		return "the encoding of the text cannot be told from its bytes: save it as UTF-8 and send it again"
	}
	return fmt.Sprintf("line %d has bytes that are not %s, which the rest of the text is: save it as UTF-8 and send it again", e.Line, e.Charset)
}

// Decode returns a whole text as UTF-8, without a byte order mark, and the WHATWG name
// of its encoding. languages are those that it may be in, the likeliest first. What
// is UTF-8 already is not changed. *Error.
func Decode(file []byte, languages ...language.Tag) ([]byte, string, error) {
	r := NewReader(bytes.NewReader(file), languages...)
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, "", fmt.Errorf("decode text: %w", err)
	}
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && (size == 1 || r.charset != UTF8) {
			return nil, "", &Error{Charset: r.charset, Line: 1 + bytes.Count(text[:i], []byte("\n"))}
		}
		i += size
	}
	return text, r.charset, nil
}

// window is how much of a text its encoding is guessed from: some hundred lines, counted
// from the first byte that is not ASCII, before which most encodings are the same.
const window = 8 << 10

// Reader reads a text as UTF-8 while it comes, in the memory of one window. For bytes
// that are not of the encoding it returns U+FFFD, or in a text in UTF-8 what is
// there. Its errors are *Error, when the encoding cannot be told, and those of the
// source.
type Reader struct {
	source    *bufio.Reader
	languages []language.Tag
	begun     bool
	charset   string
	text      io.Reader // once it is known how to read it
}

// NewReader reads the text of r, see Decode.
func NewReader(r io.Reader, languages ...language.Tag) *Reader {
	return &Reader{source: bufio.NewReaderSize(r, window), languages: languages, charset: UTF8}
}

// Charset is the WHATWG name of the encoding, as far as the text was read.
func (r *Reader) Charset() string { return r.charset }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	for r.text == nil {
		if !r.begun {
			r.begin()
			continue
		}
		if _, err := r.source.Peek(1); err != nil {
			return 0, err //nolint:wrapcheck // that of the source, as it is
		}
		there, _ := r.source.Peek(min(r.source.Buffered(), len(p)))
		n := bytes.IndexFunc(there, func(c rune) bool { return c >= utf8.RuneSelf })
		if n < 0 {
			n = len(there)
		}
		if n > 0 || len(p) == 0 {
			return r.source.Read(p[:n]) //nolint:wrapcheck // from its buffer
		}
		if err := r.decide(); err != nil {
			return 0, err
		}
	}
	return r.text.Read(p) //nolint:wrapcheck // that of the source, as it is
}

// begin looks for what only Unicode begins with: a byte order mark, or two characters
// of ASCII in UTF-16, as captions and lists begin.
func (r *Reader) begin() {
	r.begun = true
	head, _ := r.source.Peek(4) // an error comes again with the next read
	at := func(i int) bool { return i < len(head) && head[i] != 0 }
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		_, _ = r.source.Discard(3)
		r.text = r.source
	case bytes.HasPrefix(head, []byte("\xff\xfe")), len(head) == 4 && at(0) && !at(1) && at(2) && !at(3):
		r.decode(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), "utf-16le")
	case bytes.HasPrefix(head, []byte("\xfe\xff")), len(head) == 4 && !at(0) && at(1) && !at(2) && at(3):
		r.decode(unicode.UTF16(unicode.BigEndian, unicode.UseBOM), "utf-16be")
	}
}

// decide is called at the first byte that is not ASCII.
func (r *Reader) decide() error {
	sample, _ := r.source.Peek(window) // an error comes again with the next read
	if n := bytes.LastIndexAny(sample, "\n ,;"); n >= 0 && len(sample) == window {
		sample = sample[:n+1] // cut after a character: none ends in the first half of another
	}
	if mostlyUTF8(sample) {
		r.text = r.source
		return nil
	}
	from := guess(sample, r.languages)
	if from == nil {
		return &Error{}
	}
	name, _ := htmlindex.Name(from)
	r.decode(from, name)
	r.text = norm.NFC.Reader(r.text) // Vietnamese has the marks of its tones apart
	return nil
}

func (r *Reader) decode(from encoding.Encoding, name string) {
	r.charset = name
	r.text = transform.NewReader(r.source, transform.Chain(from.NewDecoder(), runes.Map(lost)))
}

// lost maps what no text has to what decoders put for a byte that is none: tables of
// single bytes give their holes to the C1 control characters.
func lost(c rune) rune {
	if c >= 0x80 && c < 0xa0 {
		return utf8.RuneError
	}
	return c
}

// mostlyUTF8 is also true for UTF-8 that is damaged here and there, because every
// other reading would be wrong throughout: by chance, bytes of another encoding are
// seldom valid.
func mostlyUTF8(sample []byte) bool {
	valid, letters := bytes.ToValidUTF8(sample, nil), 0
	for _, c := range string(valid) {
		if c >= utf8.RuneSelf {
			letters++
		}
	}
	return letters >= 4*(len(sample)-len(valid))
}
