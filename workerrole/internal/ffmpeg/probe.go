package ffmpeg

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	ff "github.com/u2takey/ffmpeg-go"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// Info is what ffprobe found in a source that can be processed. Times are in seconds.
type Info struct {
	Demuxer  string  // ffmpeg's name of the container; goes to Source.Demuxer
	Start    float64 // earliest timestamp of any stream: the zero of every time below
	Duration float64 // of the container, from Start; 0 when it does not say
	Streams  int     // of pictures and sound

	Video    VideoStream
	HasAudio bool // there is an audio stream that can be decoded
	Audio    AudioStream
	Notices  []video.Notice // what of the source is left out

	// NeedsRemux says that the source cannot be cut as it is: it has no duration or index,
	// or times of its streams may jump or begin apart. Remux it, then probe the result.
	NeedsRemux bool
	// CanToneMap says that this ffmpeg can show HDR on ordinary screens.
	CanToneMap bool
}

// VideoStream is the video that is shown: the first that is not cover art.
type VideoStream struct {
	Codec         string
	Width, Height int            // coded pixels
	SAR           video.Rational // shape of a pixel, 1/1 when unknown
	Rotation      int            // degrees: 0, 90, 180 or 270
	FPS           video.Rational // the lowest rate that holds every timestamp; zero when unknown
	AvgFPS        video.Rational // frames ÷ duration; zero when unknown
	Interlaced    bool
	HDR           string  // transfer function when it is HDR: "smpte2084" or "arib-std-b67"
	FullRange     bool    // black is 0 and not 16
	Primaries     string  // when it says how its numbers become colours; else players guess
	Wide          bool    // SDR, with colours that screens of BT.709 do not have
	End           float64 // end of the last frame, from Info.Start

	index int // of the stream
}

// AudioStream is the sound that is heard.
type AudioStream struct {
	video.Heard
	Codec string
	End   float64 // end of the last packet, from Info.Start; 0 when unknown

	index int // of the stream; -1 without one
}

// Probe looks at the source: what is in it, and where its video really ends.
//
// A *engine.Failure is permanent: the bytes are to blame (Q15). Any other error is trouble
// that may pass. Probe changes nothing and may be repeated.
func (t *Tool) Probe(ctx context.Context, src Source) (Info, error) {
	raw, err := t.probeStreams(ctx, src)
	if err != nil {
		return Info{}, err
	}
	info, err := raw.info(t.decodes)
	if err != nil {
		return Info{}, err
	}
	src.Demuxer = info.Demuxer
	info.CanToneMap = t.HasToneMap
	if info.NeedsRemux {
		return info, nil
	}
	return t.probeEnd(ctx, src, info)
}

func (t *Tool) ffprobe(ctx context.Context, src Source, out io.Writer, args ...string) error {
	globals, input := []string{"-hide_banner", "-v", "error"}, []string{"-i", src.input()}
	all := slices.Concat(globals, ff.ConvertKwargsToCmdLineArgs(t.guard(src)), args, input)
	_, err := t.run(ctx, command{path: t.FFprobe, args: all, source: src, stdout: out, limits: probing})
	return err
}

// entries are what is used of ffprobe's answer. Tags may be of any number and size.
const entries = "error=code:format=format_name,start_time,duration:" +
	"stream=index,codec_type,codec_name,codec_tag_string,width,height,sample_aspect_ratio,field_order,color_transfer," +
	"pix_fmt,color_range,color_space,color_primaries,r_frame_rate,avg_frame_rate,start_time,duration,sample_rate,channels,channel_layout:" +
	"stream_disposition=attached_pic,timed_thumbnails,default:stream_side_data=side_data_type,rotation"

func (t *Tool) probeStreams(ctx context.Context, src Source) (probed, error) {
	var out bytes.Buffer
	if src.served != nil {
		src.served.left.Store(maxMetadata)
		defer src.served.left.Store(math.MaxInt64)
	}
	err := t.ffprobe(ctx, src, &out, "-show_entries", entries, "-of", "json")
	var p probed
	unread := json.Unmarshal(out.Bytes(), &p)
	if exit := (*RunError)(nil); errors.As(err, &exit) {
		return p, refused(p.Error.Code, exit.Stderr)
	}
	if err = cmp.Or(err, unread); err != nil {
		err = fmt.Errorf("probing the source: %w", err)
	}
	return p, err
}

// averrorNoMemory is AVERROR(ENOMEM), as ffprobe prints it.
const averrorNoMemory = -12

var complainer = regexp.MustCompile(`(?m)^\[([a-z0-9_,]+) @ 0x[0-9a-f]+\]`)

func tooMuchMetadata() error {
	return engine.Fail(video.TooMuchMetadata, "What the file holds beside pictures and sound (tags, attached files, lists of frames) is more than %d MiB.", maxMetadata>>20)
}

// audioDemuxers hold sound only; a picture in one is cover art.
var audioDemuxers = map[string]bool{
	"mp3": true, "wav": true, "flac": true, "aac": true, "aiff": true, "amr": true, "ac3": true, "w64": true, "wv": true, "ape": true, "opus": true,
}

// refused turns ffprobe's refusal of a source that could be read into a permanent failure.
func refused(code int, stderr string) error {
	demuxer := ""
	if m := complainer.FindStringSubmatch(stderr); m != nil {
		demuxer = m[1]
	}
	switch {
	// ffmpeg (5.1) has no other way to say these three.
	case strings.Contains(stderr, "max pixel count"):
		return engine.Fail(video.TooManyPixels, "A picture has more than %d pixels.", maxPixels)
	case strings.Contains(stderr, "max_streams"):
		return engine.Fail(video.TooManyStreams, "The file has more than %d streams.", maxStreams)
	case strings.Contains(stderr, "not on whitelist"):
		if audioDemuxers[demuxer] {
			return engine.Fail(video.NoVideoStream, "This is an audio file.")
		}
		return engine.Fail(video.UnsupportedMedia, "The file is in none of the containers that are read: %s.", video.ContainerNames())
	case code == averrorNoMemory:
		return tooMuchMetadata()
	case code == 0: // it got past the container, and ended without naming a reason
		return engine.Fail(video.UnsupportedMedia, "A stream of the file is coded in a way that we cannot open.")
	}
	if slices.ContainsFunc(video.Containers, func(c video.Container) bool { return strings.HasPrefix(demuxer, c.Demuxer) }) {
		return engine.Fail(video.CorruptMedia, "The file begins like a video, but its structure is damaged or incomplete.")
	}
	return engine.Fail(video.UnsupportedMedia, "The file is not a video that we can read.")
}

// probed is ffprobe's answer, without members that it cannot tell.
type probed struct {
	Error struct {
		Code int `json:"code"`
	} `json:"error"`
	Format struct {
		Name     string  `json:"format_name"`
		Start    float64 `json:"start_time,string"`
		Duration float64 `json:"duration,string"`
	} `json:"format"`
	Streams []probedStream `json:"streams"`
}

type probedStream struct {
	Index       int            `json:"index"`
	Type        string         `json:"codec_type"`
	Codec       string         `json:"codec_name"`
	Tag         string         `json:"codec_tag_string"`
	Width       int            `json:"width"`
	Height      int            `json:"height"`
	SAR         string         `json:"sample_aspect_ratio"`
	FieldOrder  string         `json:"field_order"`
	Transfer    string         `json:"color_transfer"`
	Pixels      string         `json:"pix_fmt"`
	Range       string         `json:"color_range"`
	Matrix      string         `json:"color_space"`
	Primaries   string         `json:"color_primaries"`
	FPS         string         `json:"r_frame_rate"`
	AvgFPS      string         `json:"avg_frame_rate"`
	Start       float64        `json:"start_time,string"`
	Duration    float64        `json:"duration,string"`
	SampleRate  string         `json:"sample_rate"`
	Channels    int            `json:"channels"`
	Layout      string         `json:"channel_layout"`
	Disposition map[string]int `json:"disposition"`
	SideData    []sideData     `json:"side_data_list"`
}

type sideData struct {
	Type     string  `json:"side_data_type"`
	Rotation float64 `json:"rotation"`
}

// info picks what is seen and heard, and says what is wrong with the file as a whole.
func (p probed) info(decodes map[string]bool) (Info, error) {
	demuxer, _, _ := strings.Cut(p.Format.Name, ",")
	info := Info{Demuxer: demuxer, Start: p.Format.Start, Duration: p.Format.Duration}
	var pick *probedStream
	for i := range p.Streams {
		s := &p.Streams[i]
		if s.encrypted() {
			return info, errEncrypted()
		}
		if s.Type == "video" || s.Type == "audio" { // fonts and data cost nothing
			info.Streams++
		}
		if s.Type == "video" && pick == nil && s.Disposition["attached_pic"] == 0 && s.Disposition["timed_thumbnails"] == 0 {
			pick = s
		}
	}
	if pick == nil {
		return info, engine.Fail(video.NoVideoStream, "The file holds no video.")
	}
	info.Audio, info.HasAudio, info.Notices = p.sound(decodes)
	if !pick.known() || !decodes[pick.Codec] {
		return info, engine.Fail(video.UnsupportedMedia, "The video is coded in a way that we cannot decode.")
	}
	if pick.Width <= 0 || pick.Height <= 0 {
		return info, engine.Fail(video.CorruptMedia, "The video's size cannot be read.")
	}
	info.Video = pick.video()
	info.Video.End = info.Duration
	if pick.Duration > 0 {
		info.Video.End = max(0, pick.Start-info.Start) + pick.Duration
	}
	// Only these two have an index of all streams on one time line. Elsewhere times jump
	// where recordings were joined, streams begin apart, and a seek reads from the start.
	indexed := demuxer == "mov" || demuxer == "matroska"
	info.NeedsRemux = !indexed || info.Duration <= 0
	return info, nil
}

// sound picks, of the tracks that can be decoded, the first default one, else the first.
func (p probed) sound(decodes map[string]bool) (heard AudioStream, found bool, notices []video.Notice) {
	var tracks []probedStream
	for _, s := range p.Streams {
		if s.Type == "audio" {
			tracks = append(tracks, s)
		}
	}
	var pick probedStream
	for i, s := range tracks {
		rate, _ := strconv.Atoi(s.SampleRate)
		flagged := s.Disposition["default"] == 1 && pick.Disposition["default"] == 0
		if s.known() && decodes[s.Codec] && rate > 0 && s.Channels > 0 && (!found || flagged) {
			pick, found, heard.Track = s, true, i
		}
	}
	if !found {
		if len(tracks) > 0 {
			notices = append(notices, video.AudioNotDecodable)
		}
		return AudioStream{index: -1}, false, notices
	}
	heard.index, heard.Codec = pick.Index, pick.Codec
	heard.Discrete = pick.Channels > namedChannels && (pick.Layout == "" || pick.Layout == "unknown")
	if next := heard.Track + 1; next < len(tracks) {
		heard.Pair = strings.Contains(pick.Layout, "(FL)") && strings.Contains(tracks[next].Layout, "(FR)") && tracks[next].Codec == pick.Codec
	}
	return heard, true, nil
}

// namedChannels is up to how many unnamed channels ffmpeg takes the usual order for granted.
const namedChannels = 8

func errEncrypted() error {
	return engine.Fail(video.EncryptedMedia, "The file is encrypted.")
}

func (s probedStream) known() bool {
	return s.Codec != "" && s.Codec != "unknown" && s.Codec != "none"
}

// primaries are those of a stream that says how its numbers become colours, or that holds
// colours themselves; empty for one that leaves it to the player.
func (s probedStream) primaries() string {
	rgb := strings.Contains(s.Pixels, "rgb") || strings.Contains(s.Pixels, "bgr") || strings.HasPrefix(s.Pixels, "gbr") || s.Pixels == "pal8"
	unknown := func(tag string) bool { return tag == "" || tag == "unknown" || tag == "reserved" }
	switch {
	case !rgb && unknown(s.Matrix) && s.Range != "pc":
		return ""
	case !namedPrimaries[s.Primaries], wide[s.Primaries] && !rgb && unknown(s.Matrix): // the latter cannot be mapped
		return "bt709"
	}
	return s.Primaries
}

// namedPrimaries are those that a rendition can say.
var namedPrimaries = map[string]bool{
	"bt709": true, "bt470m": true, "bt470bg": true, "smpte170m": true, "smpte240m": true, "bt2020": true, "smpte431": true, "smpte432": true,
}

// wide are primaries of colours that screens of BT.709 lack, where players differ.
var wide = map[string]bool{"bt2020": true, "smpte431": true, "smpte432": true}

func (s probedStream) encrypted() bool {
	return s.Tag == "encv" || s.Tag == "enca" ||
		slices.ContainsFunc(s.SideData, func(d sideData) bool { return strings.HasPrefix(d.Type, "Encryption") })
}

func (s probedStream) video() VideoStream {
	v := VideoStream{Codec: s.Codec, Width: s.Width, Height: s.Height, SAR: video.Rational{Num: 1, Den: 1}, index: s.Index}
	if sar, err := video.ParseRational(strings.Replace(s.SAR, ":", "/", 1)); err == nil {
		v.SAR = sar
	}
	v.FPS, _ = video.ParseRational(s.FPS)
	v.AvgFPS, _ = video.ParseRational(s.AvgFPS)
	v.Interlaced = slices.Contains([]string{"tt", "bb", "tb", "bt"}, s.FieldOrder)
	if s.Transfer == "smpte2084" || s.Transfer == "arib-std-b67" {
		v.HDR = s.Transfer
	}
	v.FullRange = s.Range == "pc"
	v.Primaries = s.primaries()
	v.Wide = v.HDR == "" && wide[v.Primaries]
	for _, d := range s.SideData {
		if quarter := int(math.Round(d.Rotation / 90)); quarter != 0 {
			v.Rotation = ((quarter*90)%360 + 360) % 360
		}
	}
	return v
}
