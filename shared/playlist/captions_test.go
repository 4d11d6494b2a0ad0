package playlist_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/captions"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/playlist"
)

// FuzzLists draws the multivariant playlist of a video with captions, and the
// playlist of the captions, and reads them as a player does (RFC 8216, sections 4.1 and 4.2):
// whatever a language is called, a line is a tag with attributes or one address.
func FuzzLists(f *testing.F) {
	f.Add("en", "English", 30.1, int64(30000), int64(1001), uint8(0x13), 2)
	f.Add("pt_br", "a \"name\",URI=\"https://evil.example\"\n#EXT-X-ENDLIST", 14400.0, int64(25), int64(1), uint8(0x02), 6)
	f.Add("zh-Hant-u-nu-hanidec", "中文\\\u200d", 0.04, int64(1), int64(1), uint8(0xff), 0)
	f.Add("fa", "", 12.0, int64(240), int64(1), uint8(0x11), -1)
	f.Add("en-x-a", "\r", 60.0000000001, int64(120), int64(1), uint8(0x20), 1)
	f.Fuzz(func(t *testing.T, tag, name string, seconds float64, num, den int64, shape uint8, channels int) {
		if num < 1 || den < 1 || num > 1e6 || den > 1e6 || !(seconds <= 48*3600) {
			return // no probe says so
		}
		p := drawn(num, den, shape, channels)
		master := playlist.Master(p)
		plain := addresses(t, master)
		key, err := captions.Key(engine.NewID(), tag)
		if err != nil {
			return
		}
		tracks := []captions.Track{{
			Language: key.Variant, Name: captions.Name(key.Variant),
		}, {
			Language: "en", Name: name,
		}}
		with := captions.AddTo(master, tracks)
		if !slices.Equal(addresses(t, with), plain) || strings.Count(with, ",SUBTITLES=\"subs\"\n") != len(plain) || len(plain) > 0 && strings.Count(with, "\n#EXT-X-MEDIA:TYPE=SUBTITLES,") != len(tracks) {
			t.Errorf("captions make of\n%s\nthis:\n%s", master, with)
		}
		list := captions.Playlist(key.Variant, seconds)
		var sum float64
		target := 0
		for line := range strings.Lines(list) {
			var d float64
			if n, _ := fmt.Sscanf(line, "#EXTINF:%f,", &d); n == 1 {
				sum += d
				if d <= 0 || math.Round(d) > float64(target) {
					t.Errorf("a segment of %v s in a list whose longest has %d s", d, target)
				}
			}
			_, _ = fmt.Sscanf(line, "#EXT-X-TARGETDURATION:%d", &target)
		}
		segments := addresses(t, list)
		if math.Abs(sum-max(0, seconds)) > 1e-6*float64(len(segments)+1) || target < 1 || !strings.HasSuffix(list, "#EXT-X-ENDLIST\n") {
			t.Errorf("captions of %v s have %v s:\n%.2000s", seconds, sum, list)
		}
	})
}
