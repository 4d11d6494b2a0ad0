package visible_test

import (
	"testing"

	"github.com/cutroom/cutroom/shared/visible"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"a": true, "สีแดง": true, "می\u200cخواهم": true, "👩\u200d👧": true, "\u200fשלום": true, "a\nb": true,
		"": false, " ": false, "\u200b": false, "\u200b\u2060\ufeff": false, "\n": false, "a\x00": false, "a\u007f": false, "a\u202etxt.exe": false, "a\u2067b": false,
	} {
		if visible.Is(text, "\n") != want {
			t.Errorf("%q: visible is %v", text, !want)
		}
	}
	if visible.Is("a\nb", "") {
		t.Error("a line break is allowed although it is not")
	}
}
