package media

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

func source(width, height int, rate, avg string, seconds float64) ffmpeg.Info {
	v := ffmpeg.VideoStream{Codec: "h264", Width: width, Height: height, SAR: video.Rational{Num: 1, Den: 1}, End: seconds}
	v.FPS, _ = video.ParseRational(rate)
	v.AvgFPS, _ = video.ParseRational(avg)
	return ffmpeg.Info{Demuxer: "mov", Duration: seconds, Streams: 2, Video: v, HasAudio: true}
}

func TestLadderNeverEnlarges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width, height int
		want          string
	}{
		{1920, 1080, "1080p 1920x1080 5000k, 720p 1280x720 3000k, 480p 854x480 1400k, 240p 426x240 450k"},
		{3840, 2160, "2160p 3840x2160 14150k, 1080p 1920x1080 5000k, 720p 1280x720 3000k, 480p 854x480 1400k, 240p 426x240 450k"},
		{1280, 720, "720p 1280x720 3000k, 480p 854x480 1400k, 240p 426x240 450k"},
		{854, 480, "480p 854x480 1400k, 240p 428x240 450k"},
		{768, 432, "432p 768x432 1250k, 240p 426x240 450k"},
		{720, 1280, "720p 720x1280 3000k, 480p 480x854 1400k, 240p 240x426 450k"},
		{91, 161, "90p 90x160 150k"},
		{160, 90, "90p 160x90 150k"},
		{320, 241, "240p 318x240 450k"},
		{2000, 100, "100p 2000x100 850k"},
		{240, 240, "240p 240x240 450k"},
	} {
		got := ""
		for i, r := range ladder(c.width, c.height) {
			if i > 0 {
				got += ", "
			}
			got += fmt.Sprintf("%s %dx%d %dk", r.Name, r.Width, r.Height, r.MaxRate/1000)
			if r.Width > c.width || r.Height > c.height || r.Width%2 != 0 || r.Height%2 != 0 {
				t.Errorf("%d × %d: rendition %d × %d", c.width, c.height, r.Width, r.Height)
			}
		}
		if got != c.want {
			t.Errorf("ladder(%d, %d)\n got %s\nwant %s", c.width, c.height, got, c.want)
		}
	}
}

func TestGridKeepsConstantRates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rate, avg, want string }{
		{"30/1", "30/1", "30/1"},
		{"24000/1001", "24000/1001", "24000/1001"},
		{"30000/1001", "2997/100", "30000/1001"},
		{"25/2", "25/2", "25/2"},
		{"60/1", "60/1", "60/1"},
		{"60000/1001", "60000/1001", "60000/1001"},
		{"120/1", "120/1", "60/1"},
		{"100/1", "100/1", "50/1"},
		{"90/1", "90/1", "45/1"},
		{"1/1", "1/1", "5/1"},
		{"30/1", "2300/117", "30/1"},      // a gap
		{"60/1", "10/1", "24/1"},          // mostly still
		{"90000/1", "24671/1000", "25/1"}, // a time base, not a rate
		{"1000/1", "55/1", "60/1"},
		{"0/0", "0/0", "25/1"},
		{"0/0", "29971/1000", "30000/1001"},
		{"123457/4001", "123457/4001", "123457/4001"},
		{"1234577/40001", "1234577/40001", "30864/1000"},
	} {
		info := source(640, 360, c.rate, c.avg, 60)
		want, _ := video.ParseRational(c.want)
		if got := grid(info.Video); got.Num*want.Den != want.Num*got.Den {
			t.Errorf("grid(%s, average %s) = %s, want %s", c.rate, c.avg, got, c.want)
		}
	}
	interlaced := source(720, 576, "50/1", "25/1", 60).Video
	interlaced.Interlaced = true
	if got := grid(interlaced).String(); got != "50/1" {
		t.Errorf("interlaced: %s", got)
	}
}

func TestChunksRampUpAndCoverEveryFrame(t *testing.T) {
	t.Parallel()
	for _, seconds := range []float64{0.04, 1, 3.9, 4, 5, 6.1, 12, 28, 60, 600, 14399} {
		for _, size := range [][2]int{{160, 90}, {1280, 720}, {1920, 1080}, {3840, 2160}} {
			for _, rate := range []string{"30/1", "24000/1001", "25/2", "5/1", "60/1"} {
				p, err := Plan(source(size[0], size[1], rate, rate, seconds))
				if seconds > 14000 && size[0] == 3840 && rate == "60/1" {
					continue // refused
				}
				if err != nil {
					t.Fatal(err)
				}
				next, segment := int64(0), 0
				for i, c := range p.Chunks {
					if c.From != next || c.To <= c.From {
						t.Fatalf("%v s at %s: chunk %d of %v", seconds, rate, i, p.Chunks)
					}
					if len(p.SegmentsBefore(i)) != segment {
						t.Fatalf("%v s at %s: chunk %d of %v starts with segment %d", seconds, rate, i, p.Chunks, len(p.SegmentsBefore(i)))
					}
					for left := c.To - c.From; left > 0; left -= p.SegmentFrames {
						if chunk, at, planned := p.ChunkOfSegment(segment); !planned || chunk != i || at != segment-len(p.SegmentsBefore(i)) {
							t.Fatalf("%v s at %s: segment %d of %v is in chunk %d", seconds, rate, segment, p.Chunks, chunk)
						}
						segment++
					}
					if i > 0 && 2*(c.To-c.From) < p.SegmentFrames {
						t.Errorf("%v s at %s: chunk %d has only %d frames", seconds, rate, i, c.To-c.From)
					}
					next = c.To
				}
				if len(p.Chunks) > 1000 {
					t.Errorf("%v s at %s: %d chunks", seconds, rate, len(p.Chunks))
				}
				if next != p.Frames || p.Frames < 1 {
					t.Errorf("%v s at %s: %d frames in chunks, %d planned", seconds, rate, next, p.Frames)
				}
				if n := ffmpeg.TilesIn(p, 0, p.Frames); n < 1 || n > 100 {
					t.Errorf("%v s at %s: %d tiles", seconds, rate, n)
				}
				if p.PosterFrame < 0 || p.PosterFrame >= p.Frames {
					t.Errorf("%v s at %s: poster is frame %d of %d", seconds, rate, p.PosterFrame, p.Frames)
				}
			}
		}
	}
}

func TestHeavyPicturesGetShortChunks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width, height int
		rate          string
		want          []float64 // seconds of the first chunks
	}{
		{1280, 720, "30/1", []float64{2, 4, 8, 16, 32, 32}},
		{1920, 1080, "30/1", []float64{2, 4, 8, 16, 16, 16}},
		{3840, 2160, "60/1", []float64{2, 4, 4, 4, 4}},
	} {
		p, err := Plan(source(c.width, c.height, c.rate, c.rate, 600))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if got := p.FPS.Seconds(p.Chunks[i].To - p.Chunks[i].From); got != want {
				t.Errorf("%d × %d at %s: chunk %d lasts %v s, want %v", c.width, c.height, c.rate, i, got, want)
			}
		}
	}
}

func TestDisplayedSize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width, height, rotation int
		sar                     video.Rational
		wantW, wantH            int
	}{
		{1920, 1080, 0, video.Rational{Num: 1, Den: 1}, 1920, 1080},
		{1920, 1080, 90, video.Rational{Num: 1, Den: 1}, 1080, 1920},
		{1920, 1080, 180, video.Rational{Num: 1, Den: 1}, 1920, 1080},
		{720, 576, 0, video.Rational{Num: 64, Den: 45}, 1024, 576},
		{720, 480, 0, video.Rational{Num: 8, Den: 9}, 720, 540},
		{720, 480, 270, video.Rational{Num: 32, Den: 27}, 480, 853},
		{640, 480, 0, video.Rational{Num: 65535, Den: 1}, 640, 480},
	} {
		v := ffmpeg.VideoStream{Width: c.width, Height: c.height, Rotation: c.rotation, SAR: c.sar}
		if w, h := displayed(v); w != c.wantW || h != c.wantH {
			t.Errorf("displayed(%+v) = %d × %d, want %d × %d", v, w, h, c.wantW, c.wantH)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*ffmpeg.Info)
		want   engine.Code
	}{
		"pixels": {func(i *ffmpeg.Info) { i.Video.Width = 30000 }, video.TooManyPixels},
		"pixels-of-all-frames": {func(i *ffmpeg.Info) {
			i.Video.Width, i.Video.Height, i.Video.End = 4096, 2304, 3*3600
			i.Video.FPS, i.Video.AvgFPS = video.Rational{Num: 60, Den: 1}, video.Rational{Num: 60, Den: 1}
		}, video.TooManyPixels},
		"small":    {func(i *ffmpeg.Info) { i.Video.Height = 15 }, video.TooSmall},
		"streams":  {func(i *ffmpeg.Info) { i.Streams = 17 }, video.TooManyStreams},
		"long":     {func(i *ffmpeg.Info) { i.Video.End = 4*3600 + 1 }, video.TooLong},
		"long-any": {func(i *ffmpeg.Info) { i.Duration = (5 * time.Hour).Seconds() }, video.TooLong},
		"frames": {func(i *ffmpeg.Info) { // of which some would be left out
			i.Video.FPS, i.Video.AvgFPS, i.Video.End = video.Rational{Num: 1000, Den: 1}, video.Rational{Num: 1000, Den: 1}, 1001
		}, video.TooManyFrames},
	} {
		info := source(640, 360, "30/1", "30/1", 10)
		c.change(&info)
		var failure *engine.Failure
		if _, err := Plan(info); !errors.As(err, &failure) || failure.Code != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	info := source(640, 360, "30/1", "30/1", 0)
	info.NeedsRemux = true
	if _, err := Plan(info); err == nil {
		t.Error("a source without duration has a plan")
	}
}

func TestMarginsGrowToTheStart(t *testing.T) {
	t.Parallel()
	fps := video.Rational{Num: 40, Den: 1}
	for from, want := range map[int64]string{
		0:   "[-1]",
		120: "[0.2 0.8 -1]",
		900: "[0.2 0.8 3.2 12.8 -1]",
	} {
		if got := fmt.Sprint(margins(fps, video.Chunk{From: from})); got != want {
			t.Errorf("margins before frame %d = %s, want %s", from, got, want)
		}
	}
}

// A viewer begins with the first portion of sound. A portion has ten minutes at most, the
// last one up to fifteen because a short rest joins it; they cost a core some 20 s (Q16c).
func TestSoundIsCutIntoPortions(t *testing.T) {
	t.Parallel()
	for _, seconds := range []float64{0.04, 1, 5, 14, 28, 60, 600, 3600, 14399} {
		p, err := Plan(source(1280, 720, "30/1", "30/1", seconds))
		if err != nil {
			t.Fatal(err)
		}
		next := 0
		for i, s := range p.Sound {
			if s.First != next || s.End <= s.First {
				t.Fatalf("%v s: portion %d of %v", seconds, i, p.Sound)
			}
			next = s.End
			from, to := video.SoundPacket(s.First), video.SoundPacket(s.End)
			length := float64((to-from)*video.AACPacket) / video.SampleRate
			if length > 16 && i == 0 || length > 15.1*60 {
				t.Errorf("%v s: portion %d has %.0f s", seconds, i, length)
			}
		}
		if end := video.SoundPacket(next) * video.AACPacket; end < int64(seconds*video.SampleRate) {
			t.Errorf("%v s: the portions end with sample %d", seconds, end)
		}
		// The first segment may be listed beside the first chunk of the video.
		sound := float64(video.SoundPacket(1)*video.AACPacket) / video.SampleRate
		if chunk := p.FPS.Seconds(p.Chunks[0].To); seconds > 4 && sound > chunk {
			t.Errorf("%v s: the first chunk has %.3f s, the first segment of sound %.3f s", seconds, chunk, sound)
		}
	}
}
