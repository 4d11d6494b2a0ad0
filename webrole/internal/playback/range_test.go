package playback

import "testing"

func TestParseRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header      string
		want        span
		partial, ok bool
	}{
		{"", span{0, 100}, false, true},
		{"bytes=0-", span{0, 100}, true, true},
		{"bytes=0-0", span{0, 1}, true, true},
		{"bytes=10-19", span{10, 20}, true, true},
		{"bytes=90-1000", span{90, 100}, true, true},
		{"bytes=-10", span{90, 100}, true, true},
		{"bytes=-1000", span{0, 100}, true, true},
		{"bytes=-0", span{0, 100}, true, false},
		{"bytes=100-", span{0, 100}, true, false},
		{"bytes=9223372036854775808-", span{0, 100}, true, false},
		{"bytes=9-1", span{0, 100}, false, true},
		{"bytes=--1", span{0, 100}, false, true},
		{"bytes=a-b", span{0, 100}, false, true},
		{"bytes=1-2,3-4", span{0, 100}, false, true},
		{"items=1-2", span{0, 100}, false, true},
	} {
		got, partial, ok := parseRange(c.header, 100)
		if got != c.want || partial != c.partial || ok != c.ok {
			t.Errorf("parseRange(%q) = %v %v %v, want %v %v %v", c.header, got, partial, ok, c.want, c.partial, c.ok)
		}
	}
}

func FuzzParseRange(f *testing.F) {
	f.Add("bytes=0-1", int64(10))
	f.Add("bytes=-5", int64(0))
	f.Add("bytes=99999999999999999999-", int64(1))
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		s, partial, ok := parseRange(header, size)
		if s.from < 0 || s.to > size || s.from > s.to || (partial && ok && s.from == s.to) {
			t.Errorf("parseRange(%q, %d) = %v", header, size, s)
		}
	})
}
