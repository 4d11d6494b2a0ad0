package ffmpeg

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	ff "github.com/u2takey/ffmpeg-go"
)

// Loudness is what EBU R128 says of a track.
type Loudness struct {
	Integrated float64 `json:"integratedLufs"` // of the whole programme; Silence when there is nothing to hear
	Range      float64 `json:"rangeLu"`
	TruePeak   float64 `json:"truePeakDb"` // Silence when there is nothing to hear
}

// Silence is the gate of EBU R128: nothing below it counts.
const Silence = -70.0

// Loudness measures the sound of a source as it is played: in stereo, which also bounds the
// cost, for 5.1 channels take 2.7 times the processor time of two. It writes nothing.
func (t *Tool) Loudness(ctx context.Context, src Source) (Loudness, error) {
	out := t.soundInput(src, 0).
		Filter("aformat", nil, ff.KwArgs{"channel_layouts": "stereo"}).
		Filter("ebur128", nil, ff.KwArgs{"peak": "true", "framelog": "verbose"}).
		Output("-", ff.KwArgs{"f": "null"})
	summary, err := t.ffmpeg(ctx, "measuring loudness", command{source: src, limits: sounding}, out, "-v", "info") // the summary is an info
	if err != nil {
		return Loudness{}, err
	}
	return readLoudness(summary)
}

// loudness is a line of the summary, or of one before it.
var loudness = regexp.MustCompile(`(?m)^\s+(I|LRA|Peak):\s+(\S+) (?:LU|LUFS|dBFS)$`)

func readLoudness(summary string) (Loudness, error) {
	found := map[string]float64{}
	for _, line := range loudness.FindAllStringSubmatch(summary, -1) {
		value, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			return Loudness{}, fmt.Errorf("measuring loudness: %w", err)
		}
		found[line[1]] = value // the last is of the whole
	}
	if len(found) < 3 {
		return Loudness{}, fmt.Errorf("measuring loudness: ffmpeg says only %v", found)
	}
	// "-inf" is no number in JSON.
	return Loudness{Integrated: max(found["I"], Silence), Range: found["LRA"], TruePeak: max(found["Peak"], Silence)}, nil
}
