// Package logging makes the logger of a role: text for people, or JSON for whatever
// collects logs. Keys and tokens do not get into it.
package logging

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/cutroom/cutroom/shared/azstore"
)

// New returns a logger that writes to w as CUTROOM_LOG_FORMAT (text or json) and
// CUTROOM_LOG_LEVEL (debug, info, warn, error) say. With an error it comes all the same,
// with what could be read, so that the error can be logged.
func New(w io.Writer, getenv func(string) string) (log *slog.Logger, err error) {
	options := &slog.HandlerOptions{ReplaceAttr: azstore.RedactAttr}
	if text := getenv("CUTROOM_LOG_LEVEL"); text != "" {
		var level slog.Level
		if level.UnmarshalText([]byte(text)) != nil {
			err = fmt.Errorf("CUTROOM_LOG_LEVEL: %q is not debug, info, warn or error", text)
		}
		options.Level = level
	}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	switch format := getenv("CUTROOM_LOG_FORMAT"); format {
	case "", "text":
	case "json":
		handler = slog.NewJSONHandler(w, options)
	default:
		err = errors.Join(err, fmt.Errorf("CUTROOM_LOG_FORMAT: %q is not text or json", format))
	}
	return slog.New(handler), err
}
