package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/provision"
	"github.com/cutroom/cutroom/shared/testkit/partstest"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
)

// trueOutage is how long a service is away with the clocks of production instead
// of short ones: OUTAGE=5m go test -timeout 1h -run TestOutageOfOneService .
var trueOutage, _ = time.ParseDuration(os.Getenv("OUTAGE"))

// site is an account and the means to put videos into it and look at them.
type site struct {
	account *azstore.Account
	queues  *azq.Client
	videos  *videostore.Store
	blobs   *blobstore.Store
}

func newSite(t *testing.T) *site {
	t.Helper()
	azuritetest.Slow(t, "runs workers and ffmpeg")
	s := &site{account: azuritetest.Account(t)}
	s.queues = azq.Open(s.account, azq.Options{Queues: workflow.Specs})
	if err := provision.Ensure(t.Context(), s.account, s.queues); err != nil {
		t.Fatal(err)
	}
	s.videos, s.blobs = videostore.New(s.account, s.queues), blobstore.New(s.account)
	return s
}

func (s *site) upload(t *testing.T, path string, n int) (ids []engine.ID) {
	t.Helper()
	for range n {
		v := video.Video{
			Meta: engine.Meta{
				ID: engine.NewID(), Owner: video.LocalOwner, Channel: "tests", State: engine.AwaitingUpload,
				Priority: engine.Normal, CreatedAt: time.Now().UTC(),
			},
			Title: "A clip", Visibility: video.Public,
		}
		if _, err := s.videos.Create(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		partstest.Begin(t, s.videos, s.blobs, v.ID, path).Complete()
		ids = append(ids, v.ID)
	}
	return ids
}

// start runs a worker role in this process until the test ends.
func (s *site) start(t *testing.T, name string, change func(*config), env map[string]string) {
	t.Helper()
	all := map[string]string{
		"AZURE_STORAGE_CONNECTION_STRING": azuritetest.ConnectionString(t), "CUTROOM_PREFIX": s.account.Prefix(),
		"WORKERROLE_ADMIN_ADDR": "127.0.0.1:0", "WORKERROLE_NAME": name, "WORKERROLE_SCRATCH": t.TempDir(),
		"WORKERROLE_POOLS": "light=3,heavy=1",
	}
	if trueOutage == 0 {
		all["CUTROOM_VISIBILITY"] = "probe=5s,encode-high=5s,encode-normal=5s,encode-low=5s,finish=5s,index=5s"
		all["CUTROOM_RETRY_MAX"], all["CUTROOM_RETRY_DELAY"], all["CUTROOM_TRY_TIMEOUT"] = "2", "100ms", "2s"
	}
	maps.Copy(all, env)
	cfg, err := loadConfig(func(name string) string { return all[name] })
	if err != nil {
		t.Fatal(err)
	}
	if trueOutage == 0 {
		cfg.FirstRetry, cfg.MaxTroublePause = 100*time.Millisecond, 2*time.Second
	}
	if change != nil {
		change(&cfg)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runWith(ctx, cfg) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("worker %s stopped with %v", name, err)
		}
	})
}

// row returns what a worker says of itself.
func (s *site) row(t *testing.T, name string) (workers.Worker, error) {
	t.Helper()
	all, err := workers.New(s.account).List(t.Context(), time.Time{})
	if err != nil {
		return workers.Worker{}, err
	}
	for _, w := range all {
		if w.Name == name {
			return w, nil
		}
	}
	return workers.Worker{}, errors.New("not in the register")
}

func (s *site) state(t *testing.T, want engine.State, ids ...engine.ID) error {
	t.Helper()
	for _, id := range ids {
		view, err := s.videos.View(t.Context(), id)
		if err != nil {
			return err
		}
		if view.Subject.State != want {
			return fmt.Errorf("state %s, error %v, steps %+v", view.Subject.State, view.Subject.Error, view.Runs)
		}
	}
	return nil
}

func (s *site) wantNoPoison(t *testing.T) {
	t.Helper()
	if list, _, err := s.queues.ListPoison(t.Context(), 10, ""); err != nil || len(list) > 0 {
		t.Errorf("poison: %+v, %v", list, err)
	}
}

// A service fails, alone, in every way and for much longer than the retries and
// five failed attempts take. Then every video becomes ready, and nothing of it
// was held against any item.
func TestOutageOfOneServiceFailsNoVideo(t *testing.T) {
	t.Parallel()
	path, each := clip(t, 6), 7*time.Second
	if trueOutage > 0 {
		each = trueOutage / 3
	}
	for _, service := range []azstore.Service{azstore.Blobs, azstore.Tables, azstore.Queues} {
		t.Run(string(service), func(t *testing.T) {
			t.Parallel()
			s, outage := newSite(t), azuritetest.NewProxy(t)
			s.start(t, "only", nil, map[string]string{"AZURE_STORAGE_CONNECTION_STRING": outage.ConnectionString()})
			ids := s.upload(t, path, 3)
			azuritetest.Eventually(t, time.Minute, func() error { // work is in progress
				view, err := s.videos.View(t.Context(), ids[0])
				if err == nil && len(view.Runs) == 0 {
					err = errors.New("not begun")
				}
				return err
			})
			told := false
			for _, fault := range []inject.Fault{inject.ServerBusy, inject.Reset, inject.Silence} {
				outage.Begin(inject.Burst{Service: service, Fault: fault})
				for end := time.Now().Add(each); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
					w, err := s.row(t, "only")
					told = told || err == nil && w.Trouble != ""
				}
				if fired := outage.Met(service, fault); fired < 3 {
					t.Errorf("fault %s was met by %d requests", fault, fired)
				}
			}
			outage.Calm()
			healed := time.Now()
			azuritetest.Eventually(t, 4*time.Minute, func() error { return s.state(t, engine.Ready, ids...) })
			t.Logf("%s away for %v: all ready %.1f s later", service, 3*each, time.Since(healed).Seconds())
			s.wantNoPoison(t)
			if service != azstore.Tables && !told {
				t.Error("the register never said that the worker met trouble")
			}
			azuritetest.Eventually(t, time.Minute, func() error {
				w, err := s.row(t, "only")
				switch {
				case err != nil:
					return err
				case w.Failed != 0:
					t.Fatalf("failures were recorded: %+v", w)
				case w.Trouble != "" || service != azstore.Queues && w.Troubled == 0:
					return fmt.Errorf("%+v", w)
				}
				return nil
			})
		})
	}
}

// A worker whose ffmpeg always says that the disk is full, beside a healthy one.
func TestFullDiskOfOneWorkerFailsNoVideo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	real, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(t.TempDir(), "ffmpeg")
	script := "#!/bin/sh\ncase \" $* \" in *' -i '*) ;; *) exec " + real + " \"$@\" ;; esac\n" + // questions are answered
		"echo 'av_interleaved_write_frame(): No space left on device' >&2\nexit 228\n"
	if err := os.WriteFile(full, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s.start(t, "sick", nil, map[string]string{"FFMPEG_PATH": full})
	s.start(t, "no room", nil, map[string]string{"WORKERROLE_SCRATCH_FREE": "1000000000"}) // a petabyte
	ids := s.upload(t, clip(t, 6), 3)
	azuritetest.Eventually(t, time.Minute, func() error {
		var errs []error
		for _, name := range []string{"sick", "no room"} {
			w, err := s.row(t, name)
			if err == nil && w.Trouble == "" {
				err = fmt.Errorf("%+v %v", w, s.state(t, engine.Ready, ids...))
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	s.start(t, "healthy", nil, nil)
	azuritetest.Eventually(t, 3*time.Minute, func() error { return s.state(t, engine.Ready, ids...) })
	s.wantNoPoison(t)
	w, err := s.row(t, "sick")
	if err != nil || w.Failed != 0 || w.Troubled == 0 || w.Troubled > 60 {
		t.Errorf("the sick worker: %+v, %v", w, err)
	}
	// One that has no room gives each step back, at no cost.
	if w, err = s.row(t, "no room"); err != nil || w.Failed != 0 || w.Troubled == 0 || !strings.Contains(w.Trouble, "scratch disk") {
		t.Errorf("the worker without room: %+v, %v", w, err)
	}
}

// A probe of the platform asks /readyz: 503 with the reason while a breaker is open, and
// 200 afterwards. Blobs are away, because /readyz asks a queue by itself: whether it
// answers 503 is up to the breaker alone. The register, which the board reads, says the same.
func TestReadinessFollowsTheBreaker(t *testing.T) {
	t.Parallel()
	s, outage := newSite(t), azuritetest.NewProxy(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // the worker takes the port
	s.start(t, "probed", nil, map[string]string{"AZURE_STORAGE_CONNECTION_STRING": outage.ConnectionString(), "WORKERROLE_ADMIN_ADDR": address})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	answers := func(path string, status int, text string) func() error {
		return func() error {
			res, err := client.Get("http://" + address + path)
			if err != nil {
				return err
			}
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			if err == nil && (res.StatusCode != status || !strings.HasPrefix(string(body), text)) {
				err = fmt.Errorf("%s: %d %q, want %d %q", path, res.StatusCode, body, status, text)
			}
			return err
		}
	}
	azuritetest.Eventually(t, time.Minute, answers("/readyz", http.StatusOK, "ok\n"))

	reason := fmt.Sprintf("trouble with %s since ", azstore.Blobs)
	outage.Begin(inject.Burst{Service: azstore.Blobs, Fault: inject.ServerBusy})
	ids := s.upload(t, clip(t, 2), 3) // an item that is not worked on meets no trouble
	azuritetest.Eventually(t, time.Minute, answers("/readyz", http.StatusServiceUnavailable, "not ready: "+reason))
	azuritetest.Eventually(t, 20*time.Second, func() error {
		w, err := s.row(t, "probed")
		if err == nil && (len(w.Breakers) != 1 || w.Breakers[0].Dependency != string(azstore.Blobs) || w.Breakers[0].State != azq.BreakerOpen ||
			w.Breakers[0].Reason == "" || !strings.HasPrefix(w.Trouble, reason)) {
			err = fmt.Errorf("the register says %q, %+v", w.Trouble, w.Breakers)
		}
		return err
	})
	if err := answers("/livez", http.StatusOK, "ok\n")(); err != nil { // to restart it would not help
		t.Error(err)
	}

	outage.Calm()
	azuritetest.Eventually(t, time.Minute, answers("/readyz", http.StatusOK, "ok\n"))
	azuritetest.Eventually(t, 20*time.Second, func() error {
		w, err := s.row(t, "probed")
		if err == nil && (len(w.Breakers) > 0 || w.Trouble != "") {
			err = fmt.Errorf("the register says %q, %+v", w.Trouble, w.Breakers)
		}
		return err
	})
	azuritetest.Eventually(t, 2*time.Minute, func() error { return s.state(t, engine.Ready, ids...) }) // ready, and it receives
}
