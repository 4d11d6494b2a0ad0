// Package hostile_test sends to a running stack what should not be sent: files that are
// no videos, damaged ones and odd ones (kinds), and requests that no client of ours
// makes (requests). Every one gets a clear code at the first attempt, nothing is read,
// written or connected to that should not be, no role ends, and nothing is left behind.
package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/engine"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

var seeds = flag.Int("seeds", 2, "how many files of each kind that changes bytes at random")

// targets are what a hostile file names, and how often each was reached.
type targets struct {
	secret, trap  string // a path, an address
	opened, asked atomic.Int32
}

// lay makes the targets: a pipe, which a writer can open only while a reader has it open
// to read, and a server.
func lay(t *testing.T) *targets {
	t.Helper()
	a := &targets{secret: filepath.Join(t.TempDir(), "secret.mp4")}
	if err := syscall.Mkfifo(a.secret, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		for t.Context().Err() == nil {
			if f, err := os.OpenFile(a.secret, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
				a.opened.Add(1)
				_ = f.Close()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { a.asked.Add(1) }))
	t.Cleanup(server.Close)
	a.trap = server.URL
	return a
}

// prove shows that a program which nothing holds back reaches both targets, one from a
// file and the other from an address, as it reads sources.
func (a *targets) prove(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	for content, reached := range map[string]*atomic.Int32{manifest("file://" + a.secret): &a.opened, manifest(a.trap + "/x.mp4"): &a.asked} {
		input := filepath.Join(dir, "manifest.mp4")
		if err := os.WriteFile(input, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if reached == &a.asked {
			input = server.URL + "/manifest.mp4"
		}
		ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(10*time.Second))
		cmd := exec.CommandContext(ctx, "ffprobe", "-v", "error", input)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		azuritetest.Poll(10*time.Second, func() bool { return ctx.Err() != nil || reached.Load() > 0 })
		cancel() // it would wait for what comes out of the pipe
		_ = cmd.Wait()
		if reached.Swap(0) == 0 {
			t.Fatalf("a bare ffprobe did not reach its target: %s", content)
		}
	}
}

// upload is a file of the corpus on its way.
type upload struct {
	kind
	id    string
	bytes int
	ended string // code, or "ready"
}

// corpus is the stack that everything is sent to.
type corpus struct {
	t       *testing.T
	s       *stack.Stack
	user    *journey.User
	scratch string
	temp    string // where the roles would put other files
	uploads []*upload
	lives   map[string]int // process ids of the roles
	before  []string       // what stands outside of the scratch folder
}

// TestBadInput sends both corpora. There is no sandbox, so that only the whitelists are
// between a file and its targets; what a program does that gets past them is the affair
// of TestHostileProgram.
func TestBadInput(t *testing.T) {
	scratch := t.TempDir()
	c := &corpus{t: t, scratch: scratch, temp: t.TempDir(), lives: map[string]int{}}
	c.s = stacktest.Start(t, stack.Options{Workers: 2, Env: []string{
		"CUTROOM_PURGE_LINGER=1s", "CUTROOM_LOG_LEVEL=debug", "WORKERROLE_SANDBOX=off", "WORKERROLE_SCRATCH=" + scratch, "TMPDIR=" + c.temp, "HOME=" + c.temp,
	}})
	guarded := c.startGuarded(t.Context())
	var err error
	if c.user, err = journey.New(c.s.BaseURL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.user.Close)
	for _, name := range c.s.Names() {
		c.lives[name] = c.s.Pid(name)
	}
	targets := lay(t)
	targets.prove(t)
	c.before = c.outside()
	watch := observe(t, c.s, scratch)

	film := c.goodOne(t)
	guarded.film = func(t *testing.T) string { return c.ready(t, film) }
	list := kinds(targets.secret, targets.trap, *seeds)
	t.Run("uploads", func(t *testing.T) {
		for _, k := range list {
			u := &upload{kind: k}
			c.uploads = append(c.uploads, u)
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				c.send(t, u)
			})
		}
	})
	t.Run("requests", guarded.testRequests) // while the workers work
	t.Run("ends", func(t *testing.T) {
		for _, u := range c.uploads {
			t.Run(u.name, func(t *testing.T) { c.ends(t, u) })
		}
	})
	c.ready(t, c.goodOne(t))
	if targets.asked.Load() > 0 || targets.opened.Load() > 0 {
		t.Errorf("something asked the trap %d times, and opened the secret %d times", targets.asked.Load(), targets.opened.Load())
	}
	watch.check(t, scratch, c.addresses(targets.trap))
	c.unharmed(t)
	c.nothingLeft(t)
	c.report(t)
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err == nil {
		t.Logf("this process took %v of processor time", time.Duration(used.Utime.Nano()+used.Stime.Nano()).Round(time.Millisecond))
	}
}

// send makes a file, and brings it as far as it gets.
func (c *corpus) send(t *testing.T, u *upload) {
	content := u.make(t)
	u.bytes = len(content)
	v, err := c.user.Announce(t.Context(), client.NewVideo{Title: u.name})
	if err != nil {
		t.Fatal(err)
	}
	u.id = v.Id
	err = c.user.Put(t.Context(), v.Id, bytes.NewReader(content), int64(len(content)))
	if u.refused == "" && err != nil || u.refused != "" && journey.Code(err) != u.refused {
		t.Errorf("upload: %v, want code %q", err, u.refused)
	}
	u.ended = journey.Code(err)
}

// ends waits until nothing more happens to a file, and compares what became of it.
func (c *corpus) ends(t *testing.T, u *upload) {
	if u.refused != "" || u.id == "" || u.ended != "" {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(2*time.Minute))
	defer cancel()
	v, err := c.user.AwaitReady(ctx, u.id)
	var failure *journey.Failed
	switch {
	case err == nil:
		u.ended = "ready"
	case errors.As(err, &failure):
		u.ended = failure.Code
		if strings.Contains(failure.Detail, "/") {
			t.Errorf("the reason tells too much: %s", failure.Detail)
		}
	default:
		t.Fatal(err)
	}
	if want := append(slices.Clone(u.failed), "ready"); u.ended == "ready" && u.ready == nil && !u.any ||
		u.ended != "ready" && u.ready != nil || !slices.Contains(want, u.ended) {
		t.Errorf("it ended with %s (%v), want one of %q, ready: %v", u.ended, err, u.failed, u.ready != nil || u.any)
	}
	steps, err := c.user.API().ListStepsWithResponse(t.Context(), u.id)
	if err != nil || steps.JSON200 == nil {
		t.Fatalf("steps: %v", err)
	}
	most := int(azuritetest.Patience(time.Second) / time.Second) // 1; on a busy machine leases end
	for _, step := range steps.JSON200.Items {
		if step.Attempts > most {
			t.Errorf("step %s took %d attempts: %+v", step.Step, step.Attempts, step.Error)
		}
	}
	if u.ended == "ready" && u.ready != nil {
		u.ready(t, madeVideo{v, func(path string) []byte {
			t.Helper()
			return c.get(t, c.s.BaseURL()+"/v/"+u.id+"/"+path)
		}})
	}
}

func (c *corpus) get(t *testing.T, address string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+guardedBy) // the other web role asks for nothing
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // reading only
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%s: status %d, %v", req.URL.Path, res.StatusCode, err)
	}
	return data
}

// goodOne uploads a good file.
func (c *corpus) goodOne(t *testing.T) *upload {
	t.Helper()
	u := &upload{kind: kind{name: "a good one", make: good("2")}}
	c.uploads = append(c.uploads, u)
	c.send(t, u)
	return u
}

// ready waits until a good file is ready.
func (c *corpus) ready(t *testing.T, u *upload) (id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(2*time.Minute))
	defer cancel()
	if _, err := c.user.AwaitReady(ctx, u.id); err != nil {
		t.Fatalf("a good file among the bad ones: %v", err)
	}
	u.ended = "ready"
	return u.id
}

// addresses are where the stack listens, and the trap: where no program of a worker has
// any business.
func (c *corpus) addresses(trap string) (all []netip.AddrPort) {
	texts := []string{trap}
	for _, name := range c.s.Names() {
		texts = append(texts, c.s.AdminURL(name), c.s.WebURL(name))
	}
	texts = append(texts, regexp.MustCompile(`http://[0-9.:]+`).FindAllString(c.s.ConnectionString(), -1)...)
	for _, text := range texts {
		if u, err := url.Parse(text); err == nil {
			if at, err := netip.ParseAddrPort(u.Host); err == nil {
				all = append(all, at)
			}
		}
	}
	return all
}

// outside lists what stands in the stack's folder, beside the scratch directories, and
// where programs put files by default.
func (c *corpus) outside() (all []string) {
	for _, dir := range []string{c.s.Dir(), c.scratch, c.temp} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all
}

// unharmed: no role ended, no request was answered by a server error, and there is no
// file that was not there before.
func (c *corpus) unharmed(t *testing.T) {
	for name, pid := range c.lives {
		if now := c.s.Pid(name); now != pid {
			t.Errorf("%s was process %d and is process %d", name, pid, now)
		}
		if strings.HasPrefix(name, "webrole") {
			metrics := string(c.get(t, c.s.AdminURL(name)+"/metrics"))
			answers := regexp.MustCompile(`(?m)^cutroom_http_request_seconds_count\{.*status="(\d+)"\} \d+$`).FindAllStringSubmatch(metrics, -1)
			if len(answers) == 0 {
				t.Errorf("%s counts no answers", name)
			}
			for _, a := range answers {
				if a[1][0] == '5' {
					t.Errorf("%s: %s", name, a[0])
				}
			}
		}
	}
	for _, path := range c.outside() {
		if !slices.Contains(c.before, path) {
			t.Errorf("%s was not there before", path)
		}
	}
	for _, worker := range c.s.Workers() {
		if n := len(attempts.FindAllString(c.s.Logs(worker), -1)); n == 0 {
			t.Errorf("%s did nothing", worker)
		}
	}
	azuritetest.Eventually(t, time.Minute, func() error { // loudness may still be measured
		for _, dir := range c.directories() {
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				return fmt.Errorf("%s still holds %v", dir, left)
			}
		}
		return nil
	})
}

// directories are the workers' scratch directories.
func (c *corpus) directories() []string {
	all, _ := filepath.Glob(filepath.Join(c.scratch, "*"))
	return slices.DeleteFunc(all, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.IsDir()
	})
}

// nothingLeft deletes all videos, after which there is no blob.
func (c *corpus) nothingLeft(t *testing.T) {
	account, err := azstore.Open(azstore.Config{ConnectionString: c.s.ConnectionString()})
	if err != nil {
		t.Fatal(err)
	}
	defer account.CloseIdle()
	blobs := blobstore.New(account)
	for _, u := range c.uploads {
		if u.id == "" {
			continue
		}
		if res, err := c.user.API().DeleteVideoWithResponse(t.Context(), u.id, nil); err != nil || res.StatusCode() != http.StatusAccepted {
			t.Fatalf("delete %s: %v", u.id, err)
		}
	}
	azuritetest.Eventually(t, 2*time.Minute, func() error {
		for _, container := range []string{engine.MediaContainer, engine.SourcesContainer, azq.ClaimsContainer} {
			for blob, err := range blobs.List(t.Context(), container, "") {
				if err != nil {
					return err
				}
				return fmt.Errorf("blob %s is left in %s", blob.Name, container)
			}
		}
		return nil
	})
}

// attempts finds what a worker logs about an attempt, on the level debug.
var attempts = regexp.MustCompile(`msg="attempt ended" .*subject=(\S+) step=(\S+) .*took=(\S+) runs=(\d+) cpu=(\S+) memory=(\d+) disk=(\d+)`)

// report logs what each file cost: programs, their processor time, and the most that one
// of them had in memory and on the disk.
func (c *corpus) report(t *testing.T) {
	type sum struct {
		runs         int
		took, cpu    time.Duration
		memory, disk int64
	}
	sums := map[string]*sum{}
	for _, worker := range c.s.Workers() {
		for _, line := range attempts.FindAllStringSubmatch(c.s.Logs(worker), -1) {
			all := sums[line[1]]
			if all == nil {
				all = new(sum)
				sums[line[1]] = all
			}
			var runs int
			var memory, disk int64
			_, _ = fmt.Sscan(line[4]+" "+line[6]+" "+line[7], &runs, &memory, &disk)
			took, _ := time.ParseDuration(line[3])
			cpu, _ := time.ParseDuration(line[5])
			all.runs, all.took, all.cpu = all.runs+runs, all.took+took, all.cpu+cpu
			all.memory, all.disk = max(all.memory, memory), max(all.disk, disk)
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "file\tbytes\tends\tprograms\ttook\tcpu\tmemory MiB\tdisk KiB")
	for _, u := range c.uploads {
		all := sums[u.id]
		if all == nil {
			all = new(sum)
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%v\t%v\t%d\t%d\n", u.name, u.bytes, u.ended, all.runs, all.took.Round(time.Millisecond), all.cpu.Round(time.Millisecond), all.memory>>20, all.disk>>10)
	}
	_ = w.Flush()
	t.Log("\n" + b.String())
}
