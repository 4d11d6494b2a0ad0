package azq

import (
	"testing"
	"time"
)

func TestTuner(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const declared, minutes = time.Minute, 10

	t.Run("one per cent and three", func(t *testing.T) {
		t.Parallel()
		var u tuner
		for range 2 {
			u.count(0, 1, 0)
		}
		if got := u.judge(start, declared, declared); got != 1 {
			t.Errorf("two late ones: %v", got)
		}
		for range 400 {
			u.count(1, 0, time.Second)
		}
		u.count(0, 1, 0)
		if got := u.judge(start, declared, declared); got != 1 {
			t.Errorf("3 of 403 late: %v, want keep", got)
		}
		u.count(0, 1, 0)
		u.count(0, 1, 0)
		if got := u.judge(start, declared, declared); got != raiseFactor {
			t.Errorf("5 of 405 late: %v, want raise", got)
		}
		if got := u.judge(start, declared, declared); got != 1 {
			t.Errorf("the same late ones raised it twice: %v", got)
		}
	})

	t.Run("ten clean minutes lower it, not below the declared one", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			inForce, slowest time.Duration
			want             float64
		}{
			{2 * declared, time.Second, lowerFactor},
			{2 * declared, 61 * time.Second, 1}, // work takes that long
			{declared, time.Second, 1},
		} {
			var u tuner
			got := u.judge(start, c.inForce, declared)
			for i := range minutes {
				if got != 1 {
					t.Fatalf("verdict %v after %d minutes", got, i)
				}
				u.count(1, 0, c.slowest)
				got = u.judge(start.Add(time.Duration(i+1)*time.Minute), c.inForce, declared)
			}
			if got != c.want {
				t.Errorf("in force %v, slowest %v: %v, want %v", c.inForce, c.slowest, got, c.want)
			}
		}
	})

	t.Run("a late one starts the clean minutes again", func(t *testing.T) {
		t.Parallel()
		var u tuner
		u.judge(start, 2*declared, declared)
		for i := range 2*minutes - 1 {
			u.count(1, 0, time.Second)
			if i == minutes-1 {
				u.count(0, 1, 0)
			}
			if got := u.judge(start.Add(time.Duration(i+1)*time.Minute), 2*declared, declared); got != 1 {
				t.Fatalf("verdict %v in minute %d", got, i)
			}
		}
	})
}
