package main

import (
	"bytes"
	"context"
	"errors"
	"image"
	_ "image/gif" // an import more is a format more
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/image/draw"

	"github.com/cutroom/cutroom/examples/core"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/runner"
)

// A step may run again, and twice at once. What it stores has names of its attempt, and counts
// when the runner commits the attempt, which only one can: the fence of package engine. An
// *engine.Failure fails the image for good. After any other error the step is tried again.

// Why an image fails.
const (
	unreadableImage engine.Code = "unreadable_image"
	imageTooLarge   engine.Code = "image_too_large"
)

// maxPixels bounds the memory of one run: at worst three quarters of a gigabyte.
const maxPixels = 50_000_000

// boxes are the sizes: an image is made smaller to fit into a square, never larger.
var boxes = []struct {
	name   string
	pixels int // a side
}{{"large", 1600}, {"medium", 800}, {"small", 200}}

// facts are what is known of the upload.
type facts struct {
	Width  int `json:"width"` // pixels
	Height int `json:"height"`
}

// inspect reads the head of the upload and plans the sizes.
func inspect(ctx context.Context, w *core.Work[Sizes]) (core.Commit[Sizes], error) {
	head, err := decode(ctx, w, 1, func(r io.Reader) (image.Config, error) {
		head, _, err := image.DecodeConfig(r)
		if err == nil && min(head.Width, head.Height) < 1 {
			err = errors.New("it has no pixels")
		}
		return head, err
	})
	if err != nil {
		return core.Commit[Sizes]{}, err
	}
	if head.Width > maxPixels/head.Height {
		return core.Commit[Sizes]{}, engine.Fail(imageTooLarge, "%d × %d pixels are too many.", head.Width, head.Height)
	}
	var plan core.Plan[Sizes]
	for _, box := range boxes {
		scale := min(1, float64(box.pixels)/float64(max(head.Width, head.Height)))
		side := func(pixels int) int { return max(1, int(math.Round(scale*float64(pixels)))) }
		plan.Of = append(plan.Of, Size{Name: box.name, Width: side(head.Width), Height: side(head.Height)})
	}
	plan.Runs = map[engine.Count]int{perSize: len(plan.Of)}
	return core.Commit[Sizes]{Plan: &plan, Facts: facts{head.Width, head.Height}}, nil
}

// resize makes one size. The row of the run says which file that is: its output.
func resize(ctx context.Context, w *core.Work[Sizes]) (core.Commit[Sizes], error) {
	whole, err := decode(ctx, w, math.MaxInt, func(r io.Reader) (image.Image, error) {
		whole, _, err := image.Decode(r)
		return whole, err
	})
	if err != nil {
		return core.Commit[Sizes]{}, err
	}
	w.Progress() // the lease of the message is renewed only while the work moves
	size := w.Plan.Of[w.Key.Index]
	made := image.NewRGBA(image.Rect(0, 0, size.Width, size.Height))
	draw.CatmullRom.Scale(made, made.Rect, whole, whole.Bounds(), draw.Src, nil)
	var data bytes.Buffer // which takes every write
	name, kind := size.Name+".jpg", "image/jpeg"
	if made.Opaque() {
		_ = jpeg.Encode(&data, made, nil)
	} else {
		name, kind = size.Name+".png", "image/png"
		_ = png.Encode(&data, made)
	}
	file, err := w.PutData(ctx, name, data.Bytes(), kind)
	return core.Commit[Sizes]{Output: file}, err
}

// finish runs when all sizes are made, and names them in the row of the image, so that who
// serves them reads one row. Its commit makes the image ready.
func finish(ctx context.Context, w *core.Work[Sizes]) (core.Commit[Sizes], error) {
	made, err := runner.Outputs[engine.File](ctx, w, "resize")
	if err != nil {
		return core.Commit[Sizes]{}, err
	}
	var files []engine.File
	for _, file := range made {
		files = append(files, *file) // none is nil: the image would have failed
	}
	return core.Commit[Sizes]{Files: files}, nil
}

// decode copies some parts of the upload to the scratch directory and lets a function read them.
// What that cannot read is a failure for good; trouble with storage or the disk is not.
func decode[T any](ctx context.Context, w *core.Work[Sizes], parts int, read func(io.Reader) (T, error)) (result T, _ error) {
	file, err := os.Create(filepath.Join(w.Dir, "upload"))
	if err != nil {
		return result, err
	}
	defer func() { _ = file.Close() }()
	if err := core.CopyUpload(ctx, w, file, parts); err != nil {
		return result, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return result, err
	}
	if result, err = read(file); err != nil {
		err = engine.Fail(unreadableImage, "The file cannot be read as an image: %v.", err)
	}
	return result, err
}
