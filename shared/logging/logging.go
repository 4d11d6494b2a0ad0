// Package logging makes the logger of a role: text for people, or JSON for whatever
// collects logs. Keys and tokens do not get into it, ids of traces do.
package logging

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/tracing"
)

// New returns a logger that writes to w as CUTROOM_LOG_FORMAT (text or json) and
// CUTROOM_LOG_LEVEL (debug, info, warn, error) say. With an error it comes all the same,
// as text from info on, so that the error can be logged.
func New(w io.Writer, getenv func(string) string) (*slog.Logger, error) {
	level := slog.LevelInfo
	options := &slog.HandlerOptions{ReplaceAttr: azstorage.RedactAttr}
	fallback := slog.New(tracing.Logs(slog.NewTextHandler(w, options)))
	if text := getenv("CUTROOM_LOG_LEVEL"); text != "" {
		if level.UnmarshalText([]byte(text)) != nil {
			return fallback, fmt.Errorf("CUTROOM_LOG_LEVEL: %q is not debug, info, warn or error", text)
		}
		options = &slog.HandlerOptions{ReplaceAttr: azstorage.RedactAttr, Level: level}
	}
	switch format := getenv("CUTROOM_LOG_FORMAT"); format {
	case "", "text":
		return slog.New(tracing.Logs(slog.NewTextHandler(w, options))), nil
	case "json":
		return slog.New(tracing.Logs(slog.NewJSONHandler(w, options))), nil
	default:
		return fallback, fmt.Errorf("CUTROOM_LOG_FORMAT: %q is not text or json", format)
	}
}
