package hostile_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// maker makes the bytes of a file.
type maker func(t *testing.T) []byte

// making lets as many clips be made at once as most machines have processors for.
var making = make(chan struct{}, 2)

// ffmpeg makes a file and returns its bytes. It is an MP4 unless args say otherwise.
func ffmpeg(t *testing.T, args ...string) []byte {
	t.Helper()
	making <- struct{}{}
	defer func() { <-making }()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	args = append([]string{"-nostdin", "-v", "error"}, append(args, "-threads", "1", path)...)
	if out, err := exec.CommandContext(t.Context(), "ffmpeg", args...).CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Parts of command lines.
const (
	moving = "-f lavfi -i testsrc2=s=160x90:r=15:d=2"
	tiny   = "-f lavfi -i testsrc2=s=64x64:r=5:d=1"
	hum    = "-f lavfi -i anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=2"
	x264   = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p"
	aac    = "-c:a aac -b:a 48k"
)

// made is a file that ffmpeg makes. Words are separated by spaces, so no argument has one.
func made(parts ...string) maker {
	return func(t *testing.T) []byte {
		t.Helper()
		return ffmpeg(t, strings.Fields(strings.Join(parts, " "))...)
	}
}

// of is a file that is made from another one.
func of(from maker, change func(t *testing.T, data []byte) []byte) maker {
	return func(t *testing.T) []byte {
		t.Helper()
		return change(t, from(t))
	}
}

// joined is one file after the other.
func joined(first, second maker) maker {
	return of(first, func(t *testing.T, data []byte) []byte {
		t.Helper()
		return append(data, second(t)...)
	})
}

// longTags puts tags before the first cluster of a live Matroska file, whose segment has
// no size.
func longTags(count, size int) func(*testing.T, []byte) []byte {
	element := func(id string, content ...[]byte) []byte { // with a length of eight bytes
		body := slices.Concat(content...)
		return slices.Concat([]byte(id), binary.BigEndian.AppendUint64(nil, 1<<56|uint64(len(body))), body)
	}
	return func(t *testing.T, data []byte) []byte {
		t.Helper()
		cluster := bytes.Index(data, []byte("\x1f\x43\xb6\x75"))
		if cluster < 0 {
			t.Fatal("no cluster")
		}
		simple := element("\x67\xc8", element("\x45\xa3", []byte("TITLE")), element("\x44\x87", bytes.Repeat([]byte{1}, size)))
		tags := element("\x12\x54\xc3\x67", bytes.Repeat(element("\x73\x73", element("\x63\xc0"), simple), count))
		return slices.Concat(data[:cluster], tags, data[cluster:])
	}
}

// once makes a file a single time for all who want it.
func once(m maker) maker {
	var mu sync.Mutex
	var data []byte
	return func(t *testing.T) []byte {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if data == nil {
			data = m(t)
		}
		return slices.Clone(data)
	}
}

// good is an ordinary film, with its index in front. seconds may be 2 or more.
func good(seconds string) maker {
	return made("-f lavfi -i testsrc2=s=160x90:r=15:d="+seconds, "-f lavfi -i anoisesrc=c=pink:a=0.2:r=48000:seed=1:d="+seconds, x264, aac, "-movflags +faststart")
}

func text(content string) maker {
	return func(*testing.T) []byte { return []byte(content) }
}

// playlist is an HLS playlist that names one address.
func playlist(address string) maker {
	return text("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n" + address + "\n#EXT-X-ENDLIST\n")
}

func manifest(address string) string {
	return `<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:isoff-on-demand:2011" type="static" mediaPresentationDuration="PT10S">` +
		`<Period><AdaptationSet mimeType="video/mp4"><Representation id="1" bandwidth="1000" width="64" height="64"><BaseURL>` + address +
		`</BaseURL></Representation></AdaptationSet></Period></MPD>`
}

// disguised is a DASH manifest that the web role does not take for text: its last byte is
// none of text, and ffmpeg reads the manifest all the same.
func disguised(address string) maker {
	return text(manifest(address) + "\x00")
}

// box is one of the boxes that an MP4 is made of.
func box(kind string, content ...[]byte) []byte {
	body := bytes.Join(content, nil)
	return slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(8+len(body))), []byte(kind), body)
}

var ftyp = box("ftyp", []byte("isom\x00\x00\x02\x00isomiso2"))

// nested is a box within a box and so on, moov outermost.
func nested(depth int) maker {
	return func(*testing.T) []byte {
		var moov bytes.Buffer
		for i := range depth {
			_ = binary.Write(&moov, binary.BigEndian, uint32(8*(depth-i)))
			kind := "trak"
			if i == 0 {
				kind = "moov"
			}
			moov.WriteString(kind)
		}
		return append(slices.Clone(ftyp), moov.Bytes()...)
	}
}

// overwrite puts bytes at a distance behind the nth place where the name of a box is.
func overwrite(kind string, nth, behind int, with ...byte) func(*testing.T, []byte) []byte {
	return func(t *testing.T, data []byte) []byte {
		t.Helper()
		at := 0
		for range nth {
			next := bytes.Index(data[at:], []byte(kind))
			if next < 0 {
				t.Fatalf("the file has no %s that often", kind)
			}
			at += next + len(kind)
		}
		copy(data[at+behind:], with)
		return data
	}
}

func cut(share float64) func(*testing.T, []byte) []byte {
	return func(_ *testing.T, data []byte) []byte { return data[:int(float64(len(data))*share)] }
}

func until(mark string) func(*testing.T, []byte) []byte {
	return func(t *testing.T, data []byte) []byte {
		t.Helper()
		at := bytes.Index(data, []byte(mark))
		if at < 0 {
			t.Fatalf("the file has no %s", mark)
		}
		return data[:at-4] // the size stands before the name
	}
}

// scattered changes bytes of a file, drawn by seed: anywhere, or in the boxes that hold
// times only.
func scattered(seed uint64, boxes ...string) func(*testing.T, []byte) []byte {
	return func(_ *testing.T, data []byte) []byte {
		draw := rand.New(rand.NewPCG(seed, 1))
		if len(boxes) == 0 {
			for range 100 {
				data[32+draw.IntN(len(data)-32)] = byte(draw.Uint32())
			}
			return data
		}
		for _, kind := range boxes {
			for at := 0; ; {
				next := bytes.Index(data[at:], []byte(kind))
				if next < 0 {
					break
				}
				at += next + len(kind)
				for range 4 {
					data[min(at+4+draw.IntN(24), len(data)-1)] = byte(draw.Uint32())
				}
			}
		}
		return data
	}
}

func noise(n int, head []byte) maker {
	return func(*testing.T) []byte {
		data := make([]byte, n)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
		return append(slices.Clone(head), data...)
	}
}

// streams is a film with one stream n times.
func streams(n int) maker {
	return func(t *testing.T) []byte {
		t.Helper()
		one := filepath.Join(t.TempDir(), "one.mp4")
		if err := os.WriteFile(one, made(tiny, x264)(t), 0o600); err != nil {
			t.Fatal(err)
		}
		return made("-i "+one, strings.Repeat("-map 0 ", n), "-c copy -f mp4")(t)
	}
}

// subtitles that only contain words.
func subtitles(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "words.srt")
	if err := os.WriteFile(path, []byte("1\n00:00:00,000 --> 00:00:02,000\nhello\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return made("-i "+path, "-c:s mov_text -f mp4")(t)
}

// gab2 is an AVI whose only stream is subtitles of the kind GAB2 that are a playlist: the
// trick of 2017, with which ffmpeg opened other files.
func gab2(address string) maker {
	return func(t *testing.T) []byte {
		t.Helper()
		chunk := func(id string, content ...[]byte) []byte {
			body := bytes.Join(content, nil)
			if len(body)%2 == 1 {
				body = append(body, 0)
			}
			return slices.Concat([]byte(id), binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body)
		}
		words := func(values ...uint32) []byte {
			var b []byte
			for _, v := range values {
				b = binary.LittleEndian.AppendUint32(b, v)
			}
			return b
		}
		avih := chunk("avih", words(40000, 0, 0, 0x10, 125, 0, 1, 0, 224, 160, 0, 0, 0, 0))
		strh := chunk("strh", []byte("txts\x00\x00\x00\x00"), words(0, 0, 0, 1, 25, 0, 125, 902, 10000, 0, 0, 0))
		strf := chunk("strf", words(40, 224, 160, 0x180001, 0x44495658, 215040, 0, 0, 0, 0))
		sub := slices.Concat([]byte("GAB2\x00\x02\x00"), make([]byte, 10), playlist(address)(t))
		movi := chunk("LIST", []byte("movi"), bytes.Repeat(chunk("00tx", sub), 50))
		return chunk("RIFF", []byte("AVI "), chunk("LIST", []byte("hdrl"), avih, chunk("LIST", []byte("strl"), strh, strf)), movi)
	}
}

// ladder of cuts: a picture of another grey every frame.
var cuts = made("-f lavfi -i color=c=black:s=64x64:r=100:d=10 -vf", "geq=lum='mod(N*97,220)':cb=128:cr=128", x264)

func name(number int, words string) string { return fmt.Sprintf("%02d %s", number, words) }
