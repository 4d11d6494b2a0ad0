package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// library makes up the metadata of videos. Words, names and tags occur as often
// as those of a language do (Zipf): a few nearly everywhere, most of them once.
// Video i is the same in a library of any size; 0 is the newest.
type library struct {
	newest time.Time
}

// Vocabularies, in words. Real ones are larger and never complete: so are these,
// as seen from a library of some thousand videos.
const (
	wordsKnown = 20_000
	namesKnown = 8_000
	tagsKnown  = 1_500
)

// needle is a word of ten videos among the newest three hundred, evenly spread: every
// query for it has the same ten hits in a library of any size.
const needle = "quixotic"

// channelOfTen has the same ten videos.
const channelOfTen = "The Ten"

// video makes up video i. A channel has fifty videos on average.
func (l library) video(i, size int) video.Video {
	r := rand.New(rand.NewPCG(1, uint64(i)))
	words := rand.NewZipf(r, 1.07, 3, wordsKnown-1)
	names := rand.NewZipf(r, 1.3, 8, namesKnown-1)
	tags := rand.NewZipf(r, 1.2, 3, tagsKnown-1)
	some := func(n int, word func() string) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = word()
		}
		return list
	}
	word := func() string { return spell(words.Uint64()) }
	name := func() string { n := names.Uint64(); return spell(100_000+n%900) + " " + spell(200_000+n) }
	v := video.Video{
		Meta: engine.Meta{
			ID: id(i), Channel: fmt.Sprint("Channel ", r.IntN(1+size/50)), Priority: engine.Normal,
			State: engine.Ready, Playable: true, Generation: 1, Serving: 1,
			CreatedAt: l.newest.Add(-time.Duration(i) * time.Minute),
			ReadyAt:   l.newest.Add(-time.Duration(i)*7*time.Minute + 30*time.Second),
		},
		Title:       strings.Join(some(3+r.IntN(4), word), " "),
		Description: strings.Join(some(4+r.IntN(4), word), " "), Actors: some(1+r.IntN(3), name),
		Directors:  some(1, name),
		Tags:       some(2+r.IntN(3), func() string { return spell(300_000 + tags.Uint64()) }),
		Visibility: video.Public, DurationSeconds: float64(10 + r.IntN(600)), Width: 1280, Height: 720,
	}
	if i < 300 && i%30 == 15 {
		v.Title, v.Channel = v.Title+" "+needle, channelOfTen
	}
	return v
}

// common is the most frequent word of titles.
func (l library) common() string { return spell(0) }

// id is the id of video i: as random as all, and the same every time.
func id(i int) engine.ID {
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	r := rand.New(rand.NewPCG(2, uint64(i)))
	text := make([]byte, 26)
	for n := range text {
		text[n] = alphabet[r.IntN(len(alphabet))]
	}
	return engine.ID(text)
}

// spell writes a number as a word that can be pronounced, at least two syllables.
func spell(n uint64) string {
	const consonants, vowels = "bcdfghjklmnprstvz", "aeiou"
	var word strings.Builder
	for i := 0; i < 2 || n > 0; i++ {
		syllable := n % uint64(len(consonants)*len(vowels))
		n /= uint64(len(consonants) * len(vowels))
		word.WriteByte(consonants[syllable/uint64(len(vowels))])
		word.WriteByte(vowels[syllable%uint64(len(vowels))])
	}
	return word.String()
}
