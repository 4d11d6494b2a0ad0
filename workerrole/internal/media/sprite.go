package media

import (
	"bytes"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"io"
	"strings"

	"github.com/cutroom/cutroom/shared/playlist"
	"github.com/cutroom/cutroom/shared/video"
)

// Strip is one chunk's row of storyboard tiles.
type Strip struct {
	JPEG  io.Reader
	Tiles int // ChunkOutput.TileCount; the picture may hold more, which are blank
}

const spriteColumns = 10

// Sprite lays the strips of all chunks, in order, into one picture and writes
// the WebVTT that says which part of it shows which time. spriteURL is how the
// page finds the picture, relative to the WebVTT; frames is the real length of
// the video. It is pure Go: no decoder of ours meets bytes of strangers.
func Sprite(strips []Strip, plan video.Plan, frames int64, spriteURL string) (sprite []byte, vtt string, err error) {
	total := 0
	for _, s := range strips {
		total += s.Tiles
	}
	if total == 0 || total > 2*maxTiles {
		return nil, "", fmt.Errorf("making the storyboard: %d tiles", total)
	}
	w, h := plan.TileWidth, plan.TileHeight
	rows := (total + spriteColumns - 1) / spriteColumns
	sheet := image.NewRGBA(image.Rect(0, 0, min(total, spriteColumns)*w, rows*h))
	var text strings.Builder
	text.WriteString("WEBVTT\n")
	n := 0
	for i, s := range strips {
		if s.Tiles == 0 {
			continue
		}
		strip, err := jpeg.Decode(s.JPEG)
		if err != nil {
			return nil, "", fmt.Errorf("making the storyboard: strip %d: %w", i, err)
		}
		if strip.Bounds().Dx() < s.Tiles*w {
			return nil, "", fmt.Errorf("making the storyboard: strip %d is too narrow for %d tiles", i, s.Tiles)
		}
		for tile := range s.Tiles {
			at := tileAt(plan, n)
			draw.Draw(sheet, at, strip, strip.Bounds().Min.Add(image.Pt(tile*w, 0)), draw.Src)
			from, to := int64(n)*plan.TileEvery, int64(n+1)*plan.TileEvery
			if n == total-1 {
				to = max(frames, from+1)
			}
			fmt.Fprintf(&text, "\n%s --> %s\n%s#xywh=%d,%d,%d,%d\n", playlist.CaptionTime(plan.FPS.Duration(from)), playlist.CaptionTime(plan.FPS.Duration(to)), spriteURL, at.Min.X, at.Min.Y, w, h)
			n++
		}
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, sheet, &jpeg.Options{Quality: 75}); err != nil {
		return nil, "", fmt.Errorf("making the storyboard: %w", err)
	}
	return out.Bytes(), text.String(), nil
}

// tileAt is where a tile lies in the picture.
func tileAt(plan video.Plan, n int) image.Rectangle {
	corner := image.Pt(n%spriteColumns*plan.TileWidth, n/spriteColumns*plan.TileHeight)
	return image.Rectangle{Min: corner, Max: corner.Add(image.Pt(plan.TileWidth, plan.TileHeight))}
}

// ReadSprite returns the first tiles of a picture that Sprite made.
func ReadSprite(sprite []byte, plan video.Plan, tiles int) (list []image.Image, _ error) {
	decoded, err := jpeg.Decode(bytes.NewReader(sprite))
	if err != nil {
		return nil, fmt.Errorf("reading the storyboard: %w", err)
	}
	sheet, colour := decoded.(*image.YCbCr)
	if !colour || tiles < 1 || !tileAt(plan, tiles-1).In(sheet.Rect) {
		return nil, fmt.Errorf("reading the storyboard: %v has no %d tiles", decoded.Bounds(), tiles)
	}
	for n := range tiles {
		list = append(list, sheet.SubImage(tileAt(plan, n)))
	}
	return list, nil
}
