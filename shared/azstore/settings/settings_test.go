package settings_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/settings"
)

func TestReader(t *testing.T) {
	t.Parallel()
	env := map[string]string{"ON": "on", "LIST": "a, b,c", "TEXT": "a", "NUMBER": "7", "TIME": "2s", "LONG": "900h"}
	r := settings.Reader{Getenv: func(name string) string { return env[name] }}
	if r.Text("TEXT", "b") != "a" || r.Text("NONE", "b") != "b" ||
		r.Int("NUMBER", 1, 0, 9) != 7 || r.Int("NONE", 1, 5, 9) != 1 ||
		r.Duration("TIME", 0, time.Second, time.Minute) != 2*time.Second || r.Duration("LONG", 0, 0, 0) != 900*time.Hour {
		t.Error("a variable is not read as it stands")
	}
	if !r.On("ON") || r.On("NONE") || !slices.Equal(r.Words("LIST"), []string{"a", "b", "c"}) || len(r.Words("NONE")) != 0 ||
		settings.Parse(&r, "NUMBER", strconv.Atoi) != 7 {
		t.Error("a switch, a list or a number is not read as it stands")
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	r.Int("TEXT", 0, 0, 9)
	r.Int("NUMBER", 0, 8, 9)
	r.Duration("TIME", 0, 3*time.Second, 0)
	r.Duration("LONG", 0, 0, time.Hour)
	r.On("LIST")
	settings.Parse(&r, "ON", strconv.Atoi)
	r.Bad("OTHER", errors.New("is wrong, too"))
	r.Bad("FINE", nil)
	for _, name := range []string{"LIST:", "ON:", "TEXT:", "NUMBER:", "TIME:", "LONG:", "OTHER:"} {
		if !strings.Contains(r.Err().Error(), name) {
			t.Errorf("the error does not name %s\n%v", name, r.Err())
		}
	}
	if strings.Contains(r.Err().Error(), "FINE") {
		t.Error(r.Err())
	}
	r.Int("TEXT", 0, 0, 9) // read by two settings
	if n := strings.Count(r.Err().Error(), "TEXT:"); n != 1 {
		t.Errorf("a mistake is told %d times", n)
	}
}
