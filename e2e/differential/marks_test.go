package differential_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// marks are the seconds at which flashes and beeps begin and at which the longer of
// pictures and sound ends, and the colour of the ground.
type marks struct {
	flashes, beeps []float64
	end            float64
	ground         [3]int
}

// The allowed differences, in seconds, of a time, to which joined recordings add a packet
// or two for each seam, and of the end. And of a colour, of 255. See also film.pairOff.
const (
	timeOff   = 0.11
	endOff    = 0.25
	colourOff = 3
)

// differ tells each difference from what is wanted.
func (m marks) differ(want marks, pair float64) (problems []string) {
	near := func(what string, got, want []float64, off float64) {
		if len(got) != len(want) {
			problems = append(problems, fmt.Sprintf("%d %s, want %d", len(got), what, len(want)))
			return
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > off {
				problems = append(problems, fmt.Sprintf("%s %d at %.3f, want %.3f", what, i, got[i], want[i]))
			}
		}
	}
	near("flashes", m.flashes, want.flashes, timeOff)
	near("beeps", m.beeps, want.beeps, timeOff)
	near("pairs", m.pairs(), want.pairs(), pair)
	near("end", []float64{m.end}, []float64{want.end}, endOff)
	for i := range m.ground {
		if off := m.ground[i] - want.ground[i]; off > colourOff || off < -colourOff {
			problems = append(problems, fmt.Sprintf("the ground is %v, want %v", m.ground, want.ground))
			break
		}
	}
	return problems
}

// pairs are how much later than its flash each beep begins. What begins with the film may
// have begun before it.
func (m marks) pairs() (list []float64) {
	for _, f := range m.flashes[min(1, len(m.flashes)):] {
		for _, b := range m.beeps {
			if math.Abs(b-f) < 0.4 {
				list = append(list, b-f)
			}
		}
	}
	return list
}

// marksOf decodes pictures and sound, which are in one file or in two, or at addresses.
func marksOf(t *testing.T, pictures, sound string) (m marks) {
	t.Helper()
	const rate, width, height = 100, 16, 12
	frames := ffmpeg(t, "-copyts", "-i", pictures, "-filter_complex",
		fmt.Sprintf("[0:V:0]fps=%d:start_time=0,crop=iw/4:ih/4,scale=%d:%d,format=rgb24", rate, width, height), "-f", "rawvideo", "-")
	const bytesEach = 3 * width * height
	middle := func(i int) []byte { return frames[i*bytesEach+bytesEach/2:][:3] }
	bright := func(i int) bool { return i >= 0 && slices.Min(middle(i)) > 150 }
	count := len(frames) / bytesEach
	for i := range count {
		if bright(i) && !bright(i-1) {
			m.flashes = append(m.flashes, float64(i)/rate)
		}
	}
	if quiet := rate * 3 / 4; count > quiet { // when no film flashes
		for i, level := range middle(quiet) {
			m.ground[i] = int(level)
		}
	}
	const sampling = 48000
	raw := ffmpeg(t, "-copyts", "-i", sound, "-map", "0:a:0", "-af", fmt.Sprintf("aresample=%d:async=1:min_hard_comp=0.005:first_pts=0", sampling), "-ac", "1", "-f", "s16le", "-")
	for i, last := 0, -sampling; i+1 < len(raw)/2; i++ {
		if s := int16(binary.LittleEndian.Uint16(raw[2*i:])); s > 4000 || s < -4000 {
			if i-last >= sampling/2 {
				m.beeps = append(m.beeps, float64(i)/sampling)
			}
			last = i
		}
	}
	m.end = max(float64(count)/rate, float64(len(raw)/2)/sampling)
	return m
}

// ffmpeg runs one that must succeed, and returns what it writes to standard output.
func ffmpeg(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ffmpeg", append([]string{"-nostdin", "-hide_banner", "-v", "fatal", "-y"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ffmpeg %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}
