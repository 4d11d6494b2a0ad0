package charset

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/language"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// The encodings by their WHATWG names, in the order of preference. Each is also for those
// that differ from it in places that hardly any text uses: ISO 8859-1 is read as
// windows-1252, 8859-8 as windows-1255, 8859-9 as windows-1254, 8859-11 as windows-874,
// 8859-16 as windows-1250 (which has ş where it has ș), GBK as GB 18030, and KOI8-R as
// KOI8-U where that is not Russian.
const (
	western  = "windows-1252 iso-8859-15"
	central  = "windows-1250 iso-8859-2"
	cyrillic = "windows-1251 koi8-u iso-8859-5 ibm866"
	baltic   = "windows-1257 iso-8859-13 iso-8859-4"
	arabic   = "windows-1256 iso-8859-6"
)

// A writing is how languages are written.
type writing struct {
	languages string          // BCP 47, separated by spaces
	letters   string          // those beyond ASCII, small ones only; "а-я" is a range
	encodings string          // in the order of preference
	common    rows            // of characters, beside letters
	script    language.Script // of the first language

	atHome func(rune) bool // whether a letter is one of this writing
}

// rows of an encoding of pairs of bytes have the characters that are used most: national
// standards put them before the others.
type rows struct {
	encoding    string
	first, last byte
}

var latin = language.MustParseScript("Latn")

// writings are in the order of preference for a text whose language is not known.
var writings = prepared([]*writing{
	{languages: "de lb", letters: "äöüßéë", encodings: western},
	{languages: "fr", letters: "àâæçèéêëîïôœùûüÿ", encodings: western},
	{languages: "es gl eu", letters: "áéíñóúüç¡¿ªº", encodings: western},
	{languages: "pt", letters: "àáâãçéêíóôõúüªº", encodings: western},
	{languages: "it", letters: "àèéìíîòóùúªº", encodings: western},
	{languages: "ca", letters: "àçèéíïòóúüªº", encodings: western},
	{languages: "nl af", letters: "áàäçèéêëïîíóôöúüû", encodings: western},
	{languages: "sv fi", letters: "åäöéüàšž", encodings: western},
	{languages: "da no nb nn", letters: "æøåéèêóòôäöü", encodings: western},
	{languages: "ru", letters: "а-яё", encodings: "windows-1251 koi8-r iso-8859-5 ibm866"},
	{languages: "uk", letters: "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя", encodings: cyrillic},
	{languages: "bg", letters: "абвгдежзийклмнопрстуфхцчшщъьюя", encodings: cyrillic},
	{languages: "sr", letters: "абвгдђежзијклљмнњопрстћуфхцчџш", encodings: cyrillic},
	{languages: "mk", letters: "абвгдѓежзѕијклљмнњопрстќуфхцчџшѐѝ", encodings: cyrillic},
	{languages: "be", letters: "абвгдеёжзійклмнопрстуўфхцчшыьэюя", encodings: cyrillic},
	{languages: "pl", letters: "ąćęłńóśźż", encodings: central},
	{languages: "cs", letters: "áčďéěíňóřšťúůýž", encodings: central},
	{languages: "sk", letters: "áäčďéíĺľňóôŕšťúýž", encodings: central},
	{languages: "hu", letters: "áéíóöőúüű", encodings: central},
	{languages: "hr bs sr-Latn sl", letters: "čćđšž", encodings: central},
	{languages: "ro", letters: "ăâîşţ", encodings: central},
	{languages: "sq", letters: "çë", encodings: western},
	{languages: "el", letters: "α-ωάέήίόύώϊϋΐΰ", encodings: "windows-1253 iso-8859-7"},
	{languages: "tr", letters: "çğıİöşüâîû", encodings: "windows-1254"},
	{languages: "he yi", letters: "א-ת֑-ׇװ-ײ", encodings: "windows-1255"},
	{languages: "ar", letters: "ء-يً-ْ", encodings: arabic},
	{languages: "fa ur", letters: "ء-يً-ْپچژگکیےٹڈڑں", encodings: arabic},
	{languages: "lt", letters: "ąčęėįšųūž", encodings: baltic},
	{languages: "lv", letters: "āčēģīķļņšūž", encodings: baltic},
	{languages: "et", letters: "äöõüšž", encodings: "windows-1257 windows-1252 iso-8859-13 iso-8859-4 iso-8859-15"},
	{languages: "is fo", letters: "áðéíóúýþæöø", encodings: western},
	{languages: "cy ga gd", letters: "àáâäèéêëìíîïòóôöùúûüŵŷẁẃẅỳýÿ", encodings: "windows-1252 iso-8859-14"},
	{languages: "mt eo", letters: "ċġħżĉĝĥĵŝŭàèìòù", encodings: "iso-8859-3"},
	{languages: "vi", letters: "àáảãạăằắẳẵặâầấẩẫậđèéẻẽẹêềếểễệìíỉĩịòóỏõọôồốổỗộơờớởỡợùúủũụưừứửữựỳýỷỹỵ", encodings: "windows-1258"},
	{languages: "ja", letters: "ぁ-ゖァ-ヶー々〆", encodings: "shift_jis euc-jp", common: rows{"euc-jp", 0xb0, 0xcf}},
	{languages: "ko", letters: "ㄱ-ㅣ", encodings: "euc-kr", common: rows{"euc-kr", 0xb0, 0xc8}},
	{languages: "zh zh-Hans", encodings: "gb18030 big5", common: rows{"gb18030", 0xb0, 0xd7}},
	{languages: "zh-Hant yue", encodings: "big5 gb18030", common: rows{"big5", 0xa4, 0xc6}},
	{languages: "th", letters: "ก-๛", encodings: "windows-874"},
	// Names from many countries, as in lists and in English, which has no letters of its
	// own. The last, because what fits one language fits here, too.
	{languages: "mul", letters: "ßà-öø-ÿœšžªº", encodings: western, script: latin},
})

func prepared(all []*writing) []*writing {
	for _, w := range all {
		if first, _, _ := strings.Cut(w.languages, " "); w.script != latin {
			w.script, _ = language.MustParse(first).Script()
		}
		letters, others := alphabet(w.letters), sync.OnceValue(w.common.characters)
		w.atHome = func(c rune) bool { return letters[c] || others()[c] }
	}
	return all
}

func encodingOf(name string) encoding.Encoding {
	e, err := htmlindex.Get(name)
	if err != nil {
		panic(err)
	}
	if name == "windows-1258" {
		return composed{e}
	}
	return e
}

// alphabet is the letters of a text, with their capitals.
func alphabet(text string) map[rune]bool {
	all := map[rune]bool{}
	letters := []rune(text)
	for i, c := range letters {
		last := c
		if c == '-' {
			c, last = letters[i-1], letters[i+1]
		}
		for ; c <= last; c++ {
			all[c], all[unicode.ToUpper(c)] = true, true
		}
	}
	return all
}

func (r rows) characters() map[rune]bool {
	all := map[rune]bool{}
	if r.encoding == "" {
		return all
	}
	var pairs []byte
	for lead := int(r.first); lead <= int(r.last); lead++ {
		for trail := 0x40; trail < 0xff; trail++ {
			if r.encoding == "big5" && trail < 0x7f || trail > 0xa0 {
				pairs = append(pairs, byte(lead), byte(trail))
			}
		}
	}
	text, _ := encodingOf(r.encoding).NewDecoder().Bytes(pairs) // decoders of x/text replace what they cannot read
	for _, c := range string(text) {
		all[c] = c != utf8.RuneError
	}
	return all
}

// writingsOf are those of a language, its script's first.
func writingsOf(tag language.Tag) (known []*writing) {
	base, _ := tag.Base()
	script, _ := tag.Script()
	for _, w := range writings {
		same := slices.ContainsFunc(strings.Fields(w.languages), func(name string) bool {
			b, _ := language.MustParse(name).Base()
			return b == base
		})
		switch {
		case same && w.script == script:
			known = append([]*writing{w}, known...)
		case same:
			known = append(known, w)
		}
	}
	return known
}

// composed is an encoding that has the marks of its letters after them.
type composed struct{ encoding.Encoding }

// NewDecoder implements encoding.Encoding.
func (c composed) NewDecoder() *encoding.Decoder {
	return &encoding.Decoder{Transformer: transform.Chain(c.Encoding.NewDecoder(), norm.NFC)}
}
