package ffmpeg

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
)

// The track with the default flag is heard, else the first that can be decoded; what is
// left out is told, and two tracks that are left and right are one.
func TestSoundThatIsHeard(t *testing.T) {
	t.Parallel()
	decodes := map[string]bool{"aac": true, "pcm_s16le": true}
	for name, c := range map[string]struct {
		streams string
		want    video.Heard
		found   bool
		notices []video.Notice
	}{
		"none":                      {`{"codec_type":"video"}`, video.Heard{}, false, nil},
		"the first":                 {described("aac", 2, "stereo", 0) + "," + described("aac", 2, "stereo", 0), video.Heard{}, true, nil},
		"the default one":           {described("aac", 2, "stereo", 0) + "," + described("aac", 2, "stereo", 1), video.Heard{Track: 1}, true, nil},
		"the first default":         {described("aac", 2, "stereo", 1) + "," + described("aac", 2, "stereo", 1), video.Heard{}, true, nil},
		"default without a decoder": {described("zzz", 2, "stereo", 1) + "," + described("aac", 2, "stereo", 0), video.Heard{Track: 1}, true, nil},
		"no decoder":                {described("zzz", 2, "stereo", 1), video.Heard{}, false, []video.Notice{video.AudioNotDecodable}},
		"channels unnamed":          {described("pcm_s16le", 12, "unknown", 0), video.Heard{Discrete: true}, true, nil},
		"left and right":            {described("pcm_s16le", 1, "1 channels (FL)", 1) + "," + described("pcm_s16le", 1, "1 channels (FR)", 1), video.Heard{Pair: true}, true, nil},
		"two that are mono":         {described("pcm_s16le", 1, "mono", 1) + "," + described("pcm_s16le", 1, "mono", 1), video.Heard{}, true, nil},
		"not even described":        {described("aac", 0, "", 1), video.Heard{}, false, []video.Notice{video.AudioNotDecodable}},
	} {
		var p probed
		if err := json.Unmarshal([]byte(`{"streams":[`+c.streams+`]}`), &p); err != nil {
			t.Fatal(err)
		}
		heard, found, notices := p.sound(decodes)
		if heard.Heard != c.want || found != c.found || !slices.Equal(notices, c.notices) {
			t.Errorf("%s: %+v, %t, %v; want %+v, %t, %v", name, heard.Heard, found, notices, c.want, c.found, c.notices)
		}
	}
}

func described(codec string, channels int, layout string, flag int) string {
	text, _ := json.Marshal(map[string]any{
		"codec_type": "audio", "codec_name": codec, "sample_rate": "48000", "channels": channels, "channel_layout": layout, "disposition": map[string]int{"default": flag},
	})
	return string(text)
}
