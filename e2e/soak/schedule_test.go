package soak

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// plan is everything that will happen, decided by the seed and the duration
// before anything happens. What comes of it depends on the machine, too.
type plan struct {
	Lives  []life
	Events []event
	Bursts []timedBurst
}

// life is what a user does with one video.
type life struct {
	At      time.Duration
	Number  int
	Clip    string
	Channel string
	Blocks  bool // upload by valet key instead of PUT
	Then    act
	After   time.Duration // of the upload, for acts that do not wait for ready
	Outage  float64       // share of the source that can be read for a while, once it is planned; 0: all
}

// act is what follows the upload.
type act string

// The acts. Those in capital letters of the comment wait until the video is ready.
const (
	leave       act = "leave"        // nothing
	edit        act = "edit"         // title and channel, at once
	cancel      act = "cancel"       // and nothing more
	cancelRetry act = "cancel+retry" // and then ready
	remove      act = "delete"       // while it is being processed
	again       act = "delete+again" // READY, then delete and upload with the same Idempotency-Key
	reprocess   act = "reprocess"    // READY
	cut         act = "clip"         // READY
	removeLate  act = "delete late"  // READY
)

var acts = []act{leave, leave, leave, edit, edit, cancel, cancelRetry, cancelRetry, remove, again, reprocess, cut, cut, removeLate}

// kind is something that happens to a process or to the queues.
type kind string

// The kinds of events.
const (
	killWorker kind = "SIGKILL worker"
	killWeb    kind = "SIGKILL web"
	termWorker kind = "SIGTERM worker"
	termWeb    kind = "SIGTERM web"
	stopWorker kind = "SIGSTOP worker"
	stopWeb    kind = "SIGSTOP web"
	killFFmpeg kind = "SIGKILL ffmpeg"
	zombie     kind = "worker frozen before a commit"       // a worker frozen before a commit, woken after another did its work
	lateCommit kind = "commit of a killed worker held back" // a worker dies whose commit is under way, and arrives after another attempt's
	clearQueue kind = "clear queues"                        // by the operator's route: only the reconciler finds what was lost
)

type event struct {
	At     time.Duration
	Kind   kind
	Worker int           // which, from 0
	Web    int           // which, from 0
	For    time.Duration // how long it is frozen
	Point  string        // of a zombie, with how often it is passed first
}

type timedBurst struct {
	At time.Duration
	inject.Burst
}

// newVideo is the time between two new videos, in the mean.
const newVideo = 3 * time.Second

// badEvery is how often a video is a bad one: no divisor of how many good kinds
// there are, or one of them would never come.
const badEvery = 9

// rarities are the crashes that a stack meets once in months. Every run has all
// of them, one every rareEvery events.
var rarities = []event{
	{Kind: lateCommit},
	{Kind: zombie, Point: "finish/output"}, // while it is frozen, a part is delivered once more
	{Kind: lateCommit},
	{Kind: zombie, Point: "encode/output"},
}

const rareEvery = 3

// makePlan draws a plan.
func makePlan(seed uint64, length time.Duration) plan {
	d := draw{rand.New(rand.NewPCG(seed, 0x736f616b))}
	return plan{Lives: d.lives(length), Events: d.events(length), Bursts: d.bursts(length)}
}

// draw draws the parts of a plan, always in the same order.
type draw struct{ *rand.Rand }

func (d draw) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(d.Int64N(int64(hi-lo)))
}

func (d draw) lives(length time.Duration) (lives []life) {
	var names, bad []string
	for _, c := range clips() {
		if c.frames == 0 {
			bad = append(bad, c.name)
		} else {
			names = append(names, c.name)
		}
	}
	// The last tenth has no new videos, so that work is under way to the end.
	count := max(int(length/newVideo), 8)
	for n := range count {
		l := life{
			Number: n, At: d.between(0, length*9/10), Blocks: d.IntN(3) == 0, Channel: fmt.Sprintf("channel %d", d.IntN(4)),
			Clip: names[n%len(names)], Then: acts[d.IntN(len(acts))], After: d.between(0, 6*time.Second),
		}
		if outage := 0.35 + 0.3*d.Float64(); l.Clip == "avi.avi" || l.Clip == "long.mp4" { // clips with a chunk in their middle
			l.Outage, l.Then = outage, leave
		}
		if l.Clip == "sent-slowly.mp4" {
			l.Blocks = true
		}
		if l.Clip == "open-groups.mp4" { // must be ready for its frames to be looked at
			l.Then = leave
		}
		if n%badEvery == badEvery-1 {
			l.Clip, l.Then, l.Outage = bad[n/badEvery%len(bad)], leave, 0
		}
		lives = append(lives, l)
	}
	slices.SortFunc(lives, func(a, b life) int { return cmp.Compare(a.At, b.At) })
	return lives
}

func (d draw) events(length time.Duration) (events []event) {
	kinds := []struct {
		kind
		weight int
	}{{killWorker, 9}, {killWeb, 2}, {termWorker, 3}, {termWeb, 1}, {stopWorker, 5}, {stopWeb, 1}, {killFFmpeg, 2}, {zombie, 2}, {lateCommit, 2}, {clearQueue, 4}}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	points := []string{"encode/output", "encode/output#2", "encode/claimed", "audio/part", "finish/output", "finish/claimed", "probe/output"}
	for at := 3 * time.Second; at < length; at += d.between(time.Second, 6*time.Second) {
		e := event{At: at, Worker: d.IntN(workers), Web: d.IntN(webs), For: d.between(time.Second, 2*usualVisibility), Point: points[d.IntN(len(points))]}
		drawn := d.IntN(total)
		for _, k := range kinds {
			if drawn -= k.weight; drawn < 0 {
				e.Kind = k.kind
				break
			}
		}
		if n := len(events); n%rareEvery == 0 {
			rare := rarities[n/rareEvery%len(rarities)]
			e.Kind, e.Point = rare.Kind, rare.Point
		}
		if e.Kind == stopWeb {
			e.For = min(e.For, 5*time.Second)
		}
		events = append(events, e)
	}
	return events
}

func (d draw) bursts(length time.Duration) (bursts []timedBurst) {
	for at := 2 * time.Second; at < length; at += d.between(500*time.Millisecond, 6*time.Second) {
		bursts = append(bursts, timedBurst{At: at, Burst: inject.Burst{
			Service: inject.Services[d.IntN(len(inject.Services))], Fault: inject.Drawn[d.IntN(len(inject.Drawn))],
			Share: 0.1 + 0.9*d.Float64(), Length: d.between(200*time.Millisecond, 4*time.Second),
		}})
	}
	return bursts
}

// print lists the plan, a line for each thing in order of time.
func (p plan) print(w io.Writer) {
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	for _, l := range p.Lives {
		how := "PUT"
		if l.Blocks {
			how = "parts"
		}
		if l.Outage > 0 {
			how += fmt.Sprintf(", of which %.0f %% can be read at first", 100*l.Outage)
		}
		lines = append(lines, line{l.At, fmt.Sprintf("video %d: %s by %s, then %s", l.Number, l.Clip, how, l.Then)})
	}
	for _, e := range p.Events {
		text := string(e.Kind)
		switch e.Kind {
		case killWorker, termWorker:
			text += fmt.Sprintf(" %d", e.Worker)
		case killWeb, termWeb:
			text += fmt.Sprintf(" %d", e.Web)
		case stopWorker:
			text += fmt.Sprintf(" %d for %v", e.Worker, e.For.Round(100*time.Millisecond))
		case stopWeb:
			text += fmt.Sprintf(" %d for %v", e.Web, e.For.Round(100*time.Millisecond))
		case zombie:
			text += fmt.Sprintf(": worker %d at %s", e.Worker, e.Point)
		}
		lines = append(lines, line{e.At, text})
	}
	for _, b := range p.Bursts {
		lines = append(lines, line{b.At, fmt.Sprintf("%s: %s for %v of %.0f %% of requests", b.Service, b.Fault, b.Length.Round(100*time.Millisecond), 100*b.Share)})
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	for _, l := range lines {
		_, _ = fmt.Fprintf(w, "  %7.1f s  %s\n", l.at.Seconds(), l.text)
	}
}
