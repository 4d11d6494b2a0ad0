package pipeline

import (
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/testkit/mediatest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/workerrole/internal/ffmpeg"
	"github.com/cutroom/cutroom/workerrole/internal/media"
	"github.com/cutroom/cutroom/workerrole/internal/sandbox"
)

// BenchmarkReaderAndSandbox is what it costs that ffmpeg reads by way of the worker and runs
// in a sandbox (docs/patterns/safe-ffmpeg.md), in percent of the processor time that ffmpeg
// takes for a film:
//
//	reader-%  beyond what ffmpeg takes when it reads as many bytes from storage itself
//	sandbox-%    the starts
//	worker-%  all of the worker's own time meanwhile, with the reading from storage
//
//	go test -run '^$' -bench ReaderAndSandbox -benchtime 3x ./workerrole/internal/pipeline
func BenchmarkReaderAndSandbox(b *testing.B) {
	p := newPriced(b)
	sums := map[string]float64{}
	for b.Loop() {
		own := cpu(b, syscall.RUSAGE_SELF)
		_, before, _ := p.seen.sum()
		ctx, runs := ffmpeg.WithRuns(b.Context())
		p.film(b, ctx)
		own = cpu(b, syscall.RUSAGE_SELF) - own
		_, after, _ := p.seen.sum()

		whole := (runs.Usage().CPU + own).Seconds()
		through, direct := p.reading(b)
		sums["s-film"] += whole
		sums["MB-read"] += float64(after-before) / 1e6
		sums["reader-%"] += 100 * (through - direct) * float64(after-before) / whole
		sums["sandbox-%"] += 100 * p.start(b) * float64(runs.Usage().Runs) / whole
		sums["worker-%"] += 100 * own.Seconds() / whole
	}
	for unit, sum := range sums {
		b.ReportMetric(sum/float64(b.N), unit)
	}
}

// priced is a film in storage, and what its steps need.
type priced struct {
	tool  *ffmpeg.Tool
	blobs *blobstore.Store
	seen  *downloads
	size  int64
	url   string // signed, for ffmpeg itself
}

func newPriced(b *testing.B) priced {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	path := filepath.Join(b.TempDir(), "film.mp4")
	mediatest.FFmpeg(b, []string{"-f", "lavfi", "-i", "testsrc2=s=1280x720:r=30:d=44,noise=alls=8:allf=t"}, mediatest.Hum(48000, 44),
		[]string{"-c:v", "libx264", "-preset", "veryfast", "-b:v", "4M", "-pix_fmt", "yuv420p", "-g", "90", "-c:a", "aac", "-movflags", "+faststart", path})
	p := priced{seen: new(downloads)}
	account := azuritetest.AccountWith(b, func(cfg *azstore.Config) { cfg.Transport = p.seen })
	must(account.Ensure(b.Context(), azstore.Names{Containers: []string{engine.SourcesContainer}}))
	p.blobs = blobstore.New(account)
	_, err := p.blobs.PutFile(b.Context(), engine.SourcesContainer, "x/source", path, "")
	must(err)
	info, err := p.blobs.Head(b.Context(), engine.SourcesContainer, "x/source")
	must(err)
	p.size = info.Size
	p.url, err = account.Container(engine.SourcesContainer).NewBlobClient("x/source").
		GetSASURL(sas.BlobPermissions{Read: true}, time.Now().Add(time.Hour), nil)
	must(err)
	held, err := sandbox.Open(sandbox.Try)
	must(err)
	p.tool, err = ffmpeg.Open(b.Context(), held, "", "")
	must(err)
	return p
}

// film does what reads the source, each step with a reader of its own.
func (p priced) film(b *testing.B, ctx context.Context) {
	b.Helper()
	attempt := func(run func(context.Context, ffmpeg.Source) error) {
		b.Helper()
		ctx, end := context.WithCancel(ctx)
		defer end()
		if err := run(ctx, opened(b, ctx, p.blobs, pin(b, p.blobs, "x/source"))); err != nil {
			b.Fatal(err)
		}
	}
	var plan video.Plan
	attempt(func(ctx context.Context, source ffmpeg.Source) error {
		info, err := p.tool.Probe(ctx, source)
		if err != nil {
			return err
		}
		plan, err = media.Plan(info)
		return err
	})
	for i := range plan.Chunks {
		attempt(func(ctx context.Context, source ffmpeg.Source) error {
			_, err := media.EncodeChunk(ctx, p.tool, source, plan, i, b.TempDir())
			return err
		})
	}
	for i := range plan.Sound {
		attempt(func(ctx context.Context, source ffmpeg.Source) error {
			_, _, err := media.EncodePortion(ctx, p.tool, source, plan, i, b.TempDir())
			return err
		})
	}
	for _, read := range readers {
		attempt(func(ctx context.Context, source ffmpeg.Source) error { return read(ctx, p.tool, source) })
	}
}

// readers are what steps of features read; the files of their tests add them.
var readers []func(context.Context, *ffmpeg.Tool, ffmpeg.Source) error

// readings is how often the film is read each way: one reading takes some hundredths of
// a second.
const readings = 12

// reading returns the processor time of one byte, in seconds: of this process and ffmpeg
// together when it reads by way of us, and when it reads from storage.
func (p priced) reading(b *testing.B) (through, direct float64) {
	b.Helper()
	all := func() time.Duration { return cpu(b, syscall.RUSAGE_SELF) + cpu(b, syscall.RUSAGE_CHILDREN) }
	read := func(url string) float64 {
		before := all()
		mediatest.FFmpeg(b, []string{"-i", url, "-c", "copy", "-f", "null", "-"})
		return (all() - before).Seconds() / float64(p.size)
	}
	for range readings {
		ctx, end := context.WithCancel(b.Context())
		through += read(opened(b, ctx, p.blobs, pin(b, p.blobs, "x/source")).URL) / readings
		end()
		direct += read(p.url) / readings
	}
	return through, direct
}

// start returns how much more processor time, in seconds, a program takes that starts in
// the sandbox.
func (p priced) start(b *testing.B) float64 {
	b.Helper()
	const starts = 50
	held, err := sandbox.Open(sandbox.Try)
	if err != nil {
		b.Fatal(err)
	}
	run := func(in *sandbox.Sandbox) float64 {
		before := cpu(b, syscall.RUSAGE_CHILDREN)
		for range starts {
			cmd := exec.CommandContext(b.Context(), p.tool.FFprobe, "-version")
			if in != nil {
				in.Hold(cmd, sandbox.Rules{})
			}
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
		return (cpu(b, syscall.RUSAGE_CHILDREN) - before).Seconds() / starts
	}
	return run(held) - run(nil)
}

// cpu is the processor time of this process, or of its children that have ended.
func cpu(b *testing.B, who int) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(who, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
