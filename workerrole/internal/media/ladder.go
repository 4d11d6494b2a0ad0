package media

import (
	"fmt"
	"math"

	"github.com/cutroom/cutroom/shared/video"
)

// rungs is the ladder, by the shorter side of the picture in pixels.
var rungs = []struct {
	side int
	rate int // bits per second at most
}{
	{1080, 5_000_000}, {720, 3_000_000}, {480, 1_400_000}, {240, 450_000},
}

// ladder returns the renditions of a picture, tallest first. Nothing is ever
// enlarged: a source that is clearly larger than the highest rung that fits, or
// smaller than the lowest, gets a rendition of its own size.
func ladder(width, height int) []video.Rendition {
	side := min(width, height)
	var list []video.Rendition
	for _, r := range rungs {
		if r.side <= side {
			w, h := scaled(width, height, r.side)
			list = append(list, video.Rendition{Name: fmt.Sprintf("%dp", r.side), Width: w, Height: h, MaxRate: r.rate})
		}
	}
	if len(list) == 0 || 4*side >= 5*min(list[0].Width, list[0].Height) {
		w, h := even(width), even(height)
		top := video.Rendition{Name: fmt.Sprintf("%dp", min(w, h)), Width: w, Height: h, MaxRate: rateFor(w, h)}
		list = append([]video.Rendition{top}, list...)
	}
	return list
}

// scaled keeps the shape of the picture and makes its shorter side side pixels.
func scaled(width, height, side int) (w, h int) {
	long := func(long, short int) int {
		return min(2*int(math.Round(float64(long)*float64(side)/float64(short)/2)), even(long))
	}
	if width >= height {
		return max(side, long(width, height)), side
	}
	return side, max(side, long(height, width))
}

// fitWithin keeps the shape and makes the longer side at most side pixels.
func fitWithin(width, height, side int) (w, h int) {
	f := min(1, float64(side)/float64(max(width, height)))
	dim := func(n int) int { return max(2, 2*int(math.Round(float64(n)*f/2))) }
	return dim(width), dim(height)
}

func even(n int) int { return max(2, n&^1) }

// rateFor continues the ladder's rates to any size: bits grow more slowly than pixels.
func rateFor(width, height int) int {
	rate := 5_000_000 * math.Pow(float64(width*height)/(1920*1080), 0.75)
	return int(min(20_000_000, max(150_000, math.Round(rate/50_000)*50_000)))
}
