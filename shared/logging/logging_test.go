package logging

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestFormatAndLevelAreChosen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format, level string
		lines         int
		bad           string
	}{
		{"", "", 2, ""}, {"text", "debug", 3, ""}, {"json", "", 2, ""}, {"json", "warn", 1, ""},
		{"xml", "", 2, "CUTROOM_LOG_FORMAT"}, {"json", "loud", 2, "CUTROOM_LOG_LEVEL"},
	} {
		var out bytes.Buffer
		log, err := New(&out, func(name string) string {
			return map[string]string{"CUTROOM_LOG_FORMAT": c.format, "CUTROOM_LOG_LEVEL": c.level}[name]
		})
		if c.bad == "" && err != nil || c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)) {
			t.Errorf("%+v: %v", c, err)
		}
		log.Debug("a")
		log.Info("b")
		log.Warn("c", "url", "https://x.blob.core.windows.net/a?sig=abcdefgh&se=1")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		last := lines[len(lines)-1]
		if len(lines) != c.lines || strings.Contains(last, "abcdefgh") || json.Valid([]byte(last)) != (c.format == "json") {
			t.Errorf("%+v: %d lines, the last %s", c, len(lines), last)
		}
	}
}
