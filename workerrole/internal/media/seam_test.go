package media_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
)

// pulseEvery is how many samples lie between two pulses of the test's sound.
const pulseEvery = video.SampleRate / 8

// tonesAndPulses is sound in which every fault shows: a shift of one sample in
// the tones, a click in the error, a lost stretch in the noise and the pulses.
const tonesAndPulses = "0.2*sin(2*PI*440*t)+0.1*sin(2*PI*2917*t)+0.01*(random(0)-0.5)+0.5*lt(mod(t,0.125),0.0002)"

// otherSide is such sound for a second channel, which cannot be taken for the first.
const otherSide = "0.2*sin(2*PI*523*t)+0.1*sin(2*PI*2489*t)+0.01*(random(1)-0.5)+0.5*lt(mod(t+0.04,0.125),0.0002)"

// around are the other channels of 5.1; the plan's two channels hold all but the
// deepest (LFE).
const around = "0.05*sin(2*PI*659*t)|0.05*sin(2*PI*60*t)|0.05*sin(2*PI*784*t)|0.05*sin(2*PI*988*t)"

// A portion that was made on its own, in any order, joins its neighbours without
// a gap, a click or a shift (Q16c): around a seam the error against the source is
// no larger than in the rest of the track, and every sample is at its time.
func TestSoundJoinsSeamlessly(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	const seconds = 19
	for name, c := range map[string]struct {
		sound   string
		options []string
	}{
		"mp4 48k stereo":   {tonesAndPulses + "|" + otherSide + ":s=48000", []string{"-c:a", "aac", "-f", "mp4"}},
		"mp4 44.1k mono":   {tonesAndPulses + ":s=44100", []string{"-c:a", "aac", "-f", "mp4"}},
		"mp4 mp3 vbr":      {tonesAndPulses + ":s=44100", []string{"-c:a", "libmp3lame", "-q:a", "2", "-f", "mp4"}},
		"mkv 44.1k stereo": {tonesAndPulses + "|" + otherSide + ":s=44100", []string{"-c:a", "aac", "-f", "matroska"}},
		"mkv 5.1":          {tonesAndPulses + "|" + otherSide + "|" + around + ":s=48000:c=5.1", []string{"-c:a", "ac3", "-f", "matroska"}},
		"webm opus":        {tonesAndPulses + ":s=48000", []string{"-c:v", "libvpx", "-deadline", "realtime", "-c:a", "libopus", "-f", "webm"}},
		"ts 44.1k":         {tonesAndPulses + ":s=44100", []string{"-c:a", "aac", "-f", "mpegts"}},
		"mkv vorbis":       {tonesAndPulses + ":s=44100", []string{"-c:a", "libvorbis", "-f", "matroska"}},
		"mov pcm":          {tonesAndPulses + ":s=32000", []string{"-c:a", "pcm_s16le", "-f", "mov"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "source")
			mediatest.FFmpeg(t, mediatest.Moving("32x32", "10", seconds), []string{"-f", "lavfi", "-i", "aevalsrc=" + quote(c.sound)},
				mediatest.X264(70), c.options, []string{"-t", strconv.Itoa(seconds), path})
			src, info := probe(t, tool, path)
			plan, err := media.Plan(info)
			if err != nil {
				t.Fatal(err)
			}
			plan = manySeams(plan)
			want := pcm(t, "-start_at_zero", "-i", path)
			track, samples := joinSound(t, tool, src, plan)
			whole := filepath.Join(t.TempDir(), "track.mp4")
			write(t, whole, track)
			got := pcm(t, "-i", whole)

			length := max(int64(len(want[0])), int64(math.Ceil(plan.DurationSeconds*video.SampleRate)))
			if n := samples - video.AACPacket; n != length && n+video.SampleRate/10 < length || n > length+1 { // a resampler rounds up
				t.Errorf("the track has %d samples, want %d", n, length)
			}
			for channel := range want {
				checkSeams(t, plan, channel, want[channel], got[channel])
			}
		})
	}
}

// quote keeps the commas of an expression from ending the filter's option.
func quote(expression string) string {
	if i := bytes.LastIndex([]byte(expression), []byte(":s=")); i > 0 {
		return "'" + expression[:i] + "'" + expression[i:]
	}
	return "'" + expression + "'"
}

// joinSound encodes every portion, the last one first, and joins them. One is
// encoded once more: the bytes are the same.
func joinSound(t *testing.T, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan) (track []byte, samples int64) {
	t.Helper()
	made := make([]video.AudioPart, len(plan.Sound))
	for i := len(made) - 1; i >= 0; i-- {
		made[i] = encodePortion(t, tool, src, plan, i)
	}
	for i, part := range made {
		data := read(t, part.Blob)
		if i == 1 && !bytes.Equal(read(t, encodePortion(t, tool, src, plan, i).Blob), data) {
			t.Errorf("portion %d has other bytes the second time", i)
		}
		for _, s := range part.Segments {
			samples += s.Samples
		}
		track = append(track, data...)
	}
	return track, samples
}

// pcm decodes the channels of a file, mixed to as many as ours have, so that sample n
// of each is at n ÷ rate.
func pcm(t *testing.T, input ...string) (channels [ffmpeg.AudioChannels][]float64) {
	t.Helper()
	args := append([]string{"-nostdin", "-v", "fatal", "-copyts"}, input...)
	raw := output(t, "ffmpeg", append(args, "-map", "0:a:0", "-af", "aresample=48000:async=1:min_comp=0.000001:first_pts=0,aformat=channel_layouts=stereo", "-f", "f32le", "-")...)
	for c := range channels {
		channels[c] = make([]float64, len(raw)/4/len(channels))
		for i := range channels[c] {
			channels[c][i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*(i*len(channels)+c):])))
		}
	}
	return channels
}

// checkSeams compares what is around every seam with the rest of the track, in one
// channel.
func checkSeams(t *testing.T, plan video.Plan, channel int, want, got []float64) {
	t.Helper()
	const window = pulseEvery // so that each holds one pulse
	end := min(len(want), len(got)) - window
	var elsewhere []float64
	seams := map[int]bool{}
	for _, p := range plan.Sound[1:] {
		if at := int(video.SoundPacket(p.First)-1) * video.AACPacket; at < end {
			seams[at] = true
		}
	}
	if len(seams) < 4 {
		t.Fatalf("%d seams in %v", len(seams), plan.Sound)
	}
	for at := window; at < end; at += window {
		near := false
		for seam := range seams {
			near = near || at > seam-2*window && at < seam+2*window
		}
		if !near {
			elsewhere = append(elsewhere, difference(want, got, at, window, 0))
		}
	}
	slices.Sort(elsewhere)
	usual := elsewhere[len(elsewhere)*9/10]
	// Sound of another channel is as loud, and wrong everywhere, not only at seams.
	if loud := difference(want, make([]float64, len(want)), 0, len(want), 0); usual > loud/4 {
		t.Errorf("channel %d: error %.5f where no seam is, the sound itself has %.5f", channel, usual, loud)
	}
	for seam := range seams {
		for _, at := range []int{seam - window/2, seam, seam + window} {
			best, lag := math.Inf(1), 0
			for shift := -100; shift <= 100; shift++ {
				if d := difference(want, got, at, window, shift); d < best {
					best, lag = d, shift
				}
			}
			if lag != 0 {
				t.Errorf("channel %d, sample %d, seam at %d: shifted by %d samples", channel, at, seam, lag)
			}
			if best > 1.25*usual {
				t.Errorf("channel %d, sample %d, seam at %d: error %.5f, elsewhere %.5f", channel, at, seam, best, usual)
			}
		}
		// Packet by packet, which shows a click.
		for at := seam - 2*video.AACPacket; at <= seam+video.AACPacket; at += video.AACPacket {
			if d := difference(want, got, at, video.AACPacket, 0); d > 2.5*usual {
				t.Errorf("channel %d, packet at sample %d, seam at %d: error %.5f, elsewhere %.5f", channel, at, seam, d, usual)
			}
		}
	}
	t.Logf("channel %d: error elsewhere: median %.5f, 90 %% below %.5f, worst %.5f", channel, elsewhere[len(elsewhere)/2], usual, elsewhere[len(elsewhere)-1])
}

// difference is the RMS of the difference of n samples, the second shifted.
func difference(a, b []float64, at, n, shift int) float64 {
	sum := 0.0
	for i := at; i < at+n; i++ {
		j := i + shift
		if i < 0 || i >= len(a) || j < 0 || j >= len(b) {
			continue
		}
		d := a[i] - b[j]
		sum += d * d
	}
	return math.Sqrt(sum / float64(n))
}

// A stretch far from the start of a track whose samples have to be counted costs no more
// disk than one that is near: else the sound of some hours would fill it.
func TestDistantSoundTakesLittleDisk(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	path := filepath.Join(t.TempDir(), "long")
	mediatest.FFmpeg(t, mediatest.Moving("32x32", "1", 150), mediatest.Hum(44100, 150), mediatest.X264(10), []string{"-c:a", "libvorbis", "-f", "matroska", path})
	src, info := probe(t, tool, path)
	plan, err := media.Plan(info)
	if err != nil {
		t.Fatal(err)
	}
	plan = manySeams(plan)
	ctx, used := ffmpeg.WithRuns(t.Context())
	if _, _, err := media.EncodePortion(ctx, tool, src, plan, len(plan.Sound)-2, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if most := int64(20 * 8 * video.SampleRate); used.Usage().Disk > most { // 20 s, as they are decoded
		t.Errorf("a stretch of some seconds took %d bytes, want at most %d", used.Usage().Disk, most)
	}
}
