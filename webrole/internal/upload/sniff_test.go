package upload

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// TestSniff: what is no video is refused with a text that says what it is and what is read.
// Which files these are is TestRefusingAndReadingAgree of the workers.
func TestSniff(t *testing.T) {
	t.Parallel()
	var failure *engine.Failure
	if err := sniff([]byte("#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n")); !errors.As(err, &failure) || failure.Code != video.UnsupportedMedia ||
		!strings.Contains(failure.Detail, "a playlist") || !strings.Contains(failure.Detail, "WMV") {
		t.Errorf("a playlist: %v", err)
	}
	if err := sniff(bytes.Repeat([]byte{0}, video.HeadBytes)); err != nil {
		t.Errorf("zeros: %v", err)
	}
}
