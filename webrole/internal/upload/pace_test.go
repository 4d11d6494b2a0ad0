package upload

import (
	"io"
	"strings"
	"testing"
	"time"
)

// A deadline that outlived the body would end the connection while the request
// is still worked on.
func TestPacedTakesItsDeadlineBack(t *testing.T) {
	t.Parallel()
	var deadline time.Time
	body := Paced(strings.NewReader("body"), func(at time.Time) error { deadline = at; return nil })
	if n, err := body.Read(make([]byte, 2)); n != 2 || err != nil || time.Until(deadline) < paceSpan/2 {
		t.Errorf("in the body: %d bytes, %v, deadline %v", n, err, deadline)
	}
	if _, err := io.ReadAll(body); err != nil || !deadline.IsZero() {
		t.Errorf("at its end: %v, deadline %v", err, deadline)
	}
}
