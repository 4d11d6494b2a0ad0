package charset

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/language"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// The encodings, each also for those that differ from it in places that hardly any text
// uses: ISO 8859-1 is read as windows-1252, 8859-8 as windows-1255, 8859-9 as
// windows-1254, 8859-11 as windows-874, 8859-16 as windows-1250 (which has ş where it
// has ș), GBK as GB 18030, and KOI8-R as KOI8-U where that is not Russian.
var (
	windows1250 = &candidate{"windows-1250", charmap.Windows1250}
	windows1251 = &candidate{"windows-1251", charmap.Windows1251}
	windows1252 = &candidate{"windows-1252", charmap.Windows1252}
	windows1253 = &candidate{"windows-1253", charmap.Windows1253}
	windows1254 = &candidate{"windows-1254", charmap.Windows1254}
	windows1255 = &candidate{"windows-1255", charmap.Windows1255}
	windows1256 = &candidate{"windows-1256", charmap.Windows1256}
	windows1257 = &candidate{"windows-1257", charmap.Windows1257}
	windows1258 = &candidate{"windows-1258", composed{charmap.Windows1258}}
	windows874  = &candidate{"windows-874", charmap.Windows874}
	iso2        = &candidate{"iso-8859-2", charmap.ISO8859_2}
	iso3        = &candidate{"iso-8859-3", charmap.ISO8859_3}
	iso4        = &candidate{"iso-8859-4", charmap.ISO8859_4}
	iso5        = &candidate{"iso-8859-5", charmap.ISO8859_5}
	iso6        = &candidate{"iso-8859-6", charmap.ISO8859_6}
	iso7        = &candidate{"iso-8859-7", charmap.ISO8859_7}
	iso13       = &candidate{"iso-8859-13", charmap.ISO8859_13}
	iso14       = &candidate{"iso-8859-14", charmap.ISO8859_14}
	iso15       = &candidate{"iso-8859-15", charmap.ISO8859_15}
	koi8r       = &candidate{"koi8-r", charmap.KOI8R}
	koi8u       = &candidate{"koi8-u", charmap.KOI8U}
	ibm866      = &candidate{"ibm866", charmap.CodePage866}
	shiftJIS    = &candidate{"shift_jis", japanese.ShiftJIS}
	eucJP       = &candidate{"euc-jp", japanese.EUCJP}
	eucKR       = &candidate{"euc-kr", korean.EUCKR}
	gb18030     = &candidate{"gb18030", simplifiedchinese.GB18030}
	big5        = &candidate{"big5", traditionalchinese.Big5}

	western  = []*candidate{windows1252, iso15}
	central  = []*candidate{windows1250, iso2}
	cyrillic = []*candidate{windows1251, koi8u, iso5, ibm866}
	baltic   = []*candidate{windows1257, iso13, iso4}
	arabic   = []*candidate{windows1256, iso6}
)

// A writing is how languages are written.
type writing struct {
	languages  string       // BCP 47, separated by spaces
	letters    string       // those beyond ASCII, small ones only; "а-я" is a range
	candidates []*candidate // the encodings, in the order of preference

	script language.Script // of the first language
	atHome func(rune) bool // whether a letter is one of this writing
}

var latin = language.MustParseScript("Latn")

// writings are in the order of preference for a text whose language is not known.
var writings = prepared([]*writing{
	{languages: "de lb", letters: "äöüßéë", candidates: western},
	{languages: "fr", letters: "àâæçèéêëîïôœùûüÿ", candidates: western},
	{languages: "es gl eu", letters: "áéíñóúüç¡¿ªº", candidates: western},
	{languages: "pt", letters: "àáâãçéêíóôõúüªº", candidates: western},
	{languages: "it", letters: "àèéìíîòóùúªº", candidates: western},
	{languages: "ca", letters: "àçèéíïòóúüªº", candidates: western},
	{languages: "nl af", letters: "áàäçèéêëïîíóôöúüû", candidates: western},
	{languages: "sv fi", letters: "åäöéüàšž", candidates: western},
	{languages: "da no nb nn", letters: "æøåéèêóòôäöü", candidates: western},
	{languages: "ru", letters: "а-яё", candidates: []*candidate{windows1251, koi8r, iso5, ibm866}},
	{languages: "uk", letters: "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя", candidates: cyrillic},
	{languages: "bg", letters: "абвгдежзийклмнопрстуфхцчшщъьюя", candidates: cyrillic},
	{languages: "sr", letters: "абвгдђежзијклљмнњопрстћуфхцчџш", candidates: cyrillic},
	{languages: "mk", letters: "абвгдѓежзѕијклљмнњопрстќуфхцчџшѐѝ", candidates: cyrillic},
	{languages: "be", letters: "абвгдеёжзійклмнопрстуўфхцчшыьэюя", candidates: cyrillic},
	{languages: "pl", letters: "ąćęłńóśźż", candidates: central},
	{languages: "cs", letters: "áčďéěíňóřšťúůýž", candidates: central},
	{languages: "sk", letters: "áäčďéíĺľňóôŕšťúýž", candidates: central},
	{languages: "hu", letters: "áéíóöőúüű", candidates: central},
	{languages: "hr bs sr-Latn sl", letters: "čćđšž", candidates: central},
	{languages: "ro", letters: "ăâîşţ", candidates: central},
	{languages: "sq", letters: "çë", candidates: western},
	{languages: "el", letters: "α-ωάέήίόύώϊϋΐΰ", candidates: []*candidate{windows1253, iso7}},
	{languages: "tr", letters: "çğıİöşüâîû", candidates: []*candidate{windows1254}},
	{languages: "he yi", letters: "א-ת֑-ׇװ-ײ", candidates: []*candidate{windows1255}},
	{languages: "ar", letters: "ء-يً-ْ", candidates: arabic},
	{languages: "fa ur", letters: "ء-يً-ْپچژگکیےٹڈڑں", candidates: arabic},
	{languages: "lt", letters: "ąčęėįšųūž", candidates: baltic},
	{languages: "lv", letters: "āčēģīķļņšūž", candidates: baltic},
	{languages: "et", letters: "äöõüšž", candidates: []*candidate{windows1257, windows1252, iso13, iso4, iso15}},
	{languages: "is fo", letters: "áðéíóúýþæöø", candidates: western},
	{languages: "cy ga gd", letters: "àáâäèéêëìíîïòóôöùúûüŵŷẁẃẅỳýÿ", candidates: []*candidate{windows1252, iso14}},
	{languages: "mt eo", letters: "ċġħżĉĝĥĵŝŭàèìòù", candidates: []*candidate{iso3}},
	{languages: "vi", letters: "àáảãạăằắẳẵặâầấẩẫậđèéẻẽẹêềếểễệìíỉĩịòóỏõọôồốổỗộơờớởỡợùúủũụưừứửữựỳýỷỹỵ", candidates: []*candidate{windows1258}},
	{languages: "ja", letters: "ぁ-ゖァ-ヶー々〆", candidates: []*candidate{shiftJIS, eucJP}, atHome: common(eucJP, 0xb0, 0xcf)},
	{languages: "ko", letters: "ㄱ-ㅣ", candidates: []*candidate{eucKR}, atHome: common(eucKR, 0xb0, 0xc8)},
	{languages: "zh zh-Hans", candidates: []*candidate{gb18030, big5}, atHome: common(gb18030, 0xb0, 0xd7)},
	{languages: "zh-Hant yue", candidates: []*candidate{big5, gb18030}, atHome: common(big5, 0xa4, 0xc6)},
	{languages: "th", letters: "ก-๛", candidates: []*candidate{windows874}},
	// Names from many countries, as in lists and in English, which has no letters of its
	// own. The last, because what fits one language fits here, too.
	{languages: "mul", letters: "ßà-öø-ÿœšžªº", candidates: western, script: latin},
})

func prepared(all []*writing) []*writing {
	for _, w := range all {
		if first, _, _ := strings.Cut(w.languages, " "); w.script != latin {
			w.script, _ = language.MustParse(first).Script()
		}
		letters, others := alphabet(w.letters), w.atHome
		w.atHome = func(c rune) bool { return letters[c] || others != nil && others(c) }
	}
	return all
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

// common returns whether a character is one of those that are used most: national
// standards have them in rows of their own, before the others.
func common(of *candidate, first, last byte) func(rune) bool {
	set := sync.OnceValue(func() map[rune]bool {
		var pairs []byte
		for lead := int(first); lead <= int(last); lead++ {
			for trail := 0x40; trail < 0xff; trail++ {
				if of == big5 && trail < 0x7f || trail > 0xa0 {
					pairs = append(pairs, byte(lead), byte(trail))
				}
			}
		}
		all := map[rune]bool{}
		text, err := of.encoding.NewDecoder().Bytes(pairs)
		if err == nil {
			for _, c := range string(text) {
				all[c] = true
			}
		}
		delete(all, utf8.RuneError)
		return all
	})
	return func(c rune) bool { return set()[c] }
}

// writingsOf are those of a language, its script's first, or else those of its script.
func writingsOf(tag language.Tag) []*writing {
	base, _ := tag.Base()
	script, _ := tag.Script()
	var same, others, ofScript []*writing
	for _, w := range writings {
		known := false
		for name := range strings.FieldsSeq(w.languages) {
			b, _ := language.MustParse(name).Base()
			known = known || b == base
		}
		switch {
		case known && w.script == script:
			same = append(same, w)
		case known:
			others = append(others, w)
		case w.script == script && script != latin:
			ofScript = append(ofScript, w)
		}
	}
	if len(same)+len(others) == 0 {
		return ofScript
	}
	return append(same, others...)
}

// composed is an encoding that has the marks of its letters after them.
type composed struct{ encoding.Encoding }

// NewDecoder implements encoding.Encoding.
func (c composed) NewDecoder() *encoding.Decoder {
	return &encoding.Decoder{Transformer: transform.Chain(c.Encoding.NewDecoder(), norm.NFC)}
}
