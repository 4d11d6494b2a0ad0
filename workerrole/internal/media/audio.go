package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/Eyevinn/mp4ff/aac"
	"github.com/Eyevinn/mp4ff/mp4"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

const (
	// preroll is how many packets before its first one a portion is encoded from. They
	// are dropped: from then on the encoder does what it would do if it had run from the
	// start. After 16, or 64, two sides that differ still had several times the usual error.
	preroll   = 128
	lookahead = 2 // packets beyond its last one: the encoder looks ahead
	// shortestAudio is the length below which a last segment is dropped: the
	// priming samples of AAC shift it out of its own time, and players then
	// wait for ever for something to fill the gap.
	shortestAudio = video.SampleRate / 10 // samples
	unheard       = 0.5                   // seconds that may be missing at the end: a packet that was cut, or two
)

// The lengths of portions, in segments. The first is what a viewer needs to
// begin, and of a film that is still being sent it has to arrive before. The
// longest costs a core about ten seconds.
const (
	firstPortion   = 2
	longestPortion = 150
	portionGrowth  = 3
)

// portions cuts a track. A short rest joins the portion before it.
func portions(seconds float64) []video.SoundPortion {
	samples := int64(math.Ceil(seconds * video.SampleRate))
	total := 1
	for video.SoundPacket(total)*video.AACPacket < samples {
		total++
	}
	var list []video.SoundPortion
	for first, n := 0, firstPortion; first < total; n = min(portionGrowth*n, longestPortion) {
		end := first + n
		if end+n/2 >= total {
			end = total
		}
		list = append(list, video.SoundPortion{First: first, End: end})
		first = end
	}
	return list
}

// EncodePortion encodes one portion of the audio track into dir, which must exist. Any
// worker can do any portion at any time: neighbours join without a gap, a click or a shift.
// A track that ends before the video is filled with silence: a player would stop where it
// ends. A portion beyond the end of a longer one has no segments. truncated says that the
// source has sound beyond what could be decoded. The part's blob is a local file.
//
// A *engine.Failure says that the sound is broken; any other error may pass.
// Repeating the call gives the same bytes (Q8, Q16c).
func EncodePortion(ctx context.Context, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan, index int, dir string) (part video.AudioPart, truncated bool, _ error) {
	p, last := plan.Sound[index], index == len(plan.Sound)-1
	if last {
		p.End += longestPortion // a track that goes on beyond its promise is cut off there
	}
	part, end, err := encodePortion(ctx, tool, src, plan, p, dir)
	return part, last && float64(end)/video.SampleRate < plan.SoundSeconds-unheard, err
}

// encodePortion also returns where the decoded sound ends, in samples of the track.
func encodePortion(
	ctx context.Context, tool *ffmpeg.Tool, src ffmpeg.Source, plan video.Plan, p video.SoundPortion, dir string,
) (part video.AudioPart, end int64, _ error) {
	from, to := video.SoundPacket(p.First), video.SoundPacket(p.End)
	start := max(0, from-preroll-1) // packet n is made of the samples of packets n-1 and n
	job := ffmpeg.SoundJob{
		Source: src, Dir: dir,
		From: start * video.AACPacket, To: (to + lookahead) * video.AACPacket,
		Pad: int64(math.Ceil(plan.DurationSeconds * video.SampleRate)),
	}
	end, err := tool.Sound(ctx, job)
	if errors.As(err, new(*ffmpeg.RunError)) {
		err = engine.Fail(video.CorruptMedia, "The sound cannot be decoded.")
	}
	if err != nil {
		return part, end, err
	}
	packets, err := readPackets(filepath.Join(dir, ffmpeg.SoundFile))
	if err != nil {
		return part, end, err
	}
	packets = packets[min(len(packets), int(from-start)):]
	// Up to the end of the video nothing may be missing.
	if want := min(to, job.Pad/video.AACPacket) - from; int64(len(packets)) < want {
		return part, end, fmt.Errorf("encoding sound: %d packets came out, %d are needed", len(packets), want)
	}
	part, err = writePortion(p, packets, filepath.Join(dir, "audio.m4s"))
	return part, end, err
}

func readPackets(path string) (packets []mp4.FullSample, _ error) {
	parsed, err := mp4.ReadMP4File(path)
	if err != nil {
		return nil, fmt.Errorf("reading the encoded sound: %w", err)
	}
	for _, segment := range parsed.Segments { // none when there was nothing to encode
		for _, fragment := range segment.Fragments {
			samples, err := fragment.GetFullSamples(parsed.Moov.Mvex.Trex)
			if err != nil {
				return nil, fmt.Errorf("reading the encoded sound: %w", err)
			}
			packets = append(packets, samples...)
		}
	}
	return packets, nil
}

// writePortion makes segments of packets, of which the first is that of the portion. Only the
// portion that starts with segment 0 holds the init segment, which is the same for all.
func writePortion(p video.SoundPortion, packets []mp4.FullSample, path string) (video.AudioPart, error) {
	part := video.AudioPart{First: p.First, Blob: path, Codecs: "mp4a.40.2", Channels: ffmpeg.AudioChannels}
	var out bytes.Buffer
	if p.First == 0 {
		if err := writeInit(&out); err != nil {
			return part, fmt.Errorf("writing the init segment of audio: %w", err)
		}
		part.Init = video.Range{Length: int64(out.Len())}
	}
	for segment, from := p.First, video.SoundPacket(p.First); segment < p.End; segment++ {
		n := min(int(video.SoundPacket(segment+1)-from), len(packets))
		offset := int64(out.Len())
		samples, err := writeSegment(&out, segment, from, packets[:n])
		if err != nil {
			return part, err
		}
		if samples == 0 || samples < shortestAudio && segment > 0 { // the end of the track
			out.Truncate(int(offset))
			break
		}
		part.Segments = append(part.Segments, video.AudioSegment{
			Samples: samples, Range: video.Range{Offset: offset, Length: int64(out.Len()) - offset},
		})
		packets, from = packets[n:], from+int64(n)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		return part, fmt.Errorf("writing audio segments: %w", err)
	}
	return part, nil
}

// writeInit writes the init segment. Its edit list drops the first packet, which is priming.
func writeInit(out *bytes.Buffer) error {
	init := mp4.CreateEmptyInit()
	trak := init.AddEmptyTrack(video.SampleRate, "audio", "und")
	if err := trak.SetAACDescriptor(aac.AAClc, video.SampleRate); err != nil {
		return err
	}
	edit := &mp4.EdtsBox{}
	edit.AddChild(&mp4.ElstBox{Entries: []mp4.ElstEntry{{MediaTime: video.AACPacket, MediaRateInteger: 1}}})
	trak.AddChild(edit)
	return init.Encode(out)
}

// writeSegment writes one segment and returns its length in samples.
func writeSegment(out *bytes.Buffer, number int, first int64, packets []mp4.FullSample) (samples int64, err error) {
	if len(packets) == 0 {
		return 0, nil
	}
	fragment, err := mp4.CreateFragment(uint32(number)+1, mp4.DefaultTrakID)
	if err != nil {
		return 0, fmt.Errorf("making audio segment %d: %w", number, err)
	}
	fragment.EncOptimize = mp4.OptimizeTrun
	for _, p := range packets {
		p.Flags, p.DecodeTime = mp4.SyncSampleFlags, uint64(first*video.AACPacket+samples)
		fragment.AddFullSample(p)
		samples += int64(p.Dur)
	}
	if err := fragment.Encode(out); err != nil {
		return 0, fmt.Errorf("writing audio segment %d: %w", number, err)
	}
	return samples, nil
}
