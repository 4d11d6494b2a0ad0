// Package journey is what a user does with Cutroom, over HTTP and nothing else:
// announce a video, bring the bytes, wait until it plays and is ready, find it.
// The demo and the end-to-end tests share it.
//
// Next: e2e/cmd/demo.
package journey

import (
	"bytes"
	"context"
	"crypto/md5" // what Azure Storage checks transfers with; not a secret
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
)

// User talks to one web role. It is safe for concurrent use.
type User struct {
	base string // public address, without a final slash
	http *http.Client
	api  *client.ClientWithResponses
}

// New returns a user of the web role at base, such as "http://127.0.0.1:8080".
func New(base string) (*User, error) {
	return NewThrough(base, &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: 5 * time.Second})
}

// NewThrough is New with a transport: for a way to the storage account that needs a
// proxy, or certificates of its own.
func NewThrough(base string, transport http.RoundTripper) (*User, error) {
	base = strings.TrimRight(base, "/")
	h := &http.Client{Transport: transport}
	api, err := client.NewClientWithResponses(base+"/api/v1", client.WithHTTPClient(h))
	if err != nil {
		return nil, fmt.Errorf("use the web role at %s: %w", base, err)
	}
	return &User{base: base, http: h, api: api}, nil
}

// API is the generated client, for everything that has no method here.
func (u *User) API() *client.ClientWithResponses { return u.api }

// Close ends the connections that are kept for the next request.
func (u *User) Close() { u.http.CloseIdleConnections() }

// Refusal is an answer other than the one hoped for.
type Refusal struct {
	Status  int             // of HTTP
	Problem *client.Problem // nil when the body was not a problem document
	Body    []byte
}

// Error names the code and the detail, or quotes the body.
func (r *Refusal) Error() string {
	if r.Problem == nil {
		return fmt.Sprintf("HTTP status %d: %s", r.Status, bytes.TrimSpace(r.Body[:min(len(r.Body), 300)]))
	}
	storage := ""
	if r.Problem.StorageErrorCode != nil {
		storage = ", storage says " + *r.Problem.StorageErrorCode
	}
	return fmt.Sprintf("HTTP status %d, %s: %s%s", r.Status, r.Problem.Code, r.Problem.Detail, storage)
}

// Code is the stable code of the refusal in err's chain, or empty.
func Code(err error) string {
	var r *Refusal
	if errors.As(err, &r) && r.Problem != nil {
		return r.Problem.Code
	}
	return ""
}

// answer is what all generated responses have.
type answer interface {
	StatusCode() int
	GetBody() []byte
	GetApplicationproblemJSONDefault() *client.Problem
}

// refusal is nil when the answer has the status hoped for.
func refusal(a answer, want int) error {
	if a.StatusCode() == want {
		return nil
	}
	return &Refusal{Status: a.StatusCode(), Problem: a.GetApplicationproblemJSONDefault(), Body: a.GetBody()}
}

// outcome is an answer that should hold a T, or why there is none.
type outcome[T any] struct {
	answer answer
	err    error
}

func check[T any, A answer](a A, err error) outcome[T] { return outcome[T]{a, err} }

// as is the body when the answer has the status hoped for; else what was asked for fails.
func (o outcome[T]) as(want int, action string, args ...any) (body T, err error) {
	if err = o.err; err == nil {
		err = refusal(o.answer, want)
	}
	if err == nil && len(o.answer.GetBody()) > 0 {
		err = json.Unmarshal(o.answer.GetBody(), &body)
	}
	if err != nil {
		return body, fmt.Errorf("%s: %w", fmt.Sprintf(action, args...), err)
	}
	return body, nil
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Announce creates a video; the bytes come next.
func (u *User) Announce(ctx context.Context, v client.NewVideo) (client.Video, error) {
	return check[client.Video](u.api.CreateVideoWithResponse(ctx, nil, v)).as(http.StatusCreated, "announce %q", v.Title)
}

// Put brings the whole file through the web role, as `curl -T` does. size is in
// bytes.
func (u *User) Put(ctx context.Context, id string, content io.Reader, size int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.base+"/api/v1/videos/"+id+"/content", content)
	if err != nil {
		return fmt.Errorf("put the content of %s: %w", id, err)
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := u.http.Do(req)
	if err != nil {
		return fmt.Errorf("put the content of %s: %w", id, err)
	}
	parsed, err := client.ParsePutContentResponse(res)
	if err == nil {
		err = refusal(parsed, http.StatusAccepted)
	}
	if err != nil {
		return fmt.Errorf("put the content of %s: %w", id, err)
	}
	return nil
}

// How often a client that sends parts asks what else is wanted, after the beginning can be
// watched and before: what has arrived is worked on when the web role is asked.
const (
	askEvery = 2 * time.Second
	askOften = time.Second
)

// UploadParts brings the file with valet keys: each part straight into a blob of its
// own, with a checksum (Q12), past the web role, which only writes down that they are
// there. Parts that the service holds already are compared with the file and not sent
// again, so calling it again after a failure resumes (Q14). progress is called with the
// bytes that are there.
func (u *User) UploadParts(ctx context.Context, id string, content io.ReaderAt, size int64, progress func(held int64)) error {
	return u.upload(ctx, &sending{id: id, content: content, size: size, progress: progress})
}

// UploadLastPartLast is UploadParts in an order in which nothing can be made before the
// upload is complete, because work begins with the last part: to compare with.
func (u *User) UploadLastPartLast(ctx context.Context, id string, content io.ReaderAt, size int64, progress func(held int64)) error {
	return u.upload(ctx, &sending{id: id, content: content, size: size, progress: progress, lastPartLast: true})
}

// sending is one upload in parts.
type sending struct {
	id           string
	content      io.ReaderAt
	size         int64
	progress     func(held int64)
	lastPartLast bool

	sums    []string // of all parts, empty while a part is not there
	refused []int    // parts that storage refused, each once
	sent    int64
}

// read returns a part and its checksum.
func (s *sending) read(n int, partBytes int64) ([]byte, string, error) {
	at := int64(n) * partBytes
	buffer := make([]byte, min(partBytes, s.size-at))
	if _, err := s.content.ReadAt(buffer, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("read part %d of %s: %w", n, s.id, err)
	}
	sum := md5.Sum(buffer)
	return buffer, base64.StdEncoding.EncodeToString(sum[:]), nil
}

func (s *sending) note(n int, sum string, bytes int) {
	s.sums[n] = sum
	s.sent += int64(bytes)
	s.progress(s.sent)
}

func (u *User) upload(ctx context.Context, s *sending) error {
	for len(s.sums) == 0 || slices.Contains(s.sums, "") {
		up, err := check[client.Upload](u.api.BeginUploadWithResponse(ctx, s.id, client.UploadBegin{SizeBytes: s.size})).
			as(http.StatusOK, "begin the upload of %s", s.id)
		if err != nil {
			return err
		}
		if len(s.sums) == 0 {
			s.sums = make([]string, up.Parts)
		}
		for _, held := range up.Held {
			if s.sums[held.Number] != "" {
				continue
			}
			body, sum, err := s.read(held.Number, up.PartSizeBytes)
			if err != nil || sum != held.Md5 {
				return errors.Join(err, fmt.Errorf("part %d of %s is held with other content", held.Number, s.id))
			}
			s.note(held.Number, sum, len(body))
		}
		if err := u.sendSome(ctx, s, up); err != nil {
			return err
		}
	}
	for tries := 3; ; tries-- {
		done, err := u.api.CompleteUploadWithResponse(ctx, s.id, client.UploadComplete{Md5: s.sums})
		busy := err == nil && done.StatusCode() == http.StatusServiceUnavailable && tries > 1 // it is safe to repeat
		if err == nil {
			err = refusal(done, http.StatusAccepted)
		}
		switch {
		case err == nil:
			return nil
		case !busy:
			return fmt.Errorf("complete the upload of %s: %w", s.id, err)
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// sendSome sends parts until there is something to tell: what was waited for is there,
// or some time has gone by.
func (u *User) sendSome(ctx context.Context, s *sending, up client.Upload) error {
	asked, every, first := time.Now(), askEvery, up.First
	if !up.Playable {
		every = askOften
	}
	for i, ticket := range up.Send {
		if s.lastPartLast && ticket.Number == up.Parts-1 && len(up.Send) > 1 {
			first = 0
			continue
		}
		if i > 0 && (i == first || time.Since(asked) >= every) {
			return nil
		}
		body, sum, err := s.read(ticket.Number, up.PartSizeBytes)
		if err == nil {
			err = u.putPart(ctx, ticket.Url, body, sum)
		}
		var refused *Refusal
		if errors.As(err, &refused) && refused.Status == http.StatusForbidden && !slices.Contains(s.refused, ticket.Number) {
			// The part is there, by a try whose answer was lost or that arrived late, or
			// the key is too old: what is held says which (Q13).
			s.refused = append(s.refused, ticket.Number)
			return nil
		}
		if err != nil {
			return fmt.Errorf("put part %d of %s: %w", ticket.Number, s.id, err)
		}
		s.note(ticket.Number, sum, len(body))
	}
	return nil
}

// putPart repeats a try whose outcome is unknown. The key creates the part once: when that
// try had been successful the next one is refused.
func (u *User) putPart(ctx context.Context, target string, part []byte, sum string) error {
	const tries = 4
	for try := 1; ; try++ {
		again, err := u.putPartOnce(ctx, target, part, sum)
		if err == nil || !again || try == tries {
			return err
		}
		if err := pause(ctx, time.Duration(try)*200*time.Millisecond); err != nil {
			return err
		}
	}
}

func (u *User) putPartOnce(ctx context.Context, target string, part []byte, sum string) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, target, bytes.NewReader(part))
	if err != nil {
		return false, errors.New("the valet key is not a URL") // the URL is a secret: not in the error
	}
	req.Header.Set("Content-MD5", sum)
	req.Header.Set("x-ms-blob-type", "BlockBlob")
	req.Header.Set("If-None-Match", "*")
	res, err := u.http.Do(req)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err
		}
		return ctx.Err() == nil, fmt.Errorf("connection: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusCreated || res.StatusCode == http.StatusConflict { // it is there; completing compares it
		return false, nil
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
	return res.StatusCode >= 500, &Refusal{Status: res.StatusCode, Body: body}
}

// Video returns the video as it is now.
func (u *User) Video(ctx context.Context, id string) (client.Video, error) {
	return check[client.Video](u.api.GetVideoWithResponse(ctx, id)).as(http.StatusOK, "get video %s", id)
}

// Steps are those of a video so far.
func (u *User) Steps(ctx context.Context, id string) ([]client.Step, error) {
	list, err := check[client.StepList](u.api.ListStepsWithResponse(ctx, id)).as(http.StatusOK, "list the steps of %s", id)
	return list.Items, err
}

// Attempts are all of a video's items, and how each ended.
func (u *User) Attempts(ctx context.Context, id string) (attempts []client.Attempt, _ error) {
	found, err := check[client.Journey](u.api.GetJourneyWithResponse(ctx, id)).as(http.StatusOK, "get the journey of %s", id)
	for _, item := range found.Items {
		attempts = append(attempts, item.Attempts...)
	}
	return attempts, err
}

// Cost is what each step of a video took.
func (u *User) Cost(ctx context.Context, id string) ([]client.StepCost, error) {
	cost, err := check[client.Cost](u.api.GetCostWithResponse(ctx, id)).as(http.StatusOK, "ask what %s cost", id)
	return cost.Steps, err
}

// Scale is how long the queues are, and how many workers they want.
func (u *User) Scale(ctx context.Context) (client.Scale, error) {
	return check[client.Scale](u.api.GetScaleWithResponse(ctx)).as(http.StatusOK, "ask how many workers are wanted")
}

// Delete has a video removed; that goes on after the answer.
func (u *User) Delete(ctx context.Context, id string) error {
	_, err := check[struct{}](u.api.DeleteVideoWithResponse(ctx, id, nil)).as(http.StatusAccepted, "delete %s", id)
	return err
}

// Failed is the error of a video that will not become ready by itself.
type Failed struct {
	State  client.State
	Code   string // stable; empty when the video was cancelled
	Detail string
}

// Error says it in a sentence.
func (f *Failed) Error() string {
	if f.Code == "" {
		return fmt.Sprintf("the video is %s", f.State)
	}
	return fmt.Sprintf("the video is %s with code %s: %s", f.State, f.Code, f.Detail)
}

// pace is the pause before one asks again for what one has waited for since began: what is
// measured so is told too long by 4 % at most.
func pace(began time.Time) time.Duration {
	return min(max(time.Since(began)/25, 50*time.Millisecond), 500*time.Millisecond)
}

// Await asks for the video again and again until done is true, which also sees
// every answer in between. It ends with *Failed when the video failed or was
// cancelled, and with the error of ctx.
func (u *User) Await(ctx context.Context, id string, done func(client.Video) bool) (client.Video, error) {
	for began := time.Now(); ; {
		v, err := u.Video(ctx, id)
		if err != nil {
			return v, err
		}
		if done(v) {
			return v, nil
		}
		switch v.State {
		case client.Failed, client.Cancelled, client.Deleting:
			f := &Failed{State: v.State}
			if v.Error != nil {
				f.Code, f.Detail = v.Error.Code, v.Error.Detail
			}
			return v, f
		}
		if err := pause(ctx, pace(began)); err != nil {
			return v, fmt.Errorf("wait for video %s, now %s at %d %%: %w", id, v.State, v.Progress.Percent, err)
		}
	}
}

// AwaitReady waits until the video is ready.
func (u *User) AwaitReady(ctx context.Context, id string) (client.Video, error) {
	return u.Await(ctx, id, func(v client.Video) bool { return v.State == client.Ready })
}

// Search returns the videos that hold all words of q, and what finding them cost.
func (u *User) Search(ctx context.Context, q string) (client.SearchResult, error) {
	return check[client.SearchResult](u.api.SearchVideosWithResponse(ctx, &client.SearchVideosParams{Q: &q})).as(http.StatusOK, "search for %q", q)
}

// AwaitFound searches until the video is among the hits: the index is written by
// a work item, so it follows a moment later (T8).
func (u *User) AwaitFound(ctx context.Context, q, id string) (client.SearchResult, error) {
	for began := time.Now(); ; {
		result, err := u.Search(ctx, q)
		if err != nil {
			return result, err
		}
		if slices.ContainsFunc(result.Items, func(v client.Video) bool { return v.Id == id }) {
			return result, nil
		}
		if err := pause(ctx, pace(began)); err != nil {
			return result, fmt.Errorf("search for %q does not find video %s: %w", q, id, err)
		}
	}
}
