package media

import (
	"github.com/cutroom/cutroom/shared/sourceparts"
	"github.com/cutroom/cutroom/shared/video"
)

// What is read beyond the share of the file that a range of the video should take: in
// seconds of video, and in bytes, at most one part. Wrong guesses cost time only: a run waits for bytes
// that are on their way, and one that misses them is thrown away. How often that is was
// measured: decision 0056.
const (
	needSeconds = 1
	needBytes   = 512 << 10
)

// Needs says how many parts of an upload must be there for each chunk and portion of a
// plan, by proportion: at half of the time half of the bytes are needed. The last of
// both run to the end of the file, wherever that is, and wait for all of it.
func Needs(plan video.Plan, layout sourceparts.Layout) *video.Needs {
	needs := &video.Needs{}
	count, more := layout.Count(), min(needBytes, layout.PartBytes)
	parts := func(seconds float64) int {
		bytes := int64(float64(layout.Bytes)*min(1, (seconds+needSeconds)/plan.DurationSeconds)) + more
		return min(count, layout.At(min(bytes, layout.Bytes-1))+1)
	}
	for i, c := range plan.Chunks {
		n := count + 1
		if !plan.Last(i) {
			n = parts(plan.FPS.Seconds(c.To))
		}
		needs.Chunks = append(needs.Chunks, n)
	}
	for i, p := range plan.Sound {
		n := count + 1
		if i < len(plan.Sound)-1 {
			n = parts(video.SoundStart(p.End))
		}
		needs.Sound = append(needs.Sound, n)
	}
	return needs
}
