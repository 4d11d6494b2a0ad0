package ffmpeg

import (
	"context"
	"math"
	"os/exec"
	"path/filepath"
	"testing"
)

// A sine of full scale minus 20 dB in both channels is at -20 LUFS plus what
// K-weighting adds at 1 kHz, which is nothing (ITU-R BS.1770 calibrates there,
// with -3.01 LUFS for one channel at full scale). What is measured is what is played:
// ffmpeg divides a single channel, and the middle one of 5.1, between two at -3 dB each.
func TestLoudnessIsThatOfBS1770(t *testing.T) {
	t.Parallel()
	tool := open(t)
	for name, c := range map[string]struct {
		sound      string
		integrated float64
		peak       float64
	}{
		"sine":    {"sine=f=997:r=48000:d=6,volume=18.06dB,volume=-20dB,aformat=channel_layouts=mono", -23.0, -23},
		"middle":  {"sine=f=997:r=48000:d=6,volume=18.06dB,volume=-20dB,aformat=channel_layouts=mono,pan=5.1|FC=c0", -23.0, -23},
		"silence": {"anullsrc=r=48000:cl=mono,atrim=duration=6", Silence, Silence},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "sound.mkv")
			if out, err := exec.CommandContext(t.Context(), tool.FFmpeg, "-v", "error", "-f", "lavfi", "-i", c.sound, "-c:a", "pcm_s16le", path).CombinedOutput(); err != nil {
				t.Fatalf("make the sound: %v\n%s", err, out)
			}
			got, err := tool.Loudness(t.Context(), Source{URL: path})
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(got.Integrated-c.integrated) > 0.5 || math.Abs(got.TruePeak-c.peak) > 0.5 {
				t.Errorf("%+v, want %.1f LUFS with a peak of %.1f", got, c.integrated, c.peak)
			}
		})
	}
}

func TestLoudnessThatIsNotSaidIsAnError(t *testing.T) {
	t.Parallel()
	if l, err := readLoudness("Summary:\n    I:  -20.0 LUFS\n"); err == nil {
		t.Errorf("%+v", l)
	}
}

func init() {
	ofStrangers["Loudness"] = func(ctx context.Context, tool *Tool, src Source) { _, _ = tool.Loudness(ctx, src) }
}
