//go:build deploy

package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// patience is how long a query may be empty after everything was sent. What is poison rings no
// bell, so it waits until the workers look at its queue: 0.9 s for each of 34 queues.
const patience = 2 * time.Minute

// The Prometheus in PATH scrapes a stack in which videos become ready, fail and are given up: every
// query of the dashboard, every rule and every metric of an alert has data.
func TestQueriesHaveData(t *testing.T) {
	s, err := stack.Start(t.Context(), stack.Options{Workers: 2, Env: []string{"WORKERROLE_POOLS=light=4,heavy=1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop() }()
	if err := allHaveData(t.Context(), s, t.Output()); err != nil {
		t.Error(err)
	}
}

func allHaveData(ctx context.Context, s *stack.Stack, out io.Writer) error {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	server, err := startPrometheus(ctx, root, s)
	if err != nil {
		return err
	}
	defer server.stop()
	if err := server.await(ctx, Query{"every role", "sum(up) == 3"}); err != nil { // before anything happens, so that counters begin at 0
		return fmt.Errorf("%w\n%s", err, server.log())
	}
	if err := happen(ctx, s); err != nil {
		return err
	}
	queries, err := server.all(ctx, root)
	if err != nil {
		return err
	}
	var empty []error
	deadline, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, q := range queries {
		if err := server.await(deadline, q); err != nil {
			empty = append(empty, err)
		}
	}
	if len(empty) > 0 {
		return errors.Join(empty...)
	}
	_, _ = fmt.Fprintf(out, "%d queries of dashboard, rules and alerts have data; the alert on poison fires\n", len(queries))
	return nil
}

// happen makes two videos ready, fails one, and has an item given up.
func happen(ctx context.Context, s *stack.Stack) error {
	user, err := journey.New(s.BaseURL())
	if err != nil {
		return err
	}
	defer user.Close()
	film, err := clip(ctx, s.Dir())
	if err != nil {
		return err
	}
	for _, content := range [][]byte{film, film} {
		id, err := upload(ctx, user, content)
		if err != nil {
			return err
		}
		if _, err := user.AwaitReady(ctx, id); err != nil {
			return fmt.Errorf("a clip: %w", err)
		}
	}
	broken, err := upload(ctx, user, append(bytes.Clone(film[:1000]), make([]byte, 100_000)...))
	if err != nil {
		return err
	}
	var failed *journey.Failed
	if _, err := user.AwaitReady(ctx, broken); !errors.As(err, &failed) {
		return fmt.Errorf("a broken file: %w, want a failure", err)
	}
	account, err := azstore.Open(azstore.Config{ConnectionString: s.ConnectionString(), Prefix: s.Getenv("CUTROOM_PREFIX")})
	if err != nil {
		return err
	}
	defer account.CloseIdle()
	if _, err := account.Queue(workflow.Probe).EnqueueMessage(ctx, "no item that anybody wrote", nil); err != nil {
		return fmt.Errorf("send what is poison: %w", err)
	}
	return nil
}

func upload(ctx context.Context, user *journey.User, content []byte) (string, error) {
	v, err := user.Announce(ctx, client.NewVideo{Title: "Measured"})
	if err != nil {
		return "", err
	}
	return v.Id, user.Put(ctx, v.Id, bytes.NewReader(content), int64(len(content)))
}

func clip(ctx context.Context, dir string) ([]byte, error) {
	path := filepath.Join(dir, "measured.mp4")
	cmd := exec.CommandContext(ctx, "ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=8",
		"-f", "lavfi", "-i", "anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=8", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-movflags", "+faststart", path)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a clip: %w: %s", err, text)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the clip: %w", err)
	}
	return content, nil
}

// prometheus is a running server.
type prometheus struct {
	cmd  *exec.Cmd
	base string // "http://127.0.0.1:…"
	text *bytes.Buffer
	dir  string
}

func startPrometheus(ctx context.Context, root string, s *stack.Stack) (*prometheus, error) {
	dir, err := os.MkdirTemp("", "prometheus-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for Prometheus: %w", err)
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	config := "global: { scrape_interval: 1s, evaluation_interval: 1s }\nrule_files:\n"
	for _, file := range RuleFiles {
		config += fmt.Sprintf("  - %q\n", filepath.Join(root, filepath.FromSlash(file)))
	}
	host := func(name string) string { return strings.TrimPrefix(s.AdminURL(name), "http://") }
	config += fmt.Sprintf("scrape_configs:\n  - { job_name: webrole, static_configs: [{ targets: [%q] }] }\n", host(stack.Web))
	config += fmt.Sprintf("  - { job_name: workerrole, static_configs: [{ targets: [%q, %q] }] }\n", host(stack.Worker(1)), host(stack.Worker(2)))
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configure Prometheus: %w", err)
	}
	p := &prometheus{base: "http://" + addr, text: &bytes.Buffer{}, dir: dir}
	p.cmd = exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr) //nolint:gosec // our own arguments
	p.cmd.Stdout, p.cmd.Stderr = p.text, p.text
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Prometheus: %w", err)
	}
	return p, nil
}

func (p *prometheus) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
	_ = os.RemoveAll(p.dir)
}

// log ends the server and returns what it said.
func (p *prometheus) log() string {
	p.stop()
	return p.text.String()
}

func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	addr := l.Addr().String()
	return addr, l.Close()
}
