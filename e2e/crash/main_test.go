package crash_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// world is what all tests share.
var world struct {
	dir        string // temporary, for the clips
	connection string // of the one emulator; every lane has a prefix of its own
	pulse      pulse  // of the emulator
}

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run()) // every test skips itself
	}
	// These tests mostly wait for leases to end, so more of them than there are
	// cores may run at once.
	if err := flag.Set("test.parallel", "5"); err != nil {
		panic(err)
	}
	code, err := withWorld(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash tests:", err)
		code = 1
	}
	os.Exit(code)
}

func withWorld(m *testing.M) (code int, err error) {
	if world.dir, err = os.MkdirTemp("", "cutroom-crash-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(world.dir) }()
	if world.connection = os.Getenv(azuritetest.Variable); world.connection == "" {
		server, err := azurite.Start(context.Background(), azurite.Options{InMemory: true})
		if err != nil {
			return 1, err
		}
		defer func() { _ = server.Stop() }()
		world.connection = server.ConnectionString()
	}
	_, queues, _ := strings.Cut(world.connection, "QueueEndpoint=")
	queues, _, _ = strings.Cut(queues, ";")
	go world.pulse.feel(queues)
	return stacktest.Run(m), nil
}

// clip is a source, made when it is first asked for.
type clip struct {
	name   string
	args   []string // of ffmpeg
	frames int      // that every rendition must have in the end

	once sync.Once
	err  error

	reference sync.Mutex // guards golden
	golden    *result    // of a run that nothing disturbed
}

var (
	// small is cut into 4 chunks of 2, 4, 8 and 14 s and 2 portions of sound, which
	// take no time to encode.
	small = &clip{name: "small", frames: 420, args: source("160x90", 15, 28, true)}
	// large is cut into 4 chunks that take a core about a second each, so that a
	// signal finds ffmpeg at work.
	large = &clip{name: "large", frames: 840, args: source("640x360", 30, 28, true)}
	// tiny is one chunk.
	tiny = &clip{name: "tiny", frames: 20, args: source("64x64", 10, 2, true)}
	// growing is long enough that its middle is not needed to begin with: the probe wants
	// its last seconds.
	growing = &clip{name: "growing", frames: 1350, args: source("320x180", 15, 90, true)}
	// lengthy is cut into many chunks, of which 3 are urgent.
	lengthy = &clip{name: "lengthy", frames: 1200, args: source("64x64", 1, 240, true)}
	// middling is half as long: some of its chunks are not urgent, and its sound is cut, too.
	middling = &clip{name: "middling", frames: 600, args: source("64x64", 1, 120, true)}
)

func source(size string, fps, seconds int, sound bool) []string {
	args := []string{"-f", "lavfi", "-i", fmt.Sprintf("testsrc2=s=%s:r=%d:d=%d", size, fps, seconds)}
	if sound {
		args = append(args, "-f", "lavfi", "-i", fmt.Sprintf("anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=%d", seconds), "-c:a", "aac", "-b:a", "64k")
	}
	return append(args, "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", fmt.Sprint(2*fps), "-movflags", "+faststart")
}

// path makes the clip and returns where it is.
func (c *clip) path() (string, error) {
	path := filepath.Join(world.dir, c.name+".mp4")
	c.once.Do(func() {
		args := append([]string{"-nostdin", "-v", "error", "-y"}, c.args...)
		out, err := exec.Command("ffmpeg", append(args, path)...).CombinedOutput()
		if err != nil {
			c.err = fmt.Errorf("make clip %s: %w\n%s", c.name, err, out)
		}
	})
	return path, c.err
}

// ffmpeg runs ffmpeg on what a player would read and returns its output. A
// warning of a decoder is an error.
func ffmpeg(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "ffmpeg", append([]string{"-nostdin", "-v", "warning"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("ffmpeg %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String()
}
