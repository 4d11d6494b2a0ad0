package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

// stopped is a point in the order of writes at which this program, started again by a test as a
// process of its own, says so and goes no further.
const stopped = "IMAGES_TEST_STOPS_AT"

func TestMain(m *testing.M) {
	if point := os.Getenv(stopped); point != "" {
		stopAt(point)
		return
	}
	azuritetest.Main(m)
}

func stopAt(point string) {
	account, err := azstore.OpenFromEnv("IMAGES")
	if err != nil {
		log.Fatal(err)
	}
	p, pause := open(account), make(chan struct{})
	p.hooks.At = func(at string) {
		if at == point {
			fmt.Println(at)
			<-pause // for ever
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println(addressOf(listener))
		err = p.run(context.Background(), listener)
	}
	log.Fatal(err)
}

func addressOf(l net.Listener) string { return "http://" + l.Addr().String() + "/images" }

func TestDeclaration(t *testing.T) {
	t.Parallel()
	if err := enginetest.Check(declared); err != nil {
		t.Error(err)
	}
}

// service is the program in this process, in a hurry to clear up.
type service struct {
	*testing.T
	*product
	url string
}

func newService(t *testing.T, account *azstore.Account) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t, open(account), addressOf(listener)}
	s.pace = 50 * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.run(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// ask returns the status and the body of an answer.
func (s *service) ask(method, path string, body []byte) (int, []byte) {
	s.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer.StatusCode, content
}

type answered struct {
	ID            engine.ID
	Name          string
	State         engine.State
	Error         *engine.Failure
	Width, Height int
	Files         []engine.File
}

func decoded[T any](s *service, method, path string, body []byte) (result T) {
	s.Helper()
	status, content := s.ask(method, path, body)
	if err := json.Unmarshal(content, &result); err != nil || status != http.StatusOK {
		s.Fatalf("%s %s: %d %s", method, path, status, content)
	}
	return result
}

// ended waits until an image is ready or has failed.
func (s *service) ended(id engine.ID) (now answered) {
	s.Helper()
	azuritetest.Eventually(s, 60*time.Second, func() error {
		if now = decoded[answered](s, http.MethodGet, "/"+string(id), nil); !now.State.Terminal() {
			return fmt.Errorf("it is %s", now.State)
		}
		return nil
	})
	return now
}

// listed waits until the list has these images, but for when they were made.
func (s *service) listed(want ...Listed) {
	s.Helper()
	azuritetest.Eventually(s, 20*time.Second, func() error {
		page := decoded[struct{ Images []Listed }](s, http.MethodGet, "", nil)
		for i := range page.Images {
			page.Images[i].CreatedAt = time.Time{}
		}
		if got := fmt.Sprint(page.Images); got != fmt.Sprint(want) {
			return fmt.Errorf("the list has %s, want %v", got, want)
		}
		return nil
	})
}

// left are the rows, messages and blobs of the account, but for those of the upkeep's lease.
func (s *service) left() (left []string) {
	s.Helper()
	for _, table := range []string{declared.Table, listTable, engine.InflightTable, engine.IdempotencyTable, "poison"} {
		pager := s.account.Table(table).NewListEntitiesPager(nil)
		for pager.More() {
			page, err := pager.NextPage(s.Context())
			if err != nil {
				s.Fatal(err)
			}
			for _, row := range page.Entities {
				left = append(left, table+": "+string(row))
			}
		}
	}
	for _, container := range []string{engine.SourcesContainer, engine.MediaContainer, "claims"} {
		for blob, err := range s.blobs.List(s.Context(), container, "") {
			if err != nil {
				s.Fatal(err)
			}
			left = append(left, blob.Name)
		}
	}
	queues, err := s.account.ListQueues(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, queue := range queues {
		found, err := s.account.Queue(strings.TrimPrefix(queue, s.account.Prefix())).GetProperties(s.Context(), nil)
		if err != nil {
			s.Fatal(err)
		}
		if n := *found.ApproximateMessagesCount; n > 0 {
			left = append(left, fmt.Sprint(queue, ": ", n, " messages"))
		}
	}
	return left
}

// deleted deletes all images and waits until nothing is left.
func (s *service) deleted(ids ...engine.ID) {
	s.Helper()
	for _, id := range ids {
		if status, _ := s.ask(http.MethodDelete, "/"+string(id), nil); status != http.StatusOK {
			s.Fatalf("delete: %d", status)
		}
		if status, _ := s.ask(http.MethodGet, "/"+string(id), nil); status != http.StatusNotFound {
			s.Errorf("a deleted image is found: %d", status)
		}
	}
	azuritetest.Eventually(s, 30*time.Second, func() error {
		if left := s.left(); len(left) > 0 {
			return fmt.Errorf("left: %s", strings.Join(left, "\n"))
		}
		return nil
	})
}

// picture is noise, which no format makes small.
func picture(width, height int, alpha uint8) image.Image {
	made := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range made.Pix {
		made.Pix[i] = byte(rand.Uint32())
		if i%4 == 3 {
			made.Pix[i] = alpha
		}
	}
	return made
}

func encoded(t *testing.T, encode func(io.Writer) error) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := encode(&file); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func asJPEG(side int) func(io.Writer) error {
	return func(w io.Writer) error { return jpeg.Encode(w, picture(side, side, 255), nil) }
}

// check decodes what is served.
func (s *service) check(now answered, format string, want ...image.Point) {
	s.Helper()
	if now.State != engine.Ready || len(now.Files) != len(want) {
		s.Fatalf("%+v", now)
	}
	for i, file := range now.Files {
		status, content := s.ask(http.MethodGet, "/"+string(now.ID)+"/"+file.Name, nil)
		made, kind, err := image.Decode(bytes.NewReader(content))
		if status != http.StatusOK || err != nil || kind != format || made.Bounds().Size() != want[i] {
			s.Fatalf("%s: %d, %s, %v", file.Name, status, kind, err)
		}
		if int64(len(content)) != file.Bytes {
			s.Errorf("%s has %d bytes, want %d", file.Name, len(content), file.Bytes)
		}
	}
}

func TestThreeSizesAreMadeListedServedAndDeleted(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	s := newService(t, azuritetest.Account(t))
	large := encoded(t, func(w io.Writer) error { return png.Encode(w, picture(1800, 900, 255)) })
	if len(large) < 4<<20 {
		t.Fatalf("the file has %d bytes and so one part", len(large))
	}
	first := decoded[answered](s, http.MethodPost, "?name=large", large)
	now := s.ended(first.ID)
	s.check(now, "jpeg", image.Pt(1600, 800), image.Pt(800, 400), image.Pt(200, 100))
	if now.Width != 1800 || now.Height != 900 || now.Name != "large" {
		t.Errorf("%+v", now)
	}
	clear := encoded(t, func(w io.Writer) error { return png.Encode(w, picture(10, 300, 100)) })
	second := decoded[answered](s, http.MethodPost, "?name=clear", clear)
	s.check(s.ended(second.ID), "png", image.Pt(10, 300), image.Pt(10, 300), image.Pt(7, 200))
	older := Listed{ID: first.ID, Name: "large", State: engine.Ready}
	s.listed(Listed{ID: second.ID, Name: "clear", State: engine.Ready}, older)
	if status, _ := s.ask(http.MethodGet, "/"+string(first.ID)+"/other.jpg", nil); status != http.StatusNotFound {
		t.Errorf("a file that was not made: %d", status)
	}
	if status, _ := s.ask(http.MethodDelete, "/"+string(second.ID), nil); status != http.StatusOK {
		t.Errorf("delete: %d", status)
	}
	s.listed(older)
	s.deleted(first.ID)
}

func TestWhatIsNoImageFailsAtOnce(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	s := newService(t, azuritetest.Account(t))
	whole := encoded(t, asJPEG(300))
	vast := []byte("GIF89a\xff\xff\xff\xff\x00\x00\x00") // says that it has 65535 × 65535 pixels
	files := []struct {
		name    string
		content []byte
		code    engine.Code
	}{{"text", []byte("not an image"), unreadableImage}, {"half", whole[:len(whole)/2], unreadableImage}, {"vast", vast, imageTooLarge}}
	var sent []answered
	for _, file := range files {
		sent = append(sent, decoded[answered](s, http.MethodPost, "?name="+file.name, file.content))
	}
	var ids []engine.ID
	var rows []Listed
	for i, file := range files {
		now := s.ended(sent[i].ID)
		if now.State != engine.Failed || now.Error == nil || now.Error.Code != file.code {
			t.Errorf("%s: %+v, want %s", file.name, now, file.code)
		}
		view, err := s.images.View(t.Context(), now.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range view.Runs {
			if run.Attempts > 1 {
				t.Errorf("%s: %s was tried %d times", file.name, run.Key, run.Attempts)
			}
		}
		ids, rows = append(ids, now.ID), append([]Listed{{ID: now.ID, Name: file.name, State: engine.Failed}}, rows...)
	}
	s.listed(rows...)
	s.deleted(ids...)
	if status, _ := s.ask(http.MethodPost, "", nil); status != http.StatusBadRequest {
		t.Errorf("an empty file: %d", status)
	}
}

// The process is killed when it has stored a size and not committed it. Another one makes that
// size again; all else is done once, and the blob that no row names goes.
func TestAKilledResizeIsFinishedByAnother(t *testing.T) {
	azuritetest.Slow(t, "waits for a lease to end")
	t.Parallel()
	account, now := azuritetest.Account(t), answered{}
	first := exec.Command(os.Args[0])
	first.Env = append(os.Environ(), stopped+"=resize/output", "IMAGES_PREFIX="+account.Prefix(),
		"AZURE_STORAGE_CONNECTION_STRING="+azuritetest.ConnectionString(t))
	out, err := first.StdoutPipe()
	if err == nil {
		err = first.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Process.Kill() })
	said := bufio.NewScanner(out)
	said.Scan()
	s := &service{T: t, url: said.Text()}
	file := encoded(t, asJPEG(400))
	azuritetest.Eventually(t, 20*time.Second, func() error { // its tables may not be made yet
		status, content := s.ask(http.MethodPost, "", file)
		if status != http.StatusOK {
			return fmt.Errorf("%d: %s", status, content)
		}
		return json.Unmarshal(content, &now)
	})
	if !said.Scan() || said.Text() != "resize/output" {
		t.Fatalf("the first process says %q", said.Text())
	}
	_, _ = first.Process.Kill(), first.Wait()

	s = newService(t, account)
	now = s.ended(now.ID)
	s.check(now, "jpeg", image.Pt(400, 400), image.Pt(400, 400), image.Pt(200, 200))
	view, err := s.images.View(t.Context(), now.ID)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, run := range view.Runs {
		attempts := run.AllAttempts()
		if last := attempts[len(attempts)-1]; last.Outcome != engine.OutcomeDone {
			t.Errorf("%s: %+v", run.Key, attempts)
		}
		again := len(attempts) == 2 && attempts[0].Outcome == engine.OutcomeLost && run.Key.Step == "resize"
		if len(attempts) > 1 && !again {
			t.Errorf("%s: %+v", run.Key, attempts)
		}
		lost += len(attempts) - 1
	}
	if lost == 0 {
		t.Error("no attempt was lost")
	}
	azuritetest.Eventually(t, 40*time.Second, func() error {
		var blobs []string
		for blob, err := range s.blobs.List(t.Context(), engine.MediaContainer, "") {
			if err != nil {
				return err
			}
			blobs = append(blobs, blob.Name)
		}
		if len(blobs) != 3 {
			return fmt.Errorf("blobs: %v", blobs)
		}
		return nil
	})
	s.deleted(now.ID)
}
