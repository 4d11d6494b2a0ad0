package charset

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/wlynxg/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/language"
)

// How much of what is not ASCII must be at home in a language: in one that the sender
// named, and in any. The rest are names from elsewhere.
const (
	expected  = 0.75
	plausible = 0.9
)

type candidate struct {
	name     string
	encoding encoding.Encoding
}

// guess returns how to read a sample, or nil:
//
//  1. in one of the languages, the first that it fits;
//  2. as the detector says, which knows letters other than Latin well, if that is
//     plausible in a language;
//  3. in the language that it fits best, the first of those that are alike.
func guess(sample []byte, languages []language.Tag) *candidate {
	detected := sync.OnceValue(func() []chardet.Result { return chardet.DetectAll(sample) })
	for _, tag := range languages {
		for _, w := range writingsOf(tag) {
			if best, share := w.best(sample, detected); share >= expected {
				return best
			}
		}
	}
	for _, result := range detected() {
		for _, w := range writings {
			i := slices.IndexFunc(w.candidates, func(c *candidate) bool { return sameEncoding(c.name, result.Encoding) })
			if i >= 0 && w.script != latin && w.fit(w.candidates[i].read(sample)).share >= plausible {
				return w.candidates[i]
			}
		}
	}
	var best *candidate
	most := 0.0
	for _, w := range writings {
		if c, share := w.best(sample, detected); share > most {
			best, most = c, share
		}
	}
	if most < plausible {
		return nil
	}
	return best
}

// best is the encoding in which a sample fits a language best. Of those in which it
// fits alike, such as Cyrillic in capitals and in small letters, it is the detector's
// choice, else the first.
func (w *writing) best(sample []byte, detected func() []chardet.Result) (*candidate, float64) {
	var alikes []*candidate
	var most fitting
	read := map[string]bool{}
	for _, c := range w.candidates {
		text := c.read(sample)
		fits := w.fit(text)
		if fits.more(most) {
			alikes, most = nil, fits
			clear(read)
		}
		if fits == most && fits.share > 0 && !read[text] {
			alikes = append(alikes, c)
			read[text] = true
		}
	}
	if len(alikes) == 0 {
		return nil, 0
	}
	if len(alikes) > 1 {
		for _, result := range detected() {
			if i := slices.IndexFunc(alikes, func(c *candidate) bool { return sameEncoding(c.name, result.Encoding) }); i >= 0 {
				return alikes[i], most.share
			}
		}
	}
	return alikes[0], most.share
}

// read decodes a sample; "" when some of it is not of this encoding.
func (c *candidate) read(sample []byte) string {
	text, err := c.encoding.NewDecoder().Bytes(sample)
	if err != nil {
		return ""
	}
	no := func(c rune) bool { return lost(c) == utf8.RuneError || unicode.Is(unicode.Co, c) }
	if strings.ContainsFunc(string(text), no) {
		return ""
	}
	return string(text)
}

// fitting is how well a reading fits a language: which part of the letters that are not
// ASCII are such as the language has, in places where it has them, and how many are.
type fitting struct{ share, home float64 }

func (f fitting) more(than fitting) bool {
	return f.share > than.share || f.share == than.share && f.home > than.home
}

func (w *writing) fit(text string) fitting {
	if text == "" {
		return fitting{}
	}
	home, foreign := 0.0, 0.0
	before, run := '\n', 0
	letters := []rune(text)
	for i, c := range letters {
		after := '\n'
		if i+1 < len(letters) {
			after = letters[i+1]
		}
		if (c >= utf8.RuneSelf || before >= utf8.RuneSelf) && unicode.IsLower(before) && unicode.IsUpper(c) {
			foreign++
		}
		run++
		switch {
		case c < utf8.RuneSelf:
			run = 0
		case halfWidth(c):
			home, foreign = home+0.95, foreign+0.05
		case w.atHome(c) && w.among(c, before, after, run):
			home++
		case ofWord(c), misplaced(c, before, after):
			foreign++
		}
		before = c
	}
	if home+foreign == 0 {
		return fitting{share: 1}
	}
	return fitting{share: home / (home + foreign), home: home}
}

// among says whether a letter may stand where it does: a mark has a letter before it,
// few Latin letters that are not ASCII are side by side, others are not mixed with ASCII.
func (w *writing) among(c, before, after rune, run int) bool {
	if unicode.IsMark(c) && !ofWord(before) {
		return false
	}
	if w.script == latin {
		return run <= 4
	}
	ascii := func(c rune) bool { return c < utf8.RuneSelf && unicode.IsLetter(c) }
	return !ascii(before) && !ascii(after)
}

func ofWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsMark(c) }

// halfWidth is katakana as there is some in Shift JIS. In it, most pairs of bytes of
// other encodings look like that, too.
func halfWidth(c rune) bool { return c >= '\uff61' && c <= '\uff9f' }

// misplaced says that a quotation mark stands inside a word, or a symbol at one.
func misplaced(c, before, after rune) bool {
	inside := ofWord(before) && ofWord(after)
	switch {
	case strings.ContainsRune("’·–—…־׳״\u00a0\u00ad\u200c\u200d\u200e\u200f", c), c >= '\u3000' && c < '\u3040', c >= '\uff00' && c < '\uff61':
		return false
	case strings.ContainsRune("“”„‚‘«»‹›•§°™®©€£", c):
		return inside
	case strings.ContainsRune("²³", c) && before == 'm':
		return inside
	}
	return ofWord(before) || ofWord(after)
}

// sameEncoding says whether two names are of one encoding, or of one and its extension.
func sameEncoding(a, b string) bool { return canonical(a) == canonical(b) }

// extensions are of encodings that hold another one.
var extensions = map[string]string{
	"koi8-r": "koi8-u", "gbk": "gb18030", "cp949": "euc-kr", "cp932": "shift_jis", "iso-8859-8": "windows-1255",
}

func canonical(name string) string {
	name = strings.ToLower(name)
	if found, err := htmlindex.Get(name); err == nil {
		name, _ = htmlindex.Name(found)
	}
	return cmp.Or(extensions[name], name)
}
