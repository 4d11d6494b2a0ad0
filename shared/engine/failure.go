package engine

import "fmt"

// Code is a stable, documented name for a reason why a subject failed or a
// request was refused. Codes never change their meaning.
type Code string

// The engine's codes.
const (
	// ProcessingFailed is ours, not the uploader's: the attempts are used up.
	ProcessingFailed Code = "processing_failed"
	// SourceChanged says that the source is not the one that was verified.
	SourceChanged Code = "source_changed"
)

// Failure is what the user is told. Detail is written for people and holds no
// secrets, paths or stack traces.
type Failure struct {
	Code   Code   `json:"code"`
	Detail string `json:"detail"`
}

// Error makes a Failure usable as the permanent error of a step.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Code, f.Detail) }

// Fail returns a permanent failure with a formatted detail.
func Fail(code Code, format string, args ...any) error {
	return &Failure{Code: code, Detail: fmt.Sprintf(format, args...)}
}
