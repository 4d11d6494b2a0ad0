package media

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/video"
)

// strip draws tiles of even grey, each a little brighter.
func strip(t *testing.T, first, tiles, blank, w, h int) Strip {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, (tiles+blank)*w, h))
	for x := range tiles * w {
		for y := range h {
			img.SetGray(x, y, color.Gray{Y: uint8(20 * (first + x/w))})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 95}); err != nil {
		t.Fatal(err)
	}
	return Strip{JPEG: &b, Tiles: tiles}
}

func TestSpritePlacesEveryTile(t *testing.T) {
	t.Parallel()
	p := video.Plan{FPS: video.Rational{Num: 30000, Den: 1001}, TileEvery: 30, TileWidth: 16, TileHeight: 8}
	sheet, vtt, err := Sprite([]Strip{strip(t, 0, 4, 0, 16, 8), {}, strip(t, 4, 8, 3, 16, 8)}, p, 345, "sprite.jpg")
	if err != nil {
		t.Fatal(err)
	}
	img, err := jpeg.Decode(bytes.NewReader(sheet))
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != 160 || b.Dy() != 16 {
		t.Fatalf("sprite is %v", b)
	}
	for n := range 12 {
		y, _, _, _ := img.At(n%10*16+8, n/10*8+4).RGBA()
		if got := int(y >> 8); got < 20*n-8 || got > 20*n+8 {
			t.Errorf("tile %d has grey %d, want %d", n, got, 20*n)
		}
	}
	tiles, err := ReadSprite(sheet, p, 12)
	if err != nil {
		t.Fatal(err)
	}
	for n, tile := range tiles {
		if b := tile.Bounds(); b.Dx() != 16 || b.Dy() != 8 || tile.At(b.Min.X+8, b.Min.Y+4) != img.At(n%10*16+8, n/10*8+4) {
			t.Errorf("tile %d is read as %v", n, b)
		}
	}
	if tiles, err := ReadSprite(sheet, p, 21); err == nil {
		t.Errorf("%d tiles were read of 12", len(tiles))
	}
	if !strings.HasPrefix(vtt, "WEBVTT\n\n00:00:00.000 --> 00:00:01.001\nsprite.jpg#xywh=0,0,16,8\n") ||
		!strings.HasSuffix(vtt, "\n00:00:11.011 --> 00:00:11.512\nsprite.jpg#xywh=16,8,16,8\n") {
		t.Errorf("storyboard:\n%s", vtt)
	}
	for name, strips := range map[string][]Strip{
		"none":       nil,
		"not a jpeg": {{JPEG: strings.NewReader("x"), Tiles: 1}},
		"too narrow": {{JPEG: strip(t, 0, 2, 0, 16, 8).JPEG, Tiles: 3}},
	} {
		if _, _, err := Sprite(strips, p, 345, "sprite.jpg"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
