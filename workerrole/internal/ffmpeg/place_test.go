package ffmpeg

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
)

// TestPlace: frames that follow one another, are late, come again, or lie outside the
// stretch are where a model puts them that marks one sample after the other. What ffmpeg
// lists is never before the frame before.
func TestPlace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		job := SoundJob{Dir: t.TempDir(), From: r.Int64N(5000), Pad: r.Int64N(40_000)}
		job.To = job.From + 1 + r.Int64N(40_000)
		var decoded bytes.Buffer
		list := frameList{base: video.Rational{Num: 1, Den: video.SampleRate}}
		model, at, end, listed, sample := map[int64]uint32{}, 3000+r.Int64N(5000), int64(0), int64(0), uint32(0)
		back := false // the times have gone back, and are not there again
		for i := 0; i < 10 || back; i++ {
			length := 1 + r.Int64N(3000)
			if !back {
				at += pickOne(r, 0, 0, 0, jitter, -jitter, jitter+1, -jitter-1, 5000, -3000)
			}
			if i == 0 || at-end > jitter || end-at > jitter {
				end = at
			}
			for n := range length {
				sample++
				_ = binary.Write(&decoded, binary.LittleEndian, [AudioChannels]uint32{sample, sample})
				model[end+n] = sample
			}
			back = i > 0 && at <= listed+1
			listed = max(at, listed+1)
			list.frames = append(list.frames, frame{at: listed, length: length, bytes: length * sampleBytes})
			end += length
			at = end
		}
		if err := os.WriteFile(filepath.Join(job.Dir, decodedFile), decoded.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := job.place(list)
		if err != nil || got != end {
			t.Fatalf("seed %d: ends at %d, %v; want %d", seed, got, err, end)
		}
		placed, err := os.ReadFile(filepath.Join(job.Dir, placedFile))
		if err != nil {
			t.Fatal(err)
		}
		want := min(job.To, max(end, job.Pad, job.From)) - job.From
		if n := int64(len(placed)) / sampleBytes; n != want {
			t.Fatalf("seed %d: %d samples, want %d", seed, n, want)
		}
		for n := range want {
			if got := binary.LittleEndian.Uint32(placed[n*sampleBytes:]); got != model[job.From+n] {
				t.Fatalf("seed %d: sample %d is number %d of what was decoded, want %d", seed, job.From+n, got, model[job.From+n])
			}
		}
	}
}

func pickOne(r *rand.Rand, from ...int64) int64 { return from[r.IntN(len(from))] }
