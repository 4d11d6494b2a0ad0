// Package papers_test proves rows of docs/papers.md that belong to no single
// package: what the roles share, how long a message is hidden, and why its text
// is base64.
package papers_test

import (
	"bytes"
	"context"
	"crypto/md5" // what Azure Storage checks transfers with; not a secret
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azurite"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run has one emulator for the tests and for the roles that they start.
func run(m *testing.M) int {
	flag.Parse()
	if !testing.Short() && os.Getenv(azuritetest.Variable) == "" {
		server, err := azurite.Start(context.Background(), azurite.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, "start the emulator:", err)
			return 1
		}
		defer func() { _ = server.Stop() }()
		if err := os.Setenv(azuritetest.Variable, server.ConnectionString()); err != nil {
			fmt.Fprintln(os.Stderr, "name the emulator:", err)
			return 1
		}
	}
	return stacktest.Run(m)
}

// address is one public address with several web roles behind it. Requests go to
// them in turn, so nothing that a role keeps for itself is there at the next one.
type address struct {
	*httptest.Server
	roles []*url.URL
	next  atomic.Int64
	asked [2]atomic.Int64
	gone  atomic.Bool // the first role
}

func newAddress(t *testing.T, roles ...string) *address {
	t.Helper()
	a := &address{}
	for _, role := range roles {
		u, err := url.Parse(role)
		if err != nil {
			t.Fatal(err)
		}
		a.roles = append(a.roles, u)
	}
	a.Server = httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		i := int(a.next.Add(1)) % len(a.roles)
		if a.gone.Load() {
			i = 1
		}
		a.asked[i].Add(1)
		r.SetURL(a.roles[i])
	}})
	t.Cleanup(a.Close)
	return a
}

// Q1: two web roles behind one address serve one user together, because they
// share nothing but storage; one of them is killed and nothing is missing.
func TestTwoWebRolesBehindOneAddress(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: this test runs Azurite and the built roles")
	}
	options := stack.Options{
		ConnectionString: azuritetest.ConnectionString(t), Env: []string{"CUTROOM_PREFIX=" + azuritetest.Prefix()},
	}
	second := stacktest.Start(t, options)
	options.Workers = 1
	first := stacktest.Start(t, options)
	at := newAddress(t, first.BaseURL(), second.BaseURL())
	user, err := journey.New(at.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)

	content := clip(t, 2)

	// The same Idempotency-Key at both roles makes one video.
	title, key := "Lighthouse keepers", "one-key-for-both-roles"
	var ids []string
	for range 2 {
		res, err := user.API().CreateVideoWithResponse(t.Context(), &client.CreateVideoParams{IdempotencyKey: &key}, client.NewVideo{Title: title})
		if err != nil || res.JSON201 == nil {
			t.Fatalf("create: %v, %s", err, res.Body)
		}
		ids = append(ids, res.JSON201.Id)
	}
	if ids[0] != ids[1] {
		t.Errorf("one key made the videos %v", ids)
	}
	other, err := user.Announce(t.Context(), client.NewVideo{Title: "Lighthouse ships"})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{ids[0], other.Id} {
		if err := user.UploadParts(t.Context(), id, bytes.NewReader(content), int64(len(content)), func(int64) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := user.AwaitReady(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := user.AwaitFound(t.Context(), "lighthouse", id); err != nil {
			t.Fatal(err)
		}
	}

	// A page token of one role is good at the other.
	one := 1
	var listed []string
	for token := (*string)(nil); ; {
		res, err := user.API().ListVideosWithResponse(t.Context(), &client.ListVideosParams{Limit: &one, PageToken: token})
		if err != nil || res.JSON200 == nil {
			t.Fatalf("list: %v, %s", err, res.Body)
		}
		for _, v := range res.JSON200.Items {
			listed = append(listed, v.Id)
		}
		if token = res.JSON200.NextPageToken; token == nil {
			break
		}
	}
	if want := []string{other.Id, ids[0]}; !slices.Equal(listed, want) {
		t.Errorf("listed over both roles: %v, want %v", listed, want)
	}

	at.gone.Store(true)
	if err := first.Kill(stack.Web, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := user.FirstSegment(t.Context(), ids[0]); err != nil {
		t.Errorf("with one web role killed: %v", err)
	}
	a, b := at.asked[0].Load(), at.asked[1].Load()
	t.Logf("requests: %d and %d", a, b)
	if a < 5 || b < 5 {
		t.Errorf("the roles answered %d and %d requests, want both in use", a, b)
	}
}

// Q16a, Q16b: where the duration of work is known, the visibility timeout covers
// it, so no other worker receives the message meanwhile and it is deleted without
// ever being renewed. Quick and slow work have queues with timeouts of their own:
// the message of a quick worker that died is back long before a slow one's.
func TestVisibilityCoversPredictableWork(t *testing.T) {
	t.Parallel()
	const quick, slow = 2 * time.Second, 6 * time.Second
	var specs []azq.Spec
	for name, visibility := range map[string]time.Duration{"quick": quick, "slow": slow} {
		specs = append(specs, azq.Spec{Name: name, Pool: "only", Visibility: visibility, Weight: 1, MaxIdlePoll: time.Second, MaxFailures: 5})
	}
	queues := azq.Open(azuritetest.Account(t), azq.Options{Queues: specs})
	if err := queues.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	send := func(queue, id string) {
		t.Helper()
		item, err := azq.NewItem("encode", "a-subject", id, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := queues.Queue(queue).Send(t.Context(), item, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(queue string) []*azq.Lease {
		t.Helper()
		leases, err := queues.Queue(queue).Receive(t.Context(), 32)
		if err != nil {
			t.Fatal(err)
		}
		return leases
	}
	send("quick", "done in time")
	send("slow", "done in time")
	work := map[string]*azq.Lease{"quick": receive("quick")[0], "slow": receive("slow")[0]}
	send("quick", "its worker dies")
	began := time.Now()
	if died := receive("quick"); len(died) != 1 {
		t.Fatalf("%d messages, want the one that is visible", len(died))
	}

	if err := work["quick"].Complete(t.Context()); err != nil {
		t.Errorf("work that fits its timeout: %v", err)
	}
	if !azuritetest.Poll(quick+3*time.Second, func() bool { return len(receive("quick")) > 0 }) {
		t.Fatalf("the dead worker's message is not back after %v", time.Since(began))
	}
	back := time.Since(began)
	if back < quick-time.Second/2 { // the service counts whole seconds
		t.Errorf("the dead worker's message was back after %v, want %v", back, quick)
	}
	if n := len(receive("slow")); n != 0 || back > slow {
		t.Errorf("after %v slow work was delivered %d times more", back, n)
	}
	if err := work["slow"].Complete(t.Context()); err != nil { // longer than the quick queue allows
		t.Errorf("slow work that took %v: %v", back, err)
	}
	if s, err := queues.Queue("slow").Length(t.Context()); err != nil || s.Length != 0 {
		t.Errorf("%d slow messages are left, %v", s.Length, err)
	}
}

// Q16a, in the consumer: with a visibility timeout that covers the work amply, an item is
// received once and deleted once, and no request renews its lease. The same work under a
// shorter timeout needs renewals.
func TestLeaseOfPredictableWorkIsNotRenewed(t *testing.T) {
	t.Parallel()
	const work = 2 * time.Second
	for _, c := range []struct {
		name       string
		visibility time.Duration
		covers     bool
	}{{"covered", 10 * work, true}, {"renewed", work, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var updates atomic.Int64
			account := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
				cfg.Transport = &inject.Transport{Choose: func(r *http.Request) inject.Fault {
					if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/messages/") {
						updates.Add(1)
					}
					return inject.None
				}}
			})
			queues := azqtest.Open(t, account, azq.Spec{Name: "predictable", Kinds: []string{"encode"}, Pool: "only", Visibility: c.visibility, MaxIdlePoll: time.Second})
			var deliveries atomic.Int64
			azqtest.Start(t, queues, map[string]azq.Handler{"encode": azq.HandlerFunc(func(ctx context.Context, job *azq.RawJob) error {
				deliveries.Add(1)
				select {
				case <-time.After(work):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})})
			item, err := azq.NewItem("encode", "a-subject", "predictable", nil)
			if err != nil {
				t.Fatal(err)
			}
			azqtest.Send(t, queues, "predictable", item)
			azqtest.WaitEmpty(t, queues.Queue("predictable"))
			if n := deliveries.Load(); n != 1 {
				t.Errorf("%d deliveries, want 1", n)
			}
			if n := updates.Load(); (n == 0) != c.covers {
				t.Errorf("%d renewals under a timeout of %v", n, c.visibility)
			}
		})
	}
}

// Q19: a message is XML on the wire, which cannot hold every character. The
// base64 of the queue brings any bytes across; the same JSON sent as it is comes
// back changed or is refused.
func TestBase64CarriesWhatXMLCannot(t *testing.T) {
	t.Parallel()
	queue := azuritetest.Account(t).Queue("messages")
	if _, err := queue.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	const noXML = "\uFFFF" // valid in JSON and UTF-8, forbidden in XML
	item, err := azq.NewItem("encode", "a-subject", "any bytes", map[string]string{"text": noXML + "é<&>"})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := item.JSON()
	if err != nil || !bytes.Contains(plain, []byte(noXML)) {
		t.Fatalf("the message does not hold the character: %q, %v", plain, err)
	}
	encoded, err := item.Encode()
	if err != nil {
		t.Fatal(err)
	}
	// over returns what becomes of a text on its way through the queue.
	over := func(text string) (string, error) {
		if _, err := queue.EnqueueMessage(t.Context(), text, nil); err != nil {
			return "", err
		}
		res, err := queue.DequeueMessage(t.Context(), nil)
		if err != nil || len(res.Messages) != 1 {
			t.Fatalf("%d messages, %v", len(res.Messages), err)
		}
		return *res.Messages[0].MessageText, nil
	}
	got, err := over(encoded)
	if err != nil || got != encoded {
		t.Fatalf("base64 came back as %q, %v", got, err)
	}
	back, err := azq.DecodeItem(got)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back.Data, item.Data) {
		t.Errorf("data came back as %q, want %q", back.Data, item.Data)
	}
	if got, err := over(string(plain)); err == nil && got == string(plain) {
		t.Errorf("plain JSON came back whole, so this test shows nothing: %q", got)
	} else {
		t.Logf("plain JSON: %q, %v", got, err)
	}
}

// onceBefore reads from content, and calls then before the first read.
type onceBefore struct {
	content io.ReaderAt
	then    func()
	once    sync.Once
}

func (r *onceBefore) ReadAt(p []byte, at int64) (int, error) {
	r.once.Do(r.then)
	return r.content.ReadAt(p, at)
}

// Q13: a part that an earlier try has sent arrives late, when the next try has already
// been told that it is missing. Its key creates a part once, so storage refuses the
// second; the client asks what is held, and the upload ends well.
func TestPartThatArrivesLate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: this test runs Azurite and a built web role")
	}
	s := stacktest.Start(t, stack.Options{
		ConnectionString: azuritetest.ConnectionString(t), Env: []string{"CUTROOM_PREFIX=" + azuritetest.Prefix()},
	})
	user, err := journey.New(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(user.Close)
	video, err := user.Announce(t.Context(), client.NewVideo{Title: "A late part"})
	if err != nil {
		t.Fatal(err)
	}
	content := clip(t, 2)
	size, puts := int64(len(content)), 0
	late := func() {
		begun, err := user.API().BeginUploadWithResponse(t.Context(), video.Id, client.UploadBegin{SizeBytes: size})
		if err != nil || begun.JSON200 == nil || len(begun.JSON200.Send) != 1 {
			t.Fatalf("begin: %v, %s", err, begun.Body)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, begun.JSON200.Send[0].Url, bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		sum := md5.Sum(content)
		req.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
		req.Header.Set("x-ms-blob-type", "BlockBlob")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusCreated {
			t.Fatalf("the late part: %s", res.Status)
		}
	}
	err = user.UploadParts(t.Context(), video.Id, &onceBefore{content: bytes.NewReader(content), then: late}, size, func(int64) { puts++ })
	if err != nil || puts != 1 {
		t.Errorf("the upload counted %d parts, %v", puts, err)
	}
}
