package media

import (
	"math"
	"math/big"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
)

// standard are the frame rates that cameras and films use.
var standard = []video.Rational{
	{Num: 24000, Den: 1001}, {Num: 24, Den: 1}, {Num: 25, Den: 1}, {Num: 30000, Den: 1001}, {Num: 30, Den: 1},
	{Num: 48, Den: 1}, {Num: 50, Den: 1}, {Num: 60000, Den: 1001}, {Num: 60, Den: 1},
}

const (
	maxGrid = 60 // frames per second
	minGrid = 5  // so that a segment has frames, and a seek is not coarse
)

// grid chooses the constant frame rate of the output. A source of constant rate
// keeps it exactly; a faster one is halved until it fits; of an interlaced one each
// field is a picture; a source of variable rate gets one that holds its busiest parts.
func grid(v ffmpeg.VideoStream) video.Rational {
	rate, avg := v.FPS, v.AvgFPS
	switch {
	case rate.Float() == 0 && avg.Float() == 0:
		rate = video.Rational{Num: 25, Den: 1}
	case rate.Float() == 0:
		rate = tidy(avg)
	case avg.Float() == 0 || nearlyEqual(rate.Float(), avg.Float(), 0.01):
		rate = tidy(rate)
	case v.Interlaced && nearlyEqual(rate.Float(), 2*avg.Float(), 0.01):
		rate = tidy(avg) // rate counts fields
	default:
		rate = variable(rate, avg.Float())
	}
	if v.Interlaced && rate.Float() <= maxGrid/2+0.01 {
		rate = reduce(video.Rational{Num: 2 * rate.Num, Den: rate.Den}) // each field is a picture of its own
	}
	for rate.Float() > maxGrid+0.01 {
		rate = reduce(video.Rational{Num: rate.Num, Den: 2 * rate.Den})
	}
	if f := rate.Float(); f < minGrid {
		rate = reduce(video.Rational{Num: rate.Num * int64(math.Ceil(minGrid/f)), Den: rate.Den})
	}
	return rate
}

// variable chooses the rate for a source whose frames come unevenly. peak is
// the rate that would hold every timestamp; it is nonsense (a time base) when
// it is high.
func variable(peak video.Rational, avg float64) video.Rational {
	if f := peak.Float(); f <= maxGrid && (f <= 2*avg || f <= 30) {
		return tidy(peak)
	}
	for _, r := range standard {
		if r.Den == 1 && r.Num != 48 && r.Float() >= 0.99*avg {
			return r
		}
	}
	return video.Rational{Num: maxGrid, Den: 1}
}

// tidy returns the standard rate that r nearly is, or r with a denominator that
// a time base can hold.
func tidy(r video.Rational) video.Rational {
	for _, s := range standard {
		if nearlyEqual(r.Float(), s.Float(), 0.0003) { // 24 and 23.976 differ by 0.001
			return s
		}
	}
	r = reduce(r)
	if r.Num > 240_000 || r.Den > 10_000 {
		r = reduce(video.Rational{Num: max(1, int64(math.Round(r.Float()*1000))), Den: 1000})
	}
	return r
}

func nearlyEqual(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*b }

func reduce(r video.Rational) video.Rational {
	lowest := big.NewRat(r.Num, r.Den)
	return video.Rational{Num: lowest.Num().Int64(), Den: lowest.Denom().Int64()}
}
