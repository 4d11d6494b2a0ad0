package ffmpeg

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	ff "github.com/u2takey/ffmpeg-go"
)

// Loudness is what EBU R128 says of a track.
type Loudness struct {
	Integrated float64 // of the whole programme, LUFS; Silence when there is nothing to hear
	Range      float64 // LU
	TruePeak   float64 // dBTP; Silence when there is nothing to hear
}

// Silence is the gate of EBU R128: nothing below it counts.
const Silence = -70.0

// Loudness measures the audio stream of a source that is heard, as it is played, which is in
// stereo. That also bounds its cost: 5.1 channels take 2.7 times the processor time of two.
// It writes nothing.
func (t *Tool) Loudness(ctx context.Context, src Source) (Loudness, error) {
	out := t.soundInput(src, 0).
		Filter("aformat", nil, ff.KwArgs{"channel_layouts": "stereo"}).
		Filter("ebur128", nil, ff.KwArgs{"peak": "true", "framelog": "verbose"}).
		Output("-", ff.KwArgs{"f": "null"})
	args := slices.Concat(t.globals(), []string{"-v", "info"}, out.GetArgs()) // the summary is an info
	summary, err := t.run(ctx, command{path: t.FFmpeg, args: args, source: src, limits: sounding})
	if err != nil {
		return Loudness{}, fmt.Errorf("measuring loudness: %w", err)
	}
	return readLoudness(summary)
}

var loudnessOf = map[string]*regexp.Regexp{
	"I":    regexp.MustCompile(`(?m)^\s+I:\s+(\S+) LUFS`),
	"LRA":  regexp.MustCompile(`(?m)^\s+LRA:\s+(\S+) LU\b`),
	"Peak": regexp.MustCompile(`(?m)^\s+Peak:\s+(\S+) dBFS`),
}

func readLoudness(summary string) (l Loudness, _ error) {
	for name, to := range map[string]*float64{"I": &l.Integrated, "LRA": &l.Range, "Peak": &l.TruePeak} {
		found := loudnessOf[name].FindAllStringSubmatch(summary, -1)
		if len(found) == 0 {
			return l, fmt.Errorf("measuring loudness: ffmpeg says nothing of %s", name)
		}
		value, err := strconv.ParseFloat(found[len(found)-1][1], 64)
		if err != nil {
			return l, fmt.Errorf("measuring loudness: %s: %w", name, err)
		}
		*to = max(value, Silence) // "-inf", which is no number in JSON
		if name == "LRA" {
			*to = value
		}
	}
	return l, nil
}
