package charset

import (
	"slices"
	"sync"
	"unicode"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/unicode/rangetable"
)

// The encodings of languages, in the order of preference. Each is also for those
// that differ from it in places that hardly any text uses: ISO 8859-1 is read as
// windows-1252, 8859-8 as windows-1255, 8859-9 as windows-1254, 8859-11 as windows-874,
// 8859-16 as windows-1250 (which has ş where it has ș), GBK as GB 18030, and KOI8-R as
// KOI8-U where that is not Russian.
var (
	western  = encodings{charmap.Windows1252, charmap.ISO8859_15}
	central  = encodings{charmap.Windows1250, charmap.ISO8859_2}
	cyrillic = encodings{charmap.Windows1251, charmap.KOI8U, charmap.ISO8859_5, charmap.CodePage866}
	russian  = encodings{charmap.Windows1251, charmap.KOI8R, charmap.ISO8859_5, charmap.CodePage866}
	baltic   = encodings{charmap.Windows1257, charmap.ISO8859_13, charmap.ISO8859_4}
	estonian = slices.Concat(encodings{charmap.Windows1257}, western[:1], baltic[1:], western[1:])
)

type encodings = []encoding.Encoding

// A writing is how languages are written.
type writing struct {
	languages string              // BCP 47, separated by spaces
	letters   *unicode.RangeTable // those beyond ASCII, small ones only
	encodings encodings           // in the order of preference
}

// writings are in the order of preference for a text whose language is not known.
var writings = sync.OnceValue(func() []writing {
	return []writing{
		{"de lb", of("äöüßéë"), western},
		{"fr", of("àâæçèéêëîïôœùûüÿ"), western},
		{"es gl eu", of("áéíñóúüç¡¿ªº"), western},
		{"pt", of("àáâãçéêíóôõúüªº"), western},
		{"it", of("àèéìíîòóùúªº"), western},
		{"ca", of("àçèéíïòóúüªº"), western},
		{"nl af", of("áàäçèéêëïîíóôöúüû"), western},
		{"sv fi", of("åäöéüàšž"), western},
		{"da no nb nn", of("æøåéèêóòôäöü"), western},
		{"ru", of("абвгдеёжзийклмнопрстуфхцчшщъыьэюя"), russian},
		{"uk", of("абвгґдеєжзиіїйклмнопрстуфхцчшщьюя"), cyrillic},
		{"bg", of("абвгдежзийклмнопрстуфхцчшщъьюя"), cyrillic},
		{"sr", of("абвгдђежзијклљмнњопрстћуфхцчџш"), cyrillic},
		{"mk", of("абвгдѓежзѕијклљмнњопрстќуфхцчџшѐѝ"), cyrillic},
		{"be", of("абвгдеёжзійклмнопрстуўфхцчшыьэюя"), cyrillic},
		{"pl", of("ąćęłńóśźż"), central},
		{"cs", of("áčďéěíňóřšťúůýž"), central},
		{"sk", of("áäčďéíĺľňóôŕšťúýž"), central},
		{"hu", of("áéíóöőúüű"), central},
		{"hr bs sr-Latn sl", of("čćđšž"), central},
		{"ro", of("ăâîşţ"), central},
		{"sq", of("çë"), western},
		{"el", unicode.Greek, encodings{charmap.Windows1253, charmap.ISO8859_7}},
		{"tr", of("çğıİöşüâîû"), encodings{charmap.Windows1254}},
		{"he yi", unicode.Hebrew, encodings{charmap.Windows1255}},
		{"ar fa ur", unicode.Arabic, encodings{charmap.Windows1256, charmap.ISO8859_6}},
		{"lt", of("ąčęėįšųūž"), baltic},
		{"lv", of("āčēģīķļņšūž"), baltic},
		{"et", of("äöõüšž"), estonian},
		{"is fo", of("áðéíóúýþæöø"), western},
		{"cy ga gd", of("àáâäèéêëìíîïòóôöùúûüŵŷẁẃẅỳýÿ"), encodings{charmap.Windows1252, charmap.ISO8859_14}},
		{"mt eo", of("ċġħżĉĝĥĵŝŭàèìòù"), encodings{charmap.ISO8859_3}},
		{"vi", of("àáảãạăằắẳẵặâầấẩẫậđèéẻẽẹêềếểễệìíỉĩịòóỏõọôồốổỗộơờớởỡợùúủũụưừứửữựỳýỷỹỵ"), encodings{charmap.Windows1258}},
		{"ja", rangetable.Merge(unicode.Hiragana, unicode.Katakana, of("ー々〆"), rows(japanese.EUCJP, 0xb0, 0xcf, 0xa1)),
			encodings{japanese.ShiftJIS, japanese.EUCJP}},
		{"ko", rangetable.Merge(rows(korean.EUCKR, 0xa4, 0xa4, 0xa1), rows(korean.EUCKR, 0xb0, 0xc8, 0xa1)),
			encodings{korean.EUCKR}},
		{"zh", rows(simplifiedchinese.GB18030, 0xb0, 0xd7, 0xa1),
			encodings{simplifiedchinese.GB18030, traditionalchinese.Big5}},
		{"zh-Hant yue", rows(traditionalchinese.Big5, 0xa4, 0xc6, 0x40),
			encodings{traditionalchinese.Big5, simplifiedchinese.GB18030}},
		{"th", unicode.Thai, encodings{charmap.Windows874}},
		// Names from many countries, as in lists and in English, which has no letters of its
		// own. The last, because what fits one language fits here, too.
		{"mul", of("ßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿœšžªº"), western},
	}
})

func of(letters string) *unicode.RangeTable { return rangetable.New([]rune(letters)...) }

// rows of an encoding of pairs of bytes have the characters that are used most: national
// standards put them before the others.
func rows(e encoding.Encoding, lead, last, trail byte) *unicode.RangeTable {
	var pairs []byte
	for ; lead <= last; lead++ {
		for second := trail; second < 0xff; second++ {
			pairs = append(pairs, lead, second)
		}
	}
	text, _ := e.NewDecoder().Bytes(pairs) // decoders of x/text replace what they cannot read
	return of(string(text))
}
