package playlist

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// CaptionsHeader begins every segment of captions. The map says that its times are
// those of the video, whose timestamps begin at 0 (RFC 8216, section 3.5). Alone it
// is a segment without cues.
const CaptionsHeader = "WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:0\n"

// CaptionTime is a time of WebVTT, to the millisecond.
func CaptionTime(d time.Duration) string {
	ms := d.Round(time.Millisecond).Milliseconds()
	return fmt.Sprintf("%02d:%02d:%02d.%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, ms%1000)
}

// CaptionsTrack is captions that a player may offer.
type CaptionsTrack struct {
	Language string // BCP 47
	Name     string // of the language in itself
}

// WithCaptions adds captions to a multivariant playlist. They come and go after
// the video is made, so they are not in the stored one.
func WithCaptions(master string, tracks []CaptionsTrack) string {
	if len(tracks) == 0 {
		return master
	}
	var media strings.Builder
	for _, t := range tracks {
		fmt.Fprintf(&media, "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subs\",NAME=%s,LANGUAGE=%s,DEFAULT=NO,AUTOSELECT=YES,URI=\"captions/%s.m3u8\"\n", quoted(t.Name), quoted(t.Language), t.Language)
	}
	master = variant.ReplaceAllString(master, `$0,SUBTITLES="subs"`)
	return strings.Replace(master, "#EXT-X-STREAM-INF:", media.String()+"#EXT-X-STREAM-INF:", 1)
}

// variant is the tag of a rendition in a multivariant playlist.
var variant = regexp.MustCompile(`(?m)^#EXT-X-STREAM-INF:.*$`)

// quoted writes a quoted string, which has no escapes (RFC 8216, section 4.2).
func quoted(text string) string {
	return `"` + strings.Map(func(r rune) rune {
		if r == '"' || unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "")) + `"`
}

// Captions draws the media playlist of a language for a video of a length. Pieces that
// no file has, of less than a second, count as a second: the list has an end.
func Captions(language string, segmentSeconds int, seconds float64) string {
	segmentSeconds = max(1, segmentSeconds)
	var b strings.Builder
	fmt.Fprintf(&b, "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:%d\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n", segmentSeconds)
	for n := 0; seconds >= 1e-6; n++ { // less is nothing as it is written
		fmt.Fprintf(&b, "#EXTINF:%.6f,\n%s/%d.vtt\n", min(seconds, float64(segmentSeconds)), language, n)
		seconds -= float64(segmentSeconds)
	}
	b.WriteString("#EXT-X-ENDLIST\n")
	return b.String()
}
