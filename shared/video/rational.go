package video

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rational is an exact fraction such as the frame rate 30000/1001.
type Rational struct {
	Num int64 `json:"num"`
	Den int64 `json:"den"`
}

// ParseRational reads "30000/1001" or "25". A zero or negative value is an error.
func ParseRational(s string) (Rational, error) {
	num, den, found := strings.Cut(s, "/")
	if !found {
		den = "1"
	}
	n, err1 := strconv.ParseInt(num, 10, 64)
	d, err2 := strconv.ParseInt(den, 10, 64)
	if err1 != nil || err2 != nil || n <= 0 || d <= 0 {
		return Rational{}, fmt.Errorf("rational %q is not a positive fraction", s)
	}
	return Rational{Num: n, Den: d}, nil
}

// String returns "30000/1001", the form that ffmpeg reads.
func (r Rational) String() string { return fmt.Sprintf("%d/%d", r.Num, r.Den) }

// Float returns the value in floating point, for display and for estimates only.
func (r Rational) Float() float64 {
	if r.Den == 0 {
		return 0
	}
	return float64(r.Num) / float64(r.Den)
}

// Seconds returns how long n frames last at the frame rate r.
func (r Rational) Seconds(n int64) float64 {
	if r.Num == 0 {
		return 0
	}
	return float64(n) * float64(r.Den) / float64(r.Num)
}

// Duration is Seconds as a time.Duration.
func (r Rational) Duration(n int64) time.Duration {
	return time.Duration(r.Seconds(n) * float64(time.Second))
}

// Frames returns how many frames at the rate r fit d seconds, rounded to the nearest.
func (r Rational) Frames(seconds float64) int64 {
	return int64(math.Round(seconds * r.Float()))
}
