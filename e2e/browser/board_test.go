package browser_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/workflow"
)

// witness writes down, for each token, the states that it was seen in, and what broke
// the page's rules. It runs before the page's own script.
const witness = `(() => {
  const seen = window.seen = { paths: {}, broken: [] };
  addEventListener('securitypolicyviolation', (e) => seen.broken.push('CSP: ' + e.violatedDirective));
  addEventListener('error', (e) => seen.broken.push(String(e.message)));
  addEventListener('unhandledrejection', (e) => seen.broken.push(String(e.reason)));
  const look = () => {
    const here = {};
    for (const t of document.querySelectorAll('#board .token[data-id]')) {
      here[t.dataset.id] = t.dataset.state;
    }
    for (const id of new Set([...Object.keys(here), ...Object.keys(seen.paths)])) {
      const path = seen.paths[id] ??= [], state = here[id] ?? 'gone';
      if (path.at(-1) !== state) path.push(state);
    }
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-state'] });
})()`

// openBoard opens the board after a script that runs first, and fails the test for what the console
// says.
func openBoard(t *testing.T, tab context.Context, s *stack.Stack, first string) {
	t.Helper()
	var mu sync.Mutex
	var complaints []string
	said := chromedp.Console(tab)
	go func() {
		for m, err := range said {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleException || m.Type == chromedp.ConsoleWarning {
				mu.Lock()
				complaints = append(complaints, m.Text+" "+m.URL)
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if len(complaints) > 0 {
			t.Errorf("the console says %q", complaints)
		}
	})
	if _, err := chromedp.Call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: first}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(tab, chromedp.Navigate(s.BaseURL()+"/board"), chromedp.WaitVisible("#board-queues .queue")); err != nil {
		t.Fatal(err)
	}
}

// truth waits until a condition of the page holds.
func truth(t *testing.T, tab context.Context, condition string) {
	t.Helper()
	until(t, tab, condition, condition)
}

// unbroken fails for what the witness saw.
func unbroken(t *testing.T, tab context.Context) {
	t.Helper()
	if broken := eval[[]string](t, tab, `window.seen.broken`); len(broken) > 0 {
		t.Errorf("the page broke: %q", broken)
	}
}

func newUser(t *testing.T, s *stack.Stack) *journey.User {
	t.Helper()
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	return user
}

// upload announces a video and sends its file.
func upload(t *testing.T, user *journey.User, v client.NewVideo, path string) client.Video {
	t.Helper()
	announced, err := user.Announce(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := user.Put(t.Context(), announced.Id, file, info.Size()); err != nil {
		t.Fatal(err)
	}
	return announced
}

// TestBoardIsAlive: a message appears, a worker takes it, it goes. Pausing and
// resuming, following and the dialog work by keyboard; a hostile title is a text.
func TestBoardIsAlive(t *testing.T) {
	s := stacktest.Start(t, stack.Options{Env: []string{"WORKERROLE_POOLS=light=2,heavy=1", "CUTROOM_VISIBILITY=*=10s", stacktest.RealTime(t)}})
	tab := open(t)
	openBoard(t, tab, s, witness)
	truth(t, tab, `document.getElementById('board-workers').hasAttribute('data-none')`)
	showsABreaker(t, tab, s)

	const title = `</script><img src=x onerror="window.hacked=1">&lt;b&gt;`
	user := newUser(t, s)
	v := upload(t, user, client.NewVideo{Title: title}, plainClip(t)) // its parts wait, and are made, for longer than looks are apart
	const waiting = `.queue[data-queue="probe"] .token[data-state="lane"]`
	if err := chromedp.Do(tab, chromedp.WaitVisible(waiting)); err != nil {
		t.Fatalf("the message is not shown: %v", err)
	}
	truth(t, tab, fmt.Sprintf(`document.querySelector('#legend a[href="/watch/%s"]')?.textContent.includes(%q)`, v.Id, title))

	press(t, tab, waiting, "\r")
	truth(t, tab, `document.activeElement.id === 'follow' && document.getElementById('follow-facts').textContent.includes('STEP:00001:probe:00000')`)
	if href := eval[string](t, tab, `document.querySelector('#follow-facts a').getAttribute('href')`); href != "/watch/"+v.Id {
		t.Errorf("the token leads to %s", href)
	}
	inspect(t, tab, "board-follow")
	press(t, tab, "#follow", "\x1b")
	truth(t, tab, `document.getElementById('follow').hidden && document.activeElement.matches('.token')`)

	press(t, tab, `[aria-label="Pause queue finish"]`, "\r")
	truth(t, tab, `document.querySelector('.queue[data-queue="finish"]').classList.contains('paused')`)
	truth(t, tab, `document.activeElement.getAttribute('aria-label') === 'Resume queue finish'`) // the way back has the focus
	press(t, tab, `[aria-label="Clear queue purge"]`, "\r")
	truth(t, tab, `document.getElementById('ask').open && document.activeElement.textContent === 'Leave it'`)
	inspect(t, tab, "board-ask")
	typeKeys(t, tab, "\x1b")
	truth(t, tab, `!document.getElementById('ask').open && document.activeElement.getAttribute('aria-label') === 'Clear queue purge'`)

	if _, err := s.AddWorker(t.Context()); err != nil {
		t.Fatal(err)
	}
	const finish = `.queue[data-queue="finish"] .token[data-state="lane"]`
	if err := chromedp.Do(tab, chromedp.WaitVisible(finish)); err != nil {
		t.Fatalf("what the paused queue holds is not shown: %v", err)
	}
	press(t, tab, `[aria-label="Resume queue finish"]`, "\r")
	if _, err := user.AwaitReady(t.Context(), v.Id); err != nil {
		t.Fatal(err)
	}
	truth(t, tab, `document.querySelectorAll('#board .token[data-id]').length === 0`)
	truth(t, tab, `Object.values(window.seen.paths).some((p) => p.join(' ').includes('lane slot gone'))`)
	truth(t, tab, `/is through with .*encode/.test(document.getElementById('log').textContent) && document.getElementById('voice').textContent !== ''`)
	if eval[bool](t, tab, `'hacked' in window`) {
		t.Error("the title was run")
	}
	unbroken(t, tab)
}

// showsABreaker: a worker that receives nothing says so, and because of what, until its
// breaker is closed. Only a heartbeat is needed, as a worker in trouble writes it.
func showsABreaker(t *testing.T, tab context.Context, s *stack.Stack) {
	t.Helper()
	register := workers.New(openAccount(t, s))
	const reason = "trouble with blob since then: 503 ServerBusy"
	seen := time.Now().Add(time.Minute).UTC() // not silent while we look: that takes the words away, too
	sick := workers.Worker{Name: "sick", SeenAt: seen, Trouble: reason, Breakers: []azq.BreakerStats{{
		Dependency: "blob", State: "open", Since: time.Now().UTC(), Reason: "503 ServerBusy",
	}}}
	if err := register.Beat(t.Context(), sick); err != nil {
		t.Fatal(err)
	}
	const node = `document.querySelector('[data-worker="sick"]')`
	truth(t, tab, node+`?.innerText.includes('receives nothing') && `+node+`.innerText.includes('blob open') && `+node+`.innerText.includes('`+reason+`')`)
	// For who cannot see the picture.
	truth(t, tab, `(document.getElementById('tables').open = true) && document.getElementById('workers').innerText.includes('receives nothing: `+reason+`')`)
	eval[bool](t, tab, `document.getElementById('tables').open = false`)
	if err := register.Beat(t.Context(), workers.Worker{Name: "sick", SeenAt: seen}); err != nil {
		t.Fatal(err)
	}
	truth(t, tab, node+` && !/receives nothing|blob|trouble/.test(`+node+`.innerText) && document.getElementById('log').textContent.includes('Worker sick receives again.')`)
	if err := register.Leave(t.Context(), "sick"); err != nil {
		t.Fatal(err)
	}
}

// TestBoardShowsAKilledWorker: its message stays where it was until the lease ends,
// comes back with one delivery more, and another worker takes it.
func TestBoardShowsAKilledWorker(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{Workers: 1, Env: []string{"WORKERROLE_POOLS=light=2,heavy=1", "CUTROOM_VISIBILITY=*=10s", stacktest.RealTime(t)}})
	tab := open(t)
	openBoard(t, tab, s, witness)
	user := newUser(t, s)
	v := upload(t, user, client.NewVideo{Title: "Interrupted"}, plainClip(t))
	const held = `.worker .token[data-state="slot"][title^="encode 3"]` // 16 s of film, which take seconds to encode
	if err := chromedp.Do(tab, chromedp.WaitVisible(held)); err != nil {
		t.Fatalf("no worker holds a chunk: %v", err)
	}
	id := eval[string](t, tab, fmt.Sprintf(`document.querySelector(%q).dataset.id`, held))
	token := fmt.Sprintf(`document.querySelector('.token[data-id="%s"]')`, id)
	if err := s.Kill(stack.Worker(1), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	truth(t, tab, token+`?.dataset.state === 'lane' && `+token+`.querySelector('.token-badge').textContent === '1'`)
	shoot(t, tab, "board-back")
	if _, err := s.AddWorker(t.Context()); err != nil {
		t.Fatal(err)
	}
	patience, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(4*time.Minute))
	defer cancel()
	if _, err := user.AwaitReady(patience, v.Id); err != nil {
		t.Fatal(err)
	}
	truth(t, tab, `!`+token)
	path := strings.Join(eval[[]string](t, tab, fmt.Sprintf(`window.seen.paths[%q]`, id)), " ")
	// Between a look at the queue and the heartbeat of its worker a message may be nowhere.
	if !regexp.MustCompile(`slot (hidden )?lane (gone )?(slot )?gone$`).MatchString(path) {
		t.Errorf("the token was seen %s", path)
	}
	truth(t, tab, `/is back in encode.* after one delivery/.test(document.getElementById('log').textContent)`)
	unbroken(t, tab)
}

// crowd is a stack without workers whose queues are kept full by the test, with eight
// workers that only say what they do.
type crowd struct {
	t        *testing.T
	queues   *azq.Client
	register *workers.Register
	videos   []engine.ID
	names    []string
	held     map[int][]*azq.Lease // by worker
	done     []int64
	sent     int
}

// openAccount is the way to a stack's storage beside its roles.
func openAccount(t *testing.T, s *stack.Stack) *azstore.Account {
	t.Helper()
	account, err := azstore.Open(azstore.Config{ConnectionString: s.ConnectionString()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.CloseIdle)
	return account
}

const crowdTokens, crowdWorkers, crowdSlots = 200, 8, 3

func newCrowd(t *testing.T, s *stack.Stack) *crowd {
	t.Helper()
	account := openAccount(t, s)
	c := &crowd{t: t, queues: azq.Open(account, azq.Options{Queues: workflow.Specs}), register: workers.New(account), held: map[int][]*azq.Lease{}, done: make([]int64, crowdWorkers)}
	user := newUser(t, s)
	for i := range 12 {
		v, err := user.Announce(t.Context(), client.NewVideo{Title: fmt.Sprintf("Film number %d", i)})
		if err != nil {
			t.Fatal(err)
		}
		c.videos = append(c.videos, engine.ID(v.Id))
	}
	for n := range crowdWorkers {
		c.names = append(c.names, fmt.Sprintf("worker-%d", n+1))
	}
	for c.sent < crowdTokens {
		c.send(t.Context())
	}
	leases, err := c.queues.Queue("audio").Receive(t.Context(), 1)
	if err != nil || len(leases) != 1 {
		t.Fatal(len(leases), err)
	}
	if err := leases[0].Poison(t.Context(), "ffmpeg: "+hostile, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// lanes that hold the tokens: ten, of which each may hold up to 32 that are shown.
var lanes = []string{"encode-first", "encode-high", "encode-high-1", "encode-normal", "encode-normal-1", "encode-normal-2", "encode-low", "audio", "finish", "index"}

func (c *crowd) send(ctx context.Context) {
	spec := c.queues.Queue(lanes[c.sent%len(lanes)]).Spec()
	key := engine.Key{ID: c.videos[c.sent/3%len(c.videos)], Generation: 1, Step: spec.Kinds[0], Index: c.sent}
	item, err := azq.NewItem(key.Step, string(key.ID), key.ItemID(), key.Payload())
	if err == nil {
		err = c.queues.SendItem(ctx, spec.Name, item, 0)
	}
	if err != nil && ctx.Err() == nil {
		c.t.Errorf("send: %v", err)
	}
	c.sent++
}

// turn lets one worker finish one message and take another, and sends a new one.
func (c *crowd) turn(ctx context.Context) error {
	n := rand.IntN(crowdWorkers)
	if mine := c.held[n]; len(mine) >= crowdSlots {
		if err := mine[0].Complete(ctx); err != nil {
			return err
		}
		c.held[n] = mine[1:]
		c.done[n]++
	}
	leases, err := c.queues.Queue(lanes[rand.IntN(len(lanes))]).Receive(ctx, 1)
	if err != nil {
		return err
	}
	c.held[n] = append(c.held[n], leases...)
	c.send(ctx)
	return c.beat(ctx, n)
}

func (c *crowd) beat(ctx context.Context, n int) error {
	w := workers.Worker{
		Name: c.names[n], Host: "here", PID: n + 1, StartedAt: time.Now().Add(-time.Hour).UTC().Truncate(time.Hour), SeenAt: time.Now().UTC(), Leader: n == 0,
		Pools: map[string]int{"light": 2, "heavy": 2}, Queues: map[string]workers.Count{"encode-high": {Done: c.done[n]}}, Done: c.done[n],
	}
	for _, l := range c.held[n] {
		item, err := l.Item()
		if err != nil {
			return err
		}
		w.Busy = append(w.Busy, azq.Running{
			Delivery: l.Delivery, Queue: queueOf(item), Kind: item.Kind, Subject: item.Subject, Deadline: l.Deadline(), Item: item.ID,
		})
	}
	return c.register.Beat(ctx, w)
}

// queueOf finds where send has put an item.
func queueOf(item azq.Item) string {
	key, _ := engine.KeyOf(item)
	return lanes[key.Index%len(lanes)]
}

// move goes on until ctx ends: about four messages a second.
func (c *crowd) move(ctx context.Context) {
	for n := range crowdWorkers {
		if err := c.beat(ctx, n); err != nil && ctx.Err() == nil {
			c.t.Errorf("beat: %v", err)
		}
	}
	for ctx.Err() == nil {
		if err := c.turn(ctx); err != nil && ctx.Err() == nil {
			c.t.Errorf("the crowd stands still: %v", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// TestBoardIsCheap: 200 tokens and 8 workers in motion take some 18 % of a core in the
// browser, and the web role less than 2 % for twenty lookers more. The bounds here are
// higher, because tests share the machine.
func TestBoardIsCheap(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stack.Options{})
	c := newCrowd(t, s)
	moving, stop := context.WithCancel(t.Context())
	var movers sync.WaitGroup
	movers.Go(func() { c.move(moving) })
	t.Cleanup(func() { stop(); movers.Wait() })
	tab := open(t)
	openBoard(t, tab, s, `window.seen = { broken: [] }`) // a witness costs more than the page
	truth(t, tab, `document.querySelectorAll('#board .token[data-id]').length > 150 && document.querySelectorAll('.worker').length === 8`)
	truth(t, tab, `document.querySelectorAll('.worker .token').length > 8`)
	lookers(t, s, 20)
	if _, err := chromedp.Call(tab, performance.Enable, performance.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	const span = 15 * time.Second
	page, parts, web, began := metricsOf(t, tab), cpuOfBrowser(t, tab), cpuOf(t, s.Pid(stack.Web)), time.Now()
	time.Sleep(span) // what is measured
	took := time.Since(began).Seconds()
	share := func(now, before float64) float64 { return 100 * (now - before) / took }
	var report []string
	pageNow, partsNow := metricsOf(t, tab), cpuOfBrowser(t, tab)
	for _, name := range []string{"TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration"} {
		report = append(report, fmt.Sprintf("%s %.1f %%", name, share(pageNow[name], page[name])))
	}
	for kind, now := range partsNow {
		report = append(report, fmt.Sprintf("process %s %.1f %%", kind, share(now, parts[kind])))
	}
	ofPage, ofWeb := share(total(partsNow), total(parts)), share(cpuOf(t, s.Pid(stack.Web)), web)
	t.Logf("the browser takes %.1f %% of a core, the web role with 21 lookers %.1f %%; %s", ofPage, ofWeb, strings.Join(report, ", "))
	if ofPage > 30 {
		t.Errorf("the browser takes %.1f %% of a core", ofPage)
	}
	if ofWeb > 4 {
		t.Errorf("the web role takes %.1f %% of a core", ofWeb)
	}
	press(t, tab, ".poisoned .token", "\r")
	truth(t, tab, `document.querySelector('#follow-facts a[href="/patterns/poison-messages"]')?.textContent === 'docs/patterns/poison-messages.md'`)
	portraits(t, tab)

	press(t, tab, ".poisoned .small", "\r")
	truth(t, tab, `document.getElementById('ask').open`)
	press(t, tab, "#ask-yes", "\r")
	truth(t, tab, `document.querySelectorAll('.poisoned').length === 0 && document.activeElement.id === 'poison-title'`)

	stop() // nothing moves any more
	movers.Wait()
	press(t, tab, `[aria-label="Clear queue index"]`, "\r")
	truth(t, tab, `/^Remove (all \d+ messages|the one message) of index\?/.test(document.getElementById('ask-text').textContent)`)
	press(t, tab, "#ask-yes", "\r")
	truth(t, tab, `document.getElementById('status').textContent === 'Queue index is cleared.'`)
	truth(t, tab, `!document.querySelector('.queue[data-queue="index"] .token[data-state="lane"]')`)
	if eval[bool](t, tab, `'owned' in window`) {
		t.Error("the reason of the poison was run")
	}
	unbroken(t, tab)
}

// portraits looks at the crowded board in both schemes, narrow and wide: nothing is
// beside its right edge, axe finds nothing, and a person may look at the pictures.
func portraits(t *testing.T, tab context.Context) {
	t.Helper()
	for _, s := range []sight{{"light", 1440}, {"dark", 360}, {"dark", 1920}, {"light", 360}} {
		s.set(t, tab)
		shootWhole(t, tab, fmt.Sprintf("board-%d-%s", s.width, s.scheme))
		// A token that grows as it arrives may reach beyond the edge for a moment.
		const tooWide = `document.documentElement.scrollWidth <= innerWidth ? '' : document.documentElement.scrollWidth + ' px, because of ' +
			[...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll, #air') && e.getBoundingClientRect().right > innerWidth).map((e) => e.className || e.id || e.tagName).slice(0, 5).join(', ')`
		wide := eval[string](t, tab, tooWide)
		for began := time.Now(); wide != "" && !azuritetest.Late(began, 2*time.Second); wide = eval[string](t, tab, tooWide) {
		}
		if wide != "" {
			t.Errorf("at %d px the page is wider than the window: %s", s.width, wide)
		}
		if found := findings(t, tab); len(found) > 0 {
			t.Errorf("%v: axe found %s", s, strings.Join(found, "; "))
		}
	}
}

func shootWhole(t *testing.T, tab context.Context, name string) {
	t.Helper()
	if os.Getenv("CUTROOM_SCREENSHOTS") == "" {
		return
	}
	png, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Getenv("CUTROOM_SCREENSHOTS"), name+".png"), png, 0o600)
	}
	if err != nil {
		t.Logf("screenshot %s: %v", name, err)
	}
}

// plainClip has chunks of 2, 4, 8, 16 and 2 s.
func plainClip(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plain.mp4")
	cmd := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error",
		"-f", "lavfi", "-i", "testsrc2=s=160x90:r=15:d=32", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	return path
}

// lookers opens streams that are read and not looked at, until the test ends.
func lookers(t *testing.T, s *stack.Stack, n int) {
	t.Helper()
	transport := &http.Transport{}
	for range n {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.BaseURL()+"/api/v1/ops/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(err, resp)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(io.Discard, resp.Body)
		}()
		t.Cleanup(func() { _ = resp.Body.Close(); <-done })
	}
}

// cpuOfBrowser is the time that each kind of the browser's processes has computed.
func cpuOfBrowser(t *testing.T, tab context.Context) map[string]float64 {
	t.Helper()
	got, err := chromedp.CallBrowser(tab, systeminfo.GetProcessInfo, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	sum := map[string]float64{}
	for _, p := range got.ProcessInfo {
		sum[p.Type] += cpuOf(t, int(p.ID))
	}
	return sum
}

func total(parts map[string]float64) (sum float64) {
	for _, part := range parts {
		sum += part
	}
	return sum
}

// metricsOf is what the page's main thread did, in seconds by the clock.
func metricsOf(t *testing.T, tab context.Context) map[string]float64 {
	t.Helper()
	got, err := chromedp.Call(tab, performance.GetMetrics, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, m := range got.Metrics {
		values[m.Name] = m.Value
	}
	return values
}

// cpuOf is the time that processes have computed, in seconds; 0 where there is no
// /proc to read it from.
func cpuOf(t *testing.T, pids ...int) (sum float64) {
	t.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
		for _, field := range fields[11:13] { // user and system time, in hundredths
			ticks, _ := strconv.ParseFloat(field, 64)
			sum += ticks / 100
		}
	}
	return sum
}
