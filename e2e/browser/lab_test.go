package browser_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/lab"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

// TestKillAWorkerFromTheBoard: while a video plays, the worker that encodes it is killed
// with the keyboard. The board says so in words and shows the process that follows, the
// player does not stall, the journey shows the attempt that was lost, and the video
// becomes ready.
func TestKillAWorkerFromTheBoard(t *testing.T) {
	t.Parallel()
	s, err := lab.Start(t.Context(), stacktest.Complete(t, stack.Options{Workers: 2, Env: []string{
		"WORKERROLE_POOLS=light=4,heavy=1", "CUTROOM_VISIBILITY=*=6s", stacktest.RealTime(t),
	}}))
	if err != nil {
		t.Fatal(err)
	}
	stacktest.StopAfter(t, s)
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	tab := open(t)
	tab, cancel := context.WithTimeout(tab, azuritetest.Patience(2*time.Minute))
	t.Cleanup(cancel)
	said := listen(t, tab)
	for _, sight := range []sight{{"dark", 360}, {"light", 1280}} {
		sight.set(t, tab)
		if err := chromedp.Do(tab, chromedp.Navigate(s.BaseURL()+"/board"), chromedp.WaitVisible(`[data-worker="workerrole-2"] button[aria-label^="Kill"]`)); err != nil {
			t.Fatalf("the board shows no lab: %v", err)
		}
		if err := chromedp.Do(tab, chromedp.ScrollIntoView(`#lab-burst`)); err != nil {
			t.Fatal(err)
		}
		shoot(t, tab, fmt.Sprint("lab-", sight.width))
		if found := findings(t, tab); len(found) > 0 {
			t.Errorf("%v: axe found\n%s", sight, strings.Join(found, "\n"))
		}
		if beyond, err := chromedp.Run(tab, chromedp.Evaluate[float64](`document.documentElement.scrollWidth - innerWidth`)); err != nil || beyond > 0 {
			t.Errorf("%v: %.0f pixels beyond the edge, %v", sight, beyond, err)
		}
	}

	visit(t, tab, s.BaseURL()+"/learn/path/1")
	truth(t, tab, `!document.querySelector('.missing')`) // there is a lab
	press(t, tab, `article a[href="/board#lab"]`, kb.Enter)
	until(t, tab, "an address of the lab leads to it", `(() => { const top = document.getElementById('lab').getBoundingClientRect().top; return scrollY > 0 && top < innerHeight; })()`)

	v, err := user.Announce(t.Context(), client.NewVideo{Title: "Killed from the board"})
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(plainClip(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := user.Put(t.Context(), v.Id, strings.NewReader(string(content)), int64(len(content))); err != nil {
		t.Fatal(err)
	}
	viewer := open(t)
	watch(t, viewer, s.BaseURL()+"/watch/"+v.Id)
	stacktest.Eventually(t, "it plays", func() bool { return look(t, viewer).First != nil })
	victim, pid := atWork(t, s, user, v.Id)
	button := fmt.Sprintf(`[data-worker=%q] button[aria-label="Kill %s"]`, victim, victim)
	if err := chromedp.Do(tab, chromedp.Focus(button)); err != nil {
		t.Fatalf("no button to kill %s: %v", victim, err)
	}
	if err := chromedp.Do(tab, chromedp.KeyEvent(kb.Enter)); err != nil {
		t.Fatal(err)
	}
	read := func(script string) string {
		text, err := chromedp.Run(tab, chromedp.Evaluate[string](script))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	stacktest.Eventually(t, "the board says who was killed", func() bool {
		return strings.Contains(read(`document.getElementById('lab-said').textContent`), fmt.Sprintf("%s (process %d) was killed", victim, pid))
	})
	shoot(t, tab, "lab-killed")
	stacktest.Eventually(t, "the board shows the process that follows", func() bool {
		next := read(fmt.Sprintf(`document.querySelector('[data-worker=%q][data-state=running]')?.dataset.pid ?? ''`, victim))
		return next != "" && next != strconv.Itoa(pid)
	})
	if focus := read(`document.activeElement.getAttribute('aria-label') ?? ''`); focus != "Kill "+victim {
		t.Errorf("the focus is on %q, not where it was", focus)
	}
	if _, err := user.AwaitReady(t.Context(), v.Id); err != nil {
		t.Fatal(err)
	}
	until(t, viewer, "it plays on", `document.getElementById('player').currentTime > 20`)
	seen, atRest := look(t, viewer), azuritetest.Patience(time.Second) == time.Second
	if len(seen.Seeks)+len(seen.Refused) > 0 || atRest && len(seen.Waiting) > 0 {
		t.Errorf("the viewer of the video whose worker was killed saw %+v", seen)
	}
	eval[any](t, viewer, toJourney)
	await(t, viewer, `document.querySelectorAll('#waterfall .bar[data-kind=lost]').length ? 1 : -1`)

	next, err := user.Announce(t.Context(), client.NewVideo{Title: "Straight to the blob"})
	if err != nil {
		t.Fatal(err)
	}
	// The valet key leads through the proxy before the storage: policy of the page,
	// preflight and signature hold on that way.
	answer, err := chromedp.Run(tab, chromedp.Evaluate[string](fmt.Sprintf(`fetch('/api/v1/videos/%s/upload', { method: 'POST', body: '{"sizeBytes":3}', headers: { 'Content-Type': 'application/json' } }).then((r) => r.json())
		.then((g) => fetch(g.send[0].url, { method: 'PUT', body: 'abc', headers: { 'x-ms-blob-type': 'BlockBlob', 'Content-MD5': 'kAFQmDzST7DWlj99KOF/cg==' } }))
		.then((r) => String(r.status), (e) => String(e))`, next.Id), chromedp.EvalAwaitPromise))
	if err != nil || answer != "201" {
		t.Errorf("a part straight to its blob: %s, %v", answer, err)
	}
	if errors := said.take(); len(errors) > 0 {
		t.Errorf("the console says\n%s", strings.Join(errors, "\n"))
	}
}

// atWork waits until a worker encodes the video, and returns it with its process.
func atWork(t *testing.T, s *stack.Stack, user *journey.User, id string) (name string, pid int) {
	t.Helper()
	found := azuritetest.Poll(time.Minute, func() bool {
		res, err := user.API().ListStepsWithResponse(t.Context(), id)
		if err != nil || res.JSON200 == nil {
			t.Fatalf("steps of %s: %v", id, err)
		}
		for _, step := range res.JSON200.Items {
			if step.State != "running" || step.Worker == nil {
				continue
			}
			for _, name = range s.Workers() {
				if pid = s.Pid(name); pid != 0 && strings.HasSuffix(*step.Worker, "-"+strconv.Itoa(pid)) {
					return true
				}
			}
		}
		return false
	})
	if !found {
		t.Fatal("no worker is at work")
	}
	return name, pid
}
