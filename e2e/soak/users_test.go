package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/load"
)

// history is what a client knows about one video, from the answers that it got.
// A request whose answer was lost is repeated until there is one, so most of it
// is certain.
type history struct {
	life  life
	clip  *clip
	id    string
	title string

	uploaded  bool // 202: acknowledged
	refused   bool // 4xx: the content is not taken
	deleted   bool // 202, or found gone after a delete that was sent
	deleting  bool // the delete was sent
	cancelled bool // 202, and no retry since
	maybe     bool // a cancel or a retry has no answer: both ends are right
	cameBack  bool // the same id again after its delete
	clips     []string
	finished  bool // the user did all that the plan says
	trouble   string
}

// users live the lives of the plan.
type users struct {
	base    func() string // of the web role, now
	planned func(ctx context.Context, id string) bool
	outage  func(name string, share float64, length time.Duration)
	until   time.Time                   // they repeat requests until then at least
	api     *client.ClientWithResponses // its requests are repeated

	mu        sync.Mutex
	histories []*history
	ids       []string       // for those who only look
	answers   map[string]int // "2xx" … and "none"
	plays     int
	searches  int
}

func newUsers(base func() string, until time.Time) (*users, error) {
	u := &users{base: base, until: until, answers: map[string]int{}}
	once := &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 2 * time.Second}
	var err error
	u.api, err = client.NewClientWithResponses("http://web/api/v1", client.WithHTTPClient(&http.Client{Transport: &persistent{u, once}}))
	return u, err
}

// stuck lists what kept users from doing all that the plan says.
func (u *users) stuck() (list []string) {
	for _, h := range u.histories {
		if h.trouble != "" {
			list = append(list, fmt.Sprintf("video %d (%s): %s", h.life.Number, h.id, h.trouble))
		}
	}
	return list
}

// patience is how long a user repeats one request that gets no good answer, at
// least: no user gives up while there are faults.
const patience = 60 * time.Second

func (u *users) deadline() time.Time {
	if at := time.Now().Add(patience); at.After(u.until) {
		return at
	}
	return u.until
}

// answer is what all generated responses have.
type answer interface {
	StatusCode() int
	GetBody() []byte
}

// expect returns an error unless the answer has one of these statuses.
func expect(what string, a answer, err error, right ...int) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case !slices.Contains(right, a.StatusCode()):
		return fmt.Errorf("%s: %d %s", what, a.StatusCode(), a.GetBody())
	}
	return nil
}

func (u *users) count(status int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if status == 0 {
		u.answers["none"]++
		return
	}
	u.answers[fmt.Sprintf("%dxx", status/100)]++
}

// live lives one life. What went wrong is in the history.
func (u *users) live(ctx context.Context, l life, c *clip, seed uint64) {
	h := &history{life: l, clip: c, title: fmt.Sprintf("Soak number%d %s", l.Number, c.name)}
	u.mu.Lock()
	u.histories = append(u.histories, h)
	u.mu.Unlock()
	key := fmt.Sprintf("soak-%d-%d", seed, l.Number)
	err := u.arrive(ctx, h, key)
	if err == nil && h.uploaded {
		err = u.act(ctx, h, key)
	}
	if err != nil {
		h.trouble = err.Error()
		return
	}
	h.finished = true
}

// arrive announces and uploads.
func (u *users) arrive(ctx context.Context, h *history, key string) error {
	for deadline := u.deadline(); ; load.Pause(ctx, 500*time.Millisecond) {
		made, err := u.api.CreateVideoWithResponse(ctx, &client.CreateVideoParams{IdempotencyKey: &key},
			client.NewVideo{Title: h.title, Channel: &h.life.Channel, SizeBytes: &h.clip.size})
		right := []int{http.StatusCreated}
		if time.Now().Before(deadline) {
			right = append(right, http.StatusConflict) // the video of this key is still being deleted
		}
		if err := expect("announce", made, err, right...); err != nil {
			return err
		}
		if made.JSON201 == nil {
			continue
		}
		h.cameBack = h.cameBack || h.deleted && h.id == made.JSON201.Id
		h.id = made.JSON201.Id
		u.mu.Lock()
		u.ids = append(u.ids, h.id)
		u.mu.Unlock()
		break
	}
	if h.deleted { // what follows is about the new video
		h.deleted, h.deleting, h.uploaded = false, false, false
	}
	return u.upload(ctx, h)
}

func (u *users) upload(ctx context.Context, h *history) error {
	if h.life.Blocks {
		return u.uploadParts(ctx, h)
	}
	content, err := os.ReadFile(h.clip.path)
	if err != nil {
		return err
	}
	res, err := u.api.PutContentWithBodyWithResponse(ctx, h.id, &client.PutContentParams{}, "application/octet-stream", bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	return u.arrived(h, res.StatusCode(), lost(res.HTTPResponse), res.Body)
}

// arrived reads the answer to an upload. 409 after a try without an answer says
// that that try was taken.
func (u *users) arrived(h *history, status, lost int, body []byte) error {
	switch {
	case status == http.StatusAccepted, status == http.StatusConflict && lost > 0:
		h.uploaded = true
	case h.clip.frames == 0 && h.clip.code == "" && status >= 400:
		h.refused = true
	default:
		return fmt.Errorf("upload: %d %s", status, body)
	}
	return nil
}

func (u *users) uploadParts(ctx context.Context, h *history) error {
	file, err := os.Open(h.clip.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	deadline := u.deadline()
	for lost := 0; ; lost++ {
		user, err := journey.New(u.base())
		if err != nil {
			return err
		}
		try, stop := context.WithTimeout(ctx, 30*time.Second)
		var from io.ReaderAt = file
		if h.clip.free > 0 {
			from = load.Line{ReaderAt: file, BytesPerSecond: 3_000_000}
		}
		err = user.UploadParts(try, h.id, from, h.clip.size, func(int64) {})
		stop()
		user.Close()
		if err == nil {
			u.count(http.StatusAccepted)
			h.uploaded = true
			return nil
		}
		var refusal *journey.Refusal
		if errors.As(err, &refusal) && refusal.Status < 500 {
			u.count(refusal.Status)
			// 400 and 403 from storage are answers of the moment, too: a valet key ends.
			return u.arrived(h, refusal.Status, lost, []byte(err.Error()))
		}
		u.count(0)
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("upload in parts: %w: %w", errImpatient, err)
		}
		load.Pause(ctx, 400*time.Millisecond)
	}
}

// outageLength is longer than ffmpeg tries to get a broken connection back, and
// too short for five failures.
const outageLength = 16 * time.Second

// act does what the plan says after the upload.
func (u *users) act(ctx context.Context, h *history, key string) error {
	if h.life.Outage > 0 { // the probe needs the whole file: wait for it
		for range 400 {
			if u.planned(ctx, h.id) {
				u.outage("/"+h.id+"/parts/", h.life.Outage, outageLength)
				break
			}
			load.Pause(ctx, 25*time.Millisecond)
		}
	}
	switch h.life.Then {
	case edit, cancel, cancelRetry, remove:
		load.Pause(ctx, h.life.After)
	case again, reprocess, cut, removeLate:
		if ready, err := u.ready(ctx, h); err != nil || !ready {
			return err
		}
	}
	switch h.life.Then {
	case edit:
		return u.edit(ctx, h)
	case cancel:
		return u.cancel(ctx, h)
	case cancelRetry:
		if err := u.cancel(ctx, h); err != nil || !h.cancelled {
			return err
		}
		load.Pause(ctx, h.life.After/4)
		return u.retry(ctx, h)
	case remove, removeLate:
		return u.remove(ctx, h)
	case again:
		if err := u.remove(ctx, h); err != nil {
			return err
		}
		return u.arrive(ctx, h, key)
	case reprocess:
		res, err := u.api.ReprocessVideoWithResponse(ctx, h.id)
		return expect("reprocess "+h.id, res, err, http.StatusAccepted, http.StatusConflict)
	case cut:
		return u.cut(ctx, h)
	}
	return nil
}

// ready waits until the video is ready, for a while: under faults it may take
// long, and then the plan's act is left out.
func (u *users) ready(ctx context.Context, h *history) (bool, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); load.Pause(ctx, 700*time.Millisecond) {
		res, err := u.api.GetVideoWithResponse(ctx, h.id)
		if err := expect("get "+h.id, res, err, http.StatusOK); err != nil {
			return false, err
		}
		if v := res.JSON200; v != nil && v.State == client.Ready {
			return true, nil
		} else if ctx.Err() != nil || v != nil && v.State == client.Failed {
			return false, nil
		}
	}
	return false, nil
}

// edit changes the title of a version that was read just before, as an editor in
// a page does.
func (u *users) edit(ctx context.Context, h *history) error {
	title := h.title + " edited"
	for try := 0; try <= 20; try++ {
		now, err := u.api.GetVideoWithResponse(ctx, h.id)
		if err := expect("get "+h.id, now, err, http.StatusOK); err != nil {
			return err
		}
		if now.JSON200 != nil && now.JSON200.Title == title {
			h.title = title // the try without an answer did it
			return nil
		}
		etag := now.HTTPResponse.Header.Get("ETag")
		res, err := u.api.EditVideoWithResponse(ctx, h.id, &client.EditVideoParams{IfMatch: &etag}, client.VideoEdit{Title: &title})
		if err := expect("edit "+h.id, res, err, http.StatusOK, http.StatusPreconditionFailed); err != nil {
			return err
		}
		if res.StatusCode() == http.StatusOK {
			h.title = title
			return nil
		}
	}
	return fmt.Errorf("edit %s: another change was faster each time", h.id)
}

// cancel is refused when the video is finished already.
func (u *users) cancel(ctx context.Context, h *history) error {
	h.maybe = true
	res, err := u.api.CancelVideoWithResponse(ctx, h.id)
	if err := expect("cancel "+h.id, res, err, http.StatusAccepted, http.StatusConflict); err != nil {
		return err
	}
	h.maybe, h.cancelled = false, res.StatusCode() == http.StatusAccepted
	return nil
}

func (u *users) retry(ctx context.Context, h *history) error {
	h.maybe = true
	res, err := u.api.RetryVideoWithResponse(ctx, h.id)
	if err := expect("retry "+h.id, res, err, http.StatusAccepted, http.StatusConflict, http.StatusPreconditionFailed); err != nil {
		return err
	}
	// A conflict after a lost try says that that one did it. Else a worker changed the video
	// in between: a user would ask again.
	if res.StatusCode() == http.StatusAccepted || res.StatusCode() == http.StatusConflict && lost(res.HTTPResponse) > 0 {
		h.maybe, h.cancelled = false, false
	}
	return nil
}

func (u *users) remove(ctx context.Context, h *history) error {
	h.deleting = true
	res, err := u.api.DeleteVideoWithResponse(ctx, h.id, nil)
	if err := expect("delete "+h.id, res, err, http.StatusAccepted, http.StatusNotFound); err != nil {
		return err
	}
	h.deleted = true
	return nil
}

func (u *users) cut(ctx context.Context, h *history) error {
	res, err := u.api.CreateClipWithResponse(ctx, h.id, client.NewClip{StartSeconds: 1, DurationSeconds: 1})
	if err := expect("clip "+h.id, res, err, http.StatusAccepted); err != nil {
		return err
	}
	if res.JSON202 != nil {
		h.clips = append(h.clips, res.JSON202.Id)
	}
	return nil
}

// look reads lists, searches and plays until ctx ends, as people do. Answers
// only count; what they must say is checked at the end.
func (u *users) look(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		user, err := journey.New(u.base())
		if err != nil {
			return
		}
		try, stop := context.WithTimeout(ctx, 10*time.Second)
		if _, err = user.Search(try, fmt.Sprintf("number%d", n%20)); err == nil {
			u.mu.Lock()
			u.searches++
			u.mu.Unlock()
		}
		if id := u.some(n); id != "" {
			if _, err := user.FirstSegment(try, id); err == nil {
				u.mu.Lock()
				u.plays++
				u.mu.Unlock()
			}
		}
		stop()
		user.Close()
		load.Pause(ctx, time.Second)
	}
}

func (u *users) some(n int) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.ids) == 0 {
		return ""
	}
	return u.ids[n%len(u.ids)]
}
