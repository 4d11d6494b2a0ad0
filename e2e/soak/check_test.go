package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// checker judges the state at the end, from outside: rows, messages and blobs
// as the service has them, and pictures as a player gets them.
type checker struct {
	storage   storage
	histories []*history
	base      string // of the web role
	scratch   string
	http      *http.Client
	stale     int // steps of stopped videos that say for ever that they run
}

// mayName are tables whose rows may name a video that is gone: the register of workers says
// for ever what a worker did that was killed; poison is judged by itself; a used
// Idempotency-Key stays used; who changed what stays in the audit trail.
var mayName = []string{"workers", "poison", "idempotency", "audit"}

// atRest is what still keeps the stack from being at rest and clean. It is asked
// again and again until it is empty.
func (c *checker) atRest(ctx context.Context) []string {
	truths, err := c.storage.truths(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	queues, err := c.storage.queues(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	blobs, err := c.storage.blobs(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	tables, err := c.storage.tables(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var left findings
	for name, length := range queues {
		if length > 0 {
			left.add("%d messages in queue %s", length, name)
		}
	}
	for _, h := range c.histories {
		if problem := h.judge(truths[h.id]); problem != "" {
			left.add("%s", problem)
		}
	}
	c.stale = 0
	for id, t := range truths {
		c.stale += t.unfinished(id, &left)
	}
	orphans(blobs, truths, &left)
	for _, table := range tables {
		if table == videosTable || slices.Contains(mayName, table) && table != "poison" {
			continue
		}
		rows, err := c.storage.rows(ctx, table)
		if err != nil {
			return append(left, err.Error())
		}
		c.rowsLeft(table, rows, truths, &left)
	}
	c.scratchLeft(&left)
	slices.Sort(left)
	return left
}

type findings []string

func (f *findings) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// unfinished finds work of a video that has not ended. It returns how many steps
// of a stopped video say for ever that they run: their message found that
// they are not wanted any more.
func (t *truth) unfinished(id string, left *findings) (stale int) {
	if t.meta == nil {
		left.add("rows without META: %s %s", id, t.rows[0].key())
		return 0
	}
	if t.doc.State == "deleting" {
		left.add("video %s is still being deleted", id)
	}
	for _, r := range t.rows {
		if strings.HasPrefix(r.key(), "OUT:") {
			left.add("promise %s %s", id, r.key())
		}
	}
	for key, r := range t.steps {
		current := strings.HasPrefix(key, fmt.Sprintf("STEP:%05d:", t.doc.Generation))
		switch state := r.text("State"); {
		case state == "running" && t.stopped():
			stale++
		case state == "running":
			left.add("running %s %s by %s", id, key, r.text("Worker"))
		case state != "done" && current && t.doc.State == "ready":
			left.add("%s of %s is %s, though the video is ready", key, id, state)
		}
	}
	return stale
}

// orphans finds blobs that no row names.
func orphans(blobs map[string][]string, truths map[string]*truth, left *findings) {
	for container, names := range blobs {
		for _, name := range names {
			id := owner(name)
			if id == "" {
				continue
			}
			t := truths[id]
			if t == nil || t.meta == nil {
				left.add("blob of a video that is gone: %s/%s", container, name)
				continue
			}
			named := func(r row) bool {
				return strings.Contains(r.all(), name) || t.stopped() && r.text("State") == "running" && strings.Contains(name, r.text("Attempt"))
			}
			part := t.doc.Upload.Epoch != "" && strings.HasPrefix(name, id+"/parts/"+t.doc.Upload.Epoch+"/")
			if !part && name != id+"/source" && !slices.ContainsFunc(t.rows, named) {
				left.add("blob that no row names: %s/%s", container, name)
			}
		}
	}
}

// rowsLeft finds rows of a table that should not be there any more, or twice.
func (c *checker) rowsLeft(table string, rows []row, truths map[string]*truth, left *findings) {
	switch table {
	case "poison":
		for _, r := range rows {
			left.add("poison: %s of %s: %s", r.text("ItemId"), r.partition(), r.text("History"))
		}
		return
	case "inflight":
		for _, r := range rows {
			// A creation that was cut off after the mark leaves it until uploads
			// that never came are removed, in a day.
			awaits, _ := r["Awaits"].(bool)
			if t := truths[r.key()]; t != nil && t.doc.State != "awaiting_upload" || t == nil && !awaits {
				left.add("in flight: %s", r.key())
			}
		}
		return
	case "catalog", "recent", "postings":
		*left = append(*left, doubles(table, rows)...)
	}
	for _, r := range rows {
		text := r.all()
		for _, h := range c.histories {
			if h.id != "" && strings.Contains(text, h.id) && (truths[h.id] == nil || truths[h.id].meta == nil) {
				left.add("row of a video that is gone: %s %s %s", table, r.partition(), r.key())
			}
		}
	}
}

// scratchLeft finds files of steps that are over. A worker holds a lock on its directory
// while it lives.
func (c *checker) scratchLeft(left *findings) {
	dirs, _ := filepath.Glob(filepath.Join(c.scratch, "cutroom-scratch-*"))
	for _, dir := range dirs {
		if !locked(dir) {
			left.add("scratch directory of a worker that is dead: %s", filepath.Base(dir))
			continue
		}
		if inside, _ := filepath.Glob(filepath.Join(dir, "*")); len(inside) > 0 {
			files, _ := filepath.Glob(filepath.Join(inside[0], "*"))
			left.add("scratch directory of a step that is over: %s, with %d files", strings.TrimPrefix(inside[0], c.scratch), len(files))
		}
	}
}

// locked reports whether a process holds the lock of a directory; false also for one that is
// gone meanwhile.
func locked(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer func() { _ = f.Close() }()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// doubles finds videos that one list names twice. A list is a partition; the
// catalogue's has two orders, whose rows begin with their name.
func doubles(table string, rows []row) (left []string) {
	type place struct{ list, id string }
	seen := map[place]int{}
	for _, r := range rows {
		id := r.text("Id")
		if id == "" || strings.HasPrefix(r.partition(), "~") {
			continue
		}
		order := ""
		if table == "catalog" {
			order, _, _ = strings.Cut(r.key(), ":")
		}
		list := r.partition()
		if table == "recent" { // one list over all its partitions
			list = ""
		}
		seen[place{list + " " + order, id}]++
	}
	for p, n := range seen {
		if n > 1 {
			left = append(left, fmt.Sprintf("%s lists video %s %d times in %q", table, p.id, n, p.list))
		}
	}
	return left
}

// judge compares a video with its history.
func (h *history) judge(t *truth) string {
	name := fmt.Sprintf("video %d (%s, %s, %s)", h.life.Number, h.id, h.clip.name, h.life.Then)
	state := "gone"
	if t != nil && t.meta != nil {
		state = t.doc.State
	}
	code := ""
	if state == "failed" && t.doc.Error != nil {
		code = t.doc.Error.Code
	}
	switch {
	case h.id == "":
		return ""
	case h.deleted:
		if state != "gone" {
			return fmt.Sprintf("%s was deleted and is %s", name, state)
		}
	case h.deleting: // without an answer
	case state == "gone":
		return name + " is gone, and was not deleted"
	case h.uploaded && h.clip.frames == 0:
		if h.clip.code != "" && code != h.clip.code {
			return fmt.Sprintf("%s is %s %s, want failed %s", name, state, code, h.clip.code)
		}
	case h.uploaded && h.cancelled:
		if state != "cancelled" && !h.maybe {
			return fmt.Sprintf("%s was cancelled and is %s", name, state)
		}
	case h.uploaded:
		if state != "ready" && (!h.maybe || state != "cancelled") {
			return fmt.Sprintf("%s was uploaded and is %s %s", name, state, code)
		}
	case h.refused:
		if state != "awaiting_upload" {
			return fmt.Sprintf("%s was refused and is %s", name, state)
		}
	default: // the upload had no answer
		if state != "awaiting_upload" && state != "ready" && state != "failed" && state != "cancelled" {
			return fmt.Sprintf("%s had no answer to its upload and is %s", name, state)
		}
	}
	return ""
}

// contents decodes every video that is ready and compares every frame. When all
// is at rest, it also looks for each video in lists and search.
func (c *checker) contents(ctx context.Context, atRest bool) (wrong []string, err error) {
	truths, err := c.storage.truths(ctx)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	add := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	work := make(chan *history)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for h := range work {
				c.plays(ctx, h, truths[h.id], add)
			}
		})
	}
	for _, h := range c.histories {
		if t := truths[h.id]; h.clip.frames > 0 && t != nil && t.meta != nil && t.doc.State == "ready" {
			work <- h
		}
	}
	close(work)
	all.Wait()
	if atRest {
		c.listed(ctx, truths, add)
	}
	slices.Sort(wrong)
	return wrong, nil
}

func (c *checker) plays(ctx context.Context, h *history, t *truth, add func(string, ...any)) {
	name := fmt.Sprintf("video %d (%s, %s)", h.life.Number, h.id, h.clip.name)
	at := c.base + "/v/" + h.id + "/"
	plan := t.playing()
	if len(plan.Renditions) == 0 {
		add("%s is ready and has no rendition", name)
	}
	for _, r := range plan.Renditions {
		if err := checkFrames(ctx, at+r.Name+".m3u8", h.clip.frames); err != nil {
			add("%s, %s: %v", name, r.Name, err)
		}
	}
	if err := checkFrames(ctx, at+"download.mp4", h.clip.frames); err != nil {
		add("%s, download: %v", name, err)
	}
	switch {
	case plan.HasAudio != h.clip.sound:
		add("%s: sound %v, want %v", name, plan.HasAudio, h.clip.sound)
	case h.clip.sound:
		for _, source := range []string{"audio.m3u8", "download.mp4"} {
			if err := checkSound(ctx, at+source, h.clip.length); err != nil {
				add("%s, %s: %v", name, source, err)
			}
		}
	}
	for _, extra := range []string{"master.m3u8", "poster.jpg", "storyboard.vtt", "storyboard.jpg"} {
		if status, _, err := c.get(ctx, at+extra); err != nil || status != http.StatusOK {
			add("%s, %s: %d %v", name, extra, status, err)
		}
	}
	for _, id := range h.clips {
		if err := c.clipPlays(ctx, at+"clips/"+id+".mp4"); err != nil {
			add("%s, clip %s: %v", name, id, err)
		}
	}
}

// clipPlays checks a clip of the second second.
func (c *checker) clipPlays(ctx context.Context, url string) error {
	got, err := frameNumbers(ctx, url)
	if err != nil {
		return err
	}
	for i := 1; i < len(got); i++ {
		if got[i] != got[i-1]+1 {
			return fmt.Errorf("frame %d comes after %d", got[i], got[i-1])
		}
	}
	if len(got) < 5 {
		return fmt.Errorf("%d frames", len(got))
	}
	return nil
}

func (c *checker) get(ctx context.Context, url string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

// listed asks lists and search for every video: those that are ready once, those
// that are gone never.
func (c *checker) listed(ctx context.Context, truths map[string]*truth, add func(string, ...any)) {
	var list strings.Builder
	for token, pages := "", 0; pages < 200; pages++ {
		status, body, err := c.get(ctx, c.base+"/api/v1/videos?limit=50&pageToken="+token)
		if err != nil || status != http.StatusOK {
			add("list of videos: %d %v %s", status, err, body)
			return
		}
		list.Write(body)
		_, rest, more := strings.Cut(string(body), `"nextPageToken":"`)
		if !more {
			break
		}
		token, _, _ = strings.Cut(rest, `"`)
	}
	for _, h := range c.histories {
		if h.id == "" || h.clip.frames == 0 {
			continue
		}
		mark := `"id":"` + h.id + `"`
		// In quotes, because number1 is the beginning of number10, too.
		status, hits, err := c.get(ctx, fmt.Sprintf("%s/api/v1/search?limit=50&q=%%22number%d%%22", c.base, h.life.Number))
		if err != nil || status != http.StatusOK {
			add("search: %d %v %s", status, err, hits)
			return
		}
		want := 0
		if t := truths[h.id]; t != nil && t.meta != nil && t.doc.State == "ready" {
			want = 1
		}
		if n := strings.Count(string(hits), mark); n != want {
			add("video %d (%s): search finds it %d times, want %d", h.life.Number, h.id, n, want)
		}
		switch n := strings.Count(list.String(), mark); {
		case n > 1, n != 1 && want == 1:
			add("video %d (%s): the list has it %d times, want %d", h.life.Number, h.id, n, want)
		}
		if want == 1 && h.finished && !strings.Contains(string(hits), `"title":"`+h.title+`"`) {
			add("video %d (%s): search does not show its title %q", h.life.Number, h.id, h.title)
		}
	}
}

// checkFrames decodes a source and compares: all frames, each once, in order.
func checkFrames(ctx context.Context, url string, want int) error {
	got, err := frameNumbers(ctx, url)
	if err != nil {
		return err
	}
	for i, n := range got {
		if n != i {
			return fmt.Errorf("the picture at place %d of %d has number %d (want %d frames)", i, len(got), n, want)
		}
	}
	if len(got) != want {
		return fmt.Errorf("%d frames, want %d", len(got), want)
	}
	return nil
}

// frameNumbers reads the number from every frame.
func frameNumbers(ctx context.Context, url string) ([]int, error) {
	raw, err := decode(ctx, "-i", url, "-map", "0:v:0", "-fps_mode", "passthrough", "-vf", fmt.Sprintf("scale=%d:1:flags=area,format=gray", bars), "-f", "rawvideo", "-")
	if err != nil {
		return nil, err
	}
	numbers := make([]int, 0, len(raw)/bars)
	for ; len(raw) >= bars; raw = raw[bars:] {
		n := 0
		for bit, lum := range raw[:bars] {
			if lum > 127 {
				n |= 1 << bit
			}
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// checkSound decodes the sound and measures how long the tone is heard.
func checkSound(ctx context.Context, url string, want time.Duration) error {
	const rate, window = 8000, 400 // 50 ms
	raw, err := decode(ctx, "-i", url, "-map", "0:a:0", "-ac", "1", "-ar", strconv.Itoa(rate), "-f", "s16le", "-")
	if err != nil {
		return err
	}
	loud := 0
	for ; len(raw) >= 2*window; raw = raw[2*window:] {
		sum := 0.0
		for i := range window {
			v := float64(int16(uint16(raw[2*i]) | uint16(raw[2*i+1])<<8))
			sum += v * v
		}
		if math.Sqrt(sum/window) > 500 {
			loud++
		}
	}
	heard := time.Duration(loud) * 50 * time.Millisecond
	if diff := (heard - want).Abs(); diff > 250*time.Millisecond {
		return fmt.Errorf("the tone is heard for %v, want %v", heard, want)
	}
	return nil
}

func decode(ctx context.Context, args ...string) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "ffmpeg", append([]string{"-nostdin", "-v", "error", "-xerror"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("decode: %w: %s", err, bytes.TrimSpace(problems.Bytes()))
	}
	return out.Bytes(), nil
}
