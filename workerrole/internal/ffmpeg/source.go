package ffmpeg

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/video"
)

// demuxers may open a stranger's file.
var demuxers = func() string {
	var names []string
	for _, c := range video.Containers {
		names = append(names, c.Demuxer)
	}
	return strings.Join(names, ",")
}()

// Guards against small files that ask for much work.
const (
	maxPixels  = 9_437_184 // pixels in a picture: 4096 × 2304
	maxStreams = 64        // in a file; the plan's own limit is lower and has a better message
)

// Source is media to read.
type Source struct {
	// URL is the path of a local file, or the address that Serve made.
	URL string
	// Demuxer is ffmpeg's name of the container, empty before the probe. After it, bytes
	// that change cannot reach another demuxer.
	Demuxer string

	// Heard is what of its sound is heard.
	Heard video.Heard

	served *served // the reads behind the address; nil for a local file
}

// size is the number of its bytes, 0 when that is not known.
func (s Source) size() int64 {
	if s.served != nil {
		return s.served.size
	}
	if info, err := os.Stat(s.URL); err == nil {
		return info.Size()
	}
	return 0
}

// input is the source in ffmpeg's words: "file:" keeps a path from being anything else.
func (s Source) input() string {
	if s.served != nil {
		return s.URL
	}
	return "file:" + absolute(s.URL)
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// guard returns the options before every input of ffmpeg and ffprobe, without exception.
func (t *Tool) guard(s Source) ff.KwArgs {
	kw := ff.KwArgs{
		"protocol_whitelist": "file",
		"format_whitelist":   demuxers,
		"max_pixels":         strconv.Itoa(maxPixels),
		"max_streams":        strconv.Itoa(maxStreams),
	}
	if s.Demuxer != "" {
		kw["f"] = s.Demuxer
	}
	if s.served != nil {
		kw["protocol_whitelist"] = "http,tcp"
	}
	return kw
}

// trusted returns the guards for a file that we made ourselves, which is a local MP4.
func trusted() ff.KwArgs {
	return ff.KwArgs{"protocol_whitelist": "file", "format_whitelist": "mov", "f": "mov"}
}

// redact takes the source's path, or its address, which lets its reader in, out of messages.
func (s Source) redact(text string) string {
	if s.URL == "" {
		return text
	}
	return strings.NewReplacer(s.input(), "source", s.URL, "source").Replace(text)
}
