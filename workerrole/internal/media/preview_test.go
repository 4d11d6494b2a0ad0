package media_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/media"
)

// A preview of a chunk has its frames, at their times, in the smallest rendition, and sound
// from before its first frame to behind its last one. Its init segment is that of the committed chunks, which players read only
// once.
func TestPreviewIsTheChunk(t *testing.T) {
	t.Parallel()
	tool := tool(t)
	clips := mediatest.Clips()
	clip := clips[slices.IndexFunc(clips, func(c mediatest.Clip) bool { return !c.Silent })]
	src, info := probe(t, tool, clip.Make(t, t.TempDir()))
	plan, err := media.Plan(info)
	if err != nil {
		t.Fatal(err)
	}
	plan = manySeams(plan)
	if len(plan.Chunks) < 4 {
		t.Fatalf("the plan has %d chunks", len(plan.Chunks))
	}
	const index = 1
	small := plan.Renditions[len(plan.Renditions)-1]
	e := encode(t, tool, src, plan)
	made, err := media.EncodePreview(t.Context(), tool, src, plan, index, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pictures := made.Pictures
	if want := plan.Chunks[index+1].From - plan.Chunks[index].From; made.Chunk != index || len(pictures.Renditions) != 1 || pictures.Frames != want {
		t.Fatalf("%+v, want one rendition with %d frames", made, want)
	}
	committed := e.chunks[index].Renditions[len(plan.Renditions)-1]
	init := func(r video.RenditionOutput) string { return string(read(t, r.Blob)[:r.Init.Length]) }
	if got := pictures.Renditions[0]; got.Name != small.Name || init(got) != init(committed) || got.Codecs != committed.Codecs {
		t.Errorf("rendition %s, %s; the chunk's is %s, %s, or it has another init segment", got.Name, got.Codecs, committed.Name, committed.Codecs)
	}
	for i, n := range decodedFrames(t, pictures.Renditions[0].Blob, plan.FPS, small) {
		if want := plan.Chunks[index].From + int64(i); n != want {
			t.Fatalf("frame %d is at the time of frame %d", want, n)
		}
	}
	sound := made.Sound
	from, to := plan.FPS.Seconds(plan.Chunks[index].From), plan.FPS.Seconds(plan.Chunks[index].From+pictures.Frames)
	if sound == nil || filepath.Base(sound.Blob) != "audio.m4s" {
		t.Fatal("there is no sound")
	}
	end := video.SoundStart(sound.First)
	for _, s := range sound.Segments {
		end += s.Seconds()
	}
	if begin := video.SoundStart(sound.First); begin > from || end < min(to, plan.DurationSeconds) {
		t.Errorf("sound from %.2f to %.2f s, pictures from %.2f to %.2f s", begin, end, from, to)
	}
}
