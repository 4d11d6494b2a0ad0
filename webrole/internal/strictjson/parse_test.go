package strictjson_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/webrole/internal/strictjson"
)

func TestParse(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for _, c := range []struct {
		name, in string
		ok       bool
	}{
		{"object", `{"a":1,"b":[{"a":2},{"a":3}],"c":{"a":null}}`, true},
		{"escapes", `{"a":"\"\\\u00e9\ud83d\ude00 {[\n"}`, true},
		{"empty", ``, false},
		{"blank", "  \n", false},
		{"trailing", `{} x`, false},
		{"two values", `{}{}`, false},
		{"duplicate", `{"a":1,"a":2}`, false},
		{"duplicate by escape", `{"a":1,"\u0061":2}`, false},
		{"duplicate below", `{"x":[{"a":1,"b":{},"a":2}]}`, false},
		{"deep", deep, false},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", false},
		{"lone surrogate", `{"a":"\ud800"}`, false},
		{"lone low surrogate", `{"a":"\udc00"}`, false},
		{"surrogate and letter", `{"a":"\ud800\u0061"}`, false},
		{"NUL", `{"a":"\u0000"}`, false},
		{"unclosed", `{"a":`, false},
		{"bad escape at the end", `{"a":"\`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := strictjson.Parse([]byte(c.in))
			if (err == nil) != c.ok {
				t.Fatalf("Parse(%.40q) = %v, want ok %v", c.in, err, c.ok)
			}
			if err != nil && !errors.Is(err, strictjson.ErrInvalid) {
				t.Errorf("error %v does not match ErrInvalid", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x\u00e9",null,true]}`, `{"a":1,"a":2}`, `"\ud83d\ude00"`, `[[[`, `"\`, `}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := strictjson.Parse(data); err == nil && !json.Valid(data) {
			t.Errorf("Parse accepts %q, which is not JSON", data)
		}
	})
}
