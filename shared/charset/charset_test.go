package charset_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/cutroom/cutroom/shared/charset"
)

// sentences are of films and of the Universal Declaration of Human Rights, with the
// encodings that are used for their language.
var sentences = []struct{ language, text, encodings string }{
	{"de", "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Schöne Grüße!", "windows-1252 iso-8859-15"},
	{"fr", "Tous les êtres humains naissent libres et égaux en dignité. Où ça ? À l’hôtel.", "windows-1252"},
	{"es", "¿Qué pasó mañana? ¡Nada, señor! El niño comió un pingüino.", "windows-1252 iso-8859-15"},
	{"pt-BR", "Todos os seres humanos nascem livres. Não há amanhã, coração: é só pão e água.", "windows-1252 iso-8859-15"},
	{"it", "Perché no? È così, più o meno: la libertà è là, e la città pure.", "windows-1252 iso-8859-15"},
	{"nl", "Hij is beïnvloed door één idee; België coördineert. Zoë reëel.", "windows-1252 iso-8859-15"},
	{"sv", "Alla människor är födda fria. Får får får? Nej, får får lamm på ön.", "windows-1252 iso-8859-15"},
	{"fi", "Kaikki ihmiset syntyvät vapaina. Hyvää yötä, äiti, älä itke täällä.", "windows-1252 iso-8859-15"},
	{"da", "Alle mennesker er født frie. Rødgrød med fløde på øen, så ærligt.", "windows-1252 iso-8859-15"},
	{"is", "Hver maður er borinn frjáls. Þetta er ágætt, það er góð bók og öðruvísi.", "windows-1252 iso-8859-15"},
	{"pl", "Wszyscy ludzie rodzą się wolni. Zażółć gęślą jaźń, proszę – „źle”.", "windows-1250"},
	{"pl", "Wszyscy ludzie rodzą się wolni. Zażółć gęślą jaźń, proszę.", "windows-1250 iso-8859-2"},
	{"cs", "Všichni lidé rodí se svobodní. Příliš žluťoučký kůň úpěl ďábelské ódy.", "windows-1250 iso-8859-2"},
	{"sk", "Všetci ľudia sa rodia slobodní. Kŕdeľ šťastných ďatľov učí koňa žrať kôru.", "windows-1250 iso-8859-2"},
	{"hu", "Minden emberi lény szabadon születik. Árvíztűrő tükörfúrógép, őszintén.", "windows-1250 iso-8859-2"},
	{"hr", "Sva ljudska bića rađaju se slobodna. Čaša šljivovice, žena i đak.", "windows-1250 iso-8859-2"},
	{"sr-Latn", "Sva ljudska bića rađaju se slobodna. Čaša šljivovice, žena i đak.", "windows-1250 iso-8859-2"},
	{"sl", "Vsi ljudje se rodijo svobodni. Češnje so že zrele, šola je končana.", "windows-1250 iso-8859-2"},
	{"ro", "Toate fiinţele umane se nasc libere. Să mergem înainte, fraţilor, şi atât.", "windows-1250 iso-8859-2"},
	{"ru", "Все люди рождаются свободными. Съешь ещё этих мягких французских булок.", "windows-1251 koi8-r iso-8859-5 ibm866"},
	{"uk", "Всі люди народжуються вільними. Чуєш їх, доцю, га? Їжак з’їв яблуко є.", "windows-1251"},
	{"uk", "Всі люди народжуються вільними. Чуєш їх, доцю, га? Їжак має яблуко.", "windows-1251 koi8-u iso-8859-5"},
	{"be", "Усе людзі нараджаюцца свабоднымі. Ён ішоў у ўзлесак, дзе быў ручай.", "windows-1251 koi8-u iso-8859-5"},
	{"bg", "Всички хора се раждат свободни. Ах, чудна българска земьо, полюшвай цъфтящи жита.", "windows-1251 iso-8859-5"},
	{"sr", "Сва људска бића рађају се слободна. Љубазни фењерџија чађавог лица.", "windows-1251 iso-8859-5"},
	{"mk", "Сите човечки суштества се раѓаат слободни. Ќерка ми љуби џем и ѕвезди.", "windows-1251 iso-8859-5"},
	{"el", "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι. Καλημέρα, τι κάνεις; Ξεσκεπάζω την ψυχή.", "windows-1253 iso-8859-7"},
	{"tr", "Bütün insanlar hür doğar. Işık, çağrı, şöyle böyle: İstanbul'da gün ağarıyor.", "windows-1254 iso-8859-9"},
	{"he", "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.", "windows-1255 iso-8859-8"},
	{"ar", "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق، وقد وهبوا عقلا.", "windows-1256 iso-8859-6"},
	{"fa", "تمام افراد بشر آزاد به دنيا مي\u200cآيند. چه کسي پنجره را گشود؟", "windows-1256"},
	{"lt", "Visi žmonės gimsta laisvi. Įlinkdama fechtuotojo špaga sublykčiojusi pragręžė apvalų arbūzą.", "windows-1257 iso-8859-13 iso-8859-4"},
	{"lv", "Visi cilvēki piedzimst brīvi un vienlīdzīgi. Ģimenē žēl, ka ķēniņš aizgāja čukstot.", "windows-1257 iso-8859-13 iso-8859-4"},
	{"et", "Kõik inimesed sünnivad vabadena. Põdur Zagrebi tšellomängija-följetonist Ciqo külmetas kehvas garaažis.", "windows-1257 iso-8859-13 iso-8859-4 windows-1252"},
	{"vi", "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm. Cảm ơn bạn!", "windows-1258"},
	{"th", "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน", "windows-874"},
	{"ja", "すべての人間は、生まれながらにして自由であり、尊厳と権利とについて平等である。", "shift_jis euc-jp"},
	{"ko", "모든 인간은 태어날 때부터 자유로우며 존엄과 권리에 있어 동등하다.", "euc-kr"},
	{"zh", "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心。", "gbk gb18030"},
	{"zh-Hant-TW", "人人生而自由,在尊嚴和權利上一律平等。他們賦有理性和良心。", "big5 gb18030"},
	{"yue", "人人生而自由,在尊嚴和權利上一律平等。佢哋賦有理性和良心。", "gb18030"},
	{"mt", "Il-bnedmin kollha jitwieldu ħielsa u ugwali. Ġgant żgħir, ċar.", "iso-8859-3"},
	{"cy", "Genir pawb yn rhydd. Mae'r dŵr yn y tŷ, a'r ŷd yn y maes; môr a thân.", "iso-8859-14"},
}

// encoded is a text in an encoding, made by x/text.
func encoded(t *testing.T, name, text string) []byte {
	t.Helper()
	e, err := htmlindex.Get(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if name == "windows-1258" {
		text = marksApart(text)
	}
	raw, err := e.NewEncoder().Bytes([]byte(text))
	if err != nil {
		t.Fatalf("%s in %s: %v", text, name, err)
	}
	return raw
}

// marksApart writes Vietnamese as windows-1258 does: the mark of the tone follows.
func marksApart(text string) string {
	var out strings.Builder
	for _, c := range text {
		shape, tone := "", ""
		for _, part := range norm.NFD.String(string(c)) {
			if strings.ContainsRune("\u0300\u0301\u0303\u0309\u0323", part) {
				tone += string(part)
			} else {
				shape += string(part)
			}
		}
		out.WriteString(norm.NFC.String(shape) + tone)
	}
	return out.String()
}

// subtitle is a sentence as it comes: most of a file of captions is ASCII.
func subtitle(text string) string {
	return "1\r\n00:00:01,000 --> 00:00:02,000\r\n" + text + "\r\n"
}

// What people wrote comes back from every encoding that their language is written in.
func TestSentences(t *testing.T) {
	t.Parallel()
	for _, s := range sentences {
		text := subtitle(s.text)
		for name := range strings.FieldsSeq(s.encodings) {
			got, as, err := charset.Decode(encoded(t, name, text), language.MustParse(s.language))
			if err != nil || string(got) != text {
				t.Errorf("%s in %s was read as %s: %v\n%s", s.language, name, as, err, got)
			}
		}
	}
}

// Without a language, or with a wrong one, most can still be told from the letters.
func TestSentencesOfAnyLanguage(t *testing.T) {
	t.Parallel()
	for _, s := range sentences {
		for name := range strings.FieldsSeq(s.encodings) {
			what := s.language + " in " + name
			for _, hint := range [][]language.Tag{nil, {language.English}, {language.MustParse("sw"), language.Hindi}} {
				got, as, err := charset.Decode(encoded(t, name, subtitle(s.text)), hint...)
				if right := err == nil && string(got) == subtitle(s.text); !right {
					t.Errorf("%s with %v was read as %s: %v\n%s", what, hint, as, err, got)
				}
			}
		}
	}
}

// A language that the text is not in does not make nonsense of it.
func TestAnotherLanguage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ hint, text string }{
		"windows-1251": {"fr", "Все люди рождаются свободными и равными."},
		"windows-1250": {"de", "Wszyscy ludzie rodzą się wolni. Zażółć gęślą jaźń."},
		"windows-1252": {"ru", "Schöne Grüße aus München, Jörg und Bärbel."},
		"big5":         {"zh-Hans", "人人生而自由,在尊嚴和權利上一律平等。"},
		"shift_jis":    {"ko", "すべての人間は自由である。"},
	} {
		got, as, err := charset.Decode(encoded(t, name, c.text), language.MustParse(c.hint))
		if err != nil || string(got) != c.text {
			t.Errorf("%s sent as %s was read as %s: %v\n%s", name, c.hint, as, err, got)
		}
	}
}

// Short texts that are right in several encodings of a language are read in the first
// that writings.go has, which is the one that Windows uses there.
func TestOrderOfPreference(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ language, bytes, want string }{
		{"ru", "\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0\n\n\xe1\xe5\xe3", "Привет мир\n\nбег"},
		{"ru", "\xd0\xd2\xc9\xd7\xc5\xd4", "привет"}, // not РТЙЧЕФ: the detector knows which letters are neighbours
		{"cs", "Dvo\xf8\xe1k", "Dvořák"},
		{"da", "S\xf8ren \xc5", "Søren Å"},
		{"tr", "\xddpek \xfeu", "İpek şu"},
		{"is", "\xfea\xf0", "það"},
		{"lt", "\xd0ar\xfbnas", "Šarūnas"},
		{"pl", "Wa\xb3\xeasa", "Wałęsa"},
		{"de", "100 \x80, 5 m\xb2, \x84Zo\xeb\x93", "100 €, 5 m², „Zoë“"},
		{"en", "It\x92s \x85 5\xb0", "It’s … 5°"},
		{"fr", "Mr\xa0X,\xa07\xa0\xe0\xa08\xa0!", "Mr\u00a0X,\u00a07\u00a0à\u00a08\u00a0!"},
		{"zh", "\xc4\xe3\xba\xc3", "你好"},
		{"zh-TW", "\xa7A\xa6n", "你好"},
		{"ja", "\xca\xdd\xb6\xb8\x82\xcc\x93\xfa\x96\x7b", "ﾊﾝｶｸの日本"},
	} {
		got, as, err := charset.Decode([]byte(c.bytes), language.MustParse(c.language))
		if err != nil || string(got) != c.want {
			t.Errorf("%s % x was read as %s: %q, %v; want %q", c.language, c.bytes, as, got, err, c.want)
		}
	}
}

// Names of languages and countries, a dozen at a time, as CLDR has them: lists of words
// that were not chosen for this test.
func TestNamesOfCLDR(t *testing.T) {
	t.Parallel()
	var lists, wrong int
	for _, s := range sentences {
		tag := language.MustParse(s.language)
		names := namesIn(tag)
		for name := range strings.FieldsSeq(s.encodings) {
			e, err := htmlindex.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			for from := 0; from+12 <= len(names); from += 12 {
				text := strings.Join(names[from:from+12], "\n")
				raw, err := e.NewEncoder().Bytes([]byte(text))
				if err != nil || string(raw) == text {
					continue // a letter that it does not have, or only ASCII
				}
				lists++
				if got, as, err := charset.Decode(raw, tag); err != nil || string(got) != text {
					wrong++
					t.Logf("%s in %s was read as %s: %v", s.language, name, as, err)
				}
			}
		}
	}
	t.Logf("%d of %d are wrong", wrong, lists)
	if lists < 1000 || wrong*100 > lists {
		t.Errorf("%d of %d are wrong, want 1 in a hundred at most", wrong, lists)
	}
}

func namesIn(tag language.Tag) (names []string) {
	languages, regions := display.Languages(tag), display.Regions(tag)
	for _, other := range display.Supported.Tags() {
		if base, confidence := other.Base(); confidence == language.Exact && languages != nil {
			names = append(names, languages.Name(base))
		}
		if region, _ := other.Region(); regions != nil {
			names = append(names, regions.Name(region))
		}
	}
	return names
}

// What is Unicode says so itself.
func TestUnicode(t *testing.T) {
	t.Parallel()
	const text = "1\r\n00:00:01,000 --> 00:00:02,000\r\nÜber 你好 🏃 Привет\r\n"
	for name, c := range map[string]struct{ file, as string }{
		"UTF-8":             {text, "utf-8"},
		"UTF-8 with a mark": {"\ufeff" + text, "utf-8"},
		"UTF-16LE":          {string(encoded(t, "utf-16le", text)), "utf-16le"},
		"UTF-16BE":          {string(encoded(t, "utf-16be", text)), "utf-16be"},
		"UTF-16LE marked":   {string(encoded(t, "utf-16le", "\ufeff"+text)), "utf-16le"},
		"UTF-16BE marked":   {string(encoded(t, "utf-16be", "\ufeff"+text)), "utf-16be"},
	} {
		for _, hint := range [][]language.Tag{nil, {language.Russian}, {language.Chinese}} {
			got, as, err := charset.Decode([]byte(c.file), hint...)
			if err != nil || string(got) != text || as != c.as {
				t.Errorf("%s with %v was read as %s: %v\n%q", name, hint, as, err, got)
			}
		}
	}
}

// Whatever is UTF-8 is not changed, whatever language it is said to be in.
func TestUTF8IsNotChanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := "1\n" + rapid.String().Draw(t, "text")
		hint := rapid.SampledFrom([]string{"ru", "ja", "en", "pl"}).Draw(t, "language")
		got, as, err := charset.Decode([]byte(text), language.MustParse(hint))
		if err != nil || string(got) != text || as != charset.UTF8 {
			t.Errorf("%q became %q, %s: %v", text, got, as, err)
		}
	})
}

// What cannot be right is refused, with what to do about it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	russian := strings.Repeat("Все люди рождаются свободными.\n", 3)
	macRoman, err := htmlindex.Get("macintosh")
	if err != nil {
		t.Fatal(err)
	}
	mac, err := macRoman.NewEncoder().String("Schöne Grüße aus München, Jörg und Bärbel, ade")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file, language string
		want           charset.Error
	}{
		"damaged UTF-8":               {russian + "М\xd0\xd0р\n" + russian, "ru", charset.Error{Charset: "utf-8", Line: 4}},
		"UTF-8 that is cut off":       {russian + "М\xd0", "ru", charset.Error{Charset: "utf-8", Line: 4}},
		"a mark, and not UTF-8":       {"\ufeff\n\nZo\xeb", "nl", charset.Error{Charset: "utf-8", Line: 3}},
		"UTF-16 that is cut off":      {"\xff\xfe1\x00\n\x00x", "de", charset.Error{Charset: "utf-16le", Line: 2}},
		"half of a pair in UTF-16":    {"\xff\xfe1\x00\x00\xd8", "de", charset.Error{Charset: "utf-16le", Line: 1}},
		"a byte after many, in cp125": {"\xfc\n" + strings.Repeat("gr\xfcn\n", 20_000) + "\x81", "de", charset.Error{Charset: "windows-1252", Line: 20_002}},
		"Mac OS Roman":                {mac, "de", charset.Error{}},
		"MS-DOS":                      {"Sch\x94ne Gr\x81\xe1e aus M\x81nchen, J\x94rg", "de", charset.Error{}},
		"a picture":                   {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x07\x80\xb4\xd9\xff\xee\x81", "en", charset.Error{}},
		"a photograph":                {"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x01\xff\xdb\x00C\x00\x08\x9d\x81\x07\xb5\xf7", "fr", charset.Error{}},
	} {
		got, as, err := charset.Decode([]byte(c.file), language.MustParse(c.language))
		var refused *charset.Error
		if !errors.As(err, &refused) || *refused != c.want {
			t.Errorf("%s was read as %s: %v, want %v\n%.80q", name, as, err, &c.want, got)
			continue
		}
		if !strings.Contains(err.Error(), "save it as UTF-8") {
			t.Errorf("%s: %q does not say what to do", name, err)
		}
	}
}

// A list that comes in pieces, or whose first letter beyond ASCII is far behind, is
// read in the same way, and the trouble of its source comes through.
func TestReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1;Ann;F;30\r\n", 10_000)
	for name, text := range map[string]string{
		"short": "1;Zoë Müller;F;30\r\n", "late": long + "2;Zoë Müller;F;30\r\n" + long, "much": strings.Repeat("1;Zoë Müller;F;30\r\n", 10_000), "empty": "", "ASCII": long,
	} {
		raw := encoded(t, "windows-1252", text)
		for kind, source := range map[string]io.Reader{
			"whole": bytes.NewReader(raw), "bytes": iotest.OneByteReader(bytes.NewReader(raw)), "halves": iotest.HalfReader(iotest.DataErrReader(bytes.NewReader(raw))),
		} {
			r := charset.NewReader(source, language.German)
			got, err := io.ReadAll(r)
			if as := r.Charset(); err != nil || string(got) != text || (as == charset.UTF8) != (string(raw) == text) {
				t.Errorf("%s in %s, as %s: %v, %d bytes of %d", name, kind, as, err, len(got), len(text))
			}
		}
	}
	broken := errors.New("broken")
	for _, text := range []string{"", "1;A", "1;Zo\xeb"} {
		if _, err := io.ReadAll(charset.NewReader(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)))); !errors.Is(err, broken) {
			t.Errorf("%q: %v, want %v", text, err, broken)
		}
	}
}

// Whatever comes, the result is text, the same in one piece and in bytes, and what was
// UTF-8 is what it was.
func FuzzDecode(f *testing.F) {
	for _, seed := range []struct{ file, language string }{
		{"\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0", "ru"}, {"\xef\xbb\xbfx\xff", "en"}, {"\xff\xfe1\x00\x00\xd8", "de"}, {"1\x00\n\x00", ""}, {"\x00\x00\xfe\xff", "fr"},
		{"\xa7A\xa6n", "zh-TW"}, {"\x8f\xa2\xb7", "ja"}, {"\x84\x31\xa4\x37", "zh"}, {"\x81", "vi"}, {"a\xec\xd2", "vi"}, {"Wa\xb3\xeasa", ""}, {"\x1b$B$3\x1b(B", "ja"},
	} {
		f.Add([]byte(seed.file), seed.language)
	}
	f.Fuzz(func(t *testing.T, file []byte, tag string) {
		hint := language.Make(tag)
		text, as, err := charset.Decode(file, hint)
		var refused *charset.Error
		if err != nil && !errors.As(err, &refused) {
			t.Fatalf("refused with %v", err)
		}
		if err == nil && !utf8.Valid(text) {
			t.Errorf("%s: % x is no UTF-8", as, text)
		}
		unmarked := bytes.TrimPrefix(file, []byte("\ufeff"))
		if as == charset.UTF8 && err == nil && !bytes.Equal(text, unmarked) {
			t.Errorf("%q became %q", file, text)
		}
		r := charset.NewReader(iotest.OneByteReader(bytes.NewReader(file)), hint)
		if again, failed := io.ReadAll(r); err == nil && (failed != nil || !bytes.Equal(again, text) || r.Charset() != as) {
			t.Errorf("byte by byte: %q as %s, %v; want %q as %s", again, r.Charset(), failed, text, as)
		}
	})
}

func ExampleDecode() {
	text, as, err := charset.Decode([]byte("\xcf\xf0\xe8\xe2\xe5\xf2"), language.Russian)
	fmt.Println(string(text), as, err)
	// Output: Привет windows-1251 <nil>
}
