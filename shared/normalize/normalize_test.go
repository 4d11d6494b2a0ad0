package normalize_test

import (
	"testing"

	"github.com/cutroom/cutroom/shared/normalize"
)

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                      "",
		"CAFÉ":                  "cafe",
		"Cafe\u0301":            "cafe",
		"Straße":                "strasse",
		"Ｆｕｌｌ　ｗｉｄｔｈ":            "full width",
		"ﬁlm":                   "film",
		"Søren Łódź Ærø":        "soren lodz aero",
		"İstanbul ıssız":        "istanbul issiz",
		"ガラス":                   "ガラス",
		"ｶﾞﾗｽ":                  "ガラス",
		"O\u2019Brien":          "o'brien",
		"Ελλάδα ᾳ":              "ελλαδα αι",
		"zero\u200bwidth\u00ad": "zerowidth",
		"bad \xff bytes":        "bad  bytes",
		"①²":                    "12",
		"٠٩ ۴ ๒๕๖๙ ០៩ ᠑ 𞥐𝟗": "09 4 2569 09 1 09",
		"Йод Ёлка Ї":        "йод елка і",
		"И\u0323\u0306":     "й",
	} {
		if got := normalize.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzTextIsStable(f *testing.F) {
	f.Add("Ünïcödé ½ ᾳ ẞ ﷺ И\u0323\u0306\u0306")
	f.Fuzz(func(t *testing.T, s string) {
		once := normalize.Text(s)
		if twice := normalize.Text(once); twice != once {
			t.Errorf("Text(%q) = %q, folded again %q", s, once, twice)
		}
	})
}
