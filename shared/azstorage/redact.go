package azstorage

import (
	"log/slog"
	"regexp"
)

// signature matches the value of a signed URL's "sig" parameter, plain or
// percent-encoded inside of another URL.
var signature = regexp.MustCompile(`(?i)(^|[^a-z])sig(?:=|%3d)[^&\s"'<>\\)]*`)

// accountKey matches the secret of a connection string.
var accountKey = regexp.MustCompile(`(?i)\bAccountKey=[^;\s"']*`)

// Redact returns text without the signatures of signed URLs and without account
// keys. Anyone who holds such a URL may use it, so it belongs in no log, no error
// and no message to a user.
func Redact(text string) string {
	text = signature.ReplaceAllString(text, "${1}[signature removed]")
	return accountKey.ReplaceAllString(text, "[account key removed]")
}

// RedactError returns an error with Redact applied to its text. errors.Is and
// errors.As still see err.
func RedactError(err error) error {
	if err == nil || Redact(err.Error()) == err.Error() {
		return err
	}
	return &redactedError{err}
}

type redactedError struct{ err error }

func (e *redactedError) Error() string { return Redact(e.err.Error()) }
func (e *redactedError) Unwrap() error { return e.err }

// RedactAttr is a slog.HandlerOptions.ReplaceAttr that applies Redact to strings
// and errors.
func RedactAttr(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(Redact(v))
	case error:
		a.Value = slog.StringValue(Redact(v.Error()))
	}
	return a
}
