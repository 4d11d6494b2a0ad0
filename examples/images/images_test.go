package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cutroom/cutroom/examples/core"
	"github.com/cutroom/cutroom/examples/core/coretest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/enginetest"
)

func TestMain(m *testing.M) { coretest.Main(m, product) }

func TestDeclaration(t *testing.T) {
	t.Parallel()
	if err := enginetest.Check(core.Open(azuritetest.Account(t), product).Declaration()); err != nil {
		t.Error(err)
	}
}

type service = coretest.Service[Sizes]

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
func check(s *service, now core.Shown, format string, want ...image.Point) {
	s.Helper()
	if now.State != engine.Ready || len(now.Files) != len(want) {
		s.Fatalf("%+v", now)
	}
	for i, file := range now.Files {
		content := s.Want(200, "GET", "/"+string(now.ID)+"/"+file.Name, nil)
		made, kind, err := image.Decode(bytes.NewReader(content))
		if err != nil || kind != format || made.Bounds().Size() != want[i] {
			s.Fatalf("%s: %s, %v", file.Name, kind, err)
		}
		if int64(len(content)) != file.Bytes {
			s.Errorf("%s has %d bytes, want %d", file.Name, len(content), file.Bytes)
		}
	}
}

func TestThreeSizesAreMadeListedServedAndDeleted(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	s := coretest.Start(t, azuritetest.Account(t), product)
	large := encoded(t, func(w io.Writer) error { return png.Encode(w, picture(1800, 900, 255)) })
	if len(large) < 4<<20 {
		t.Fatalf("the file has %d bytes and so one part", len(large))
	}
	first := s.Ended(s.Upload("large", large).ID)
	check(s, first, "jpeg", image.Pt(1600, 800), image.Pt(800, 400), image.Pt(200, 100))
	var found facts
	if err := json.Unmarshal(first.Facts["inspect"], &found); err != nil || found != (facts{1800, 900}) || first.Name != "large" {
		t.Errorf("%+v, %v", first, err)
	}
	clear := encoded(t, func(w io.Writer) error { return png.Encode(w, picture(10, 300, 100)) })
	second := s.Ended(s.Upload("clear", clear).ID)
	check(s, second, "png", image.Pt(10, 300), image.Pt(10, 300), image.Pt(7, 200))
	s.Listed(second, first)
	s.Want(404, "GET", "/"+string(first.ID)+"/other.jpg", nil)
	s.Want(200, "DELETE", "/"+string(second.ID), nil)
	s.Listed(first)
	s.Delete(first.ID)
}

func TestWhatIsNoImageFailsAtOnce(t *testing.T) {
	azuritetest.Slow(t, "starts the program")
	t.Parallel()
	s := coretest.Start(t, azuritetest.Account(t), product)
	whole := encoded(t, asJPEG(300))
	vast := []byte("GIF89a\xff\xff\xff\xff\x00\x00\x00") // says that it has 65535 × 65535 pixels
	files := []struct {
		name    string
		content []byte
		code    engine.Code
	}{{"text", []byte("not an image"), unreadableImage}, {"half", whole[:len(whole)/2], unreadableImage}, {"vast", vast, imageTooLarge}}
	var sent []core.Shown
	for _, file := range files {
		sent = append(sent, s.Upload(file.name, file.content))
	}
	var ids []engine.ID
	for i, file := range files {
		now := s.Ended(sent[i].ID)
		if now.State != engine.Failed || now.Error == nil || now.Error.Code != file.code {
			t.Errorf("%s: %+v, want %s", file.name, now, file.code)
		}
		view, err := s.Subjects.View(t.Context(), now.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range view.Runs {
			if run.Attempts > 1 {
				t.Errorf("%s: %s was tried %d times", file.name, run.Key, run.Attempts)
			}
		}
		ids, sent[i] = append(ids, now.ID), now
	}
	slices.Reverse(sent)
	s.Listed(sent...)
	s.Delete(ids...)
	s.Want(400, "POST", "", nil) // an empty file
}

// An image that is too long is refused before a byte of it is stored.
func TestALongImageIsNotTaken(t *testing.T) {
	t.Parallel()
	d := core.Document{Meta: engine.Meta{SizeBytes: maxBytes}}
	if err := product.Accept(d); err != nil {
		t.Error(err)
	}
	if d.SizeBytes++; product.Accept(d) == nil {
		t.Error("it is taken")
	}
}

// The process is killed when it has stored a size and not committed it. Another one makes that
// size again; all else is done once, and the blob that no row names goes.
func TestAKilledResizeIsFinishedByAnother(t *testing.T) {
	azuritetest.Slow(t, "waits for a lease to end")
	t.Parallel()
	account := azuritetest.Account(t)
	first := coretest.StartProcess(t, account, "resize/output")
	now := first.UploadSoon("", encoded(t, asJPEG(400)))
	first.Kill()

	s := coretest.Start(t, account, product)
	now = s.Ended(now.ID)
	check(s, now, "jpeg", image.Pt(400, 400), image.Pt(400, 400), image.Pt(200, 200))
	s.OneIsDoneAgain(now.ID, "resize")
	azuritetest.Eventually(t, 40*time.Second, func() error {
		var blobs []string
		for blob, err := range s.Blobs.List(t.Context(), engine.MediaContainer, "") {
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
	s.Delete(now.ID)
}
