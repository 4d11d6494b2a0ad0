//go:build linux

// On Linux alone: elsewhere Go's programs take no certificate authority from a
// variable.

package keyless

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/journey"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/workflow"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

const (
	origin    = "https://video.example.org" // where people see the pages
	tokenLife = 2 * time.Second
	// A valet key lives 15 minutes, a delegation key a minute longer: after three
	// more seconds another one is needed.
	delegationLife = 16*time.Minute + 3*time.Second
)

// world is the account, the identities, and a user.
type world struct {
	identity *Identity
	account  *Account
	stack    *stack.Stack
	user     *journey.User
	owner    *azstore.Account // with the key, past everything
}

// begin starts it all, with the roles that deploy/azure gives.
func begin(t *testing.T) *world {
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	roles, err := Roles(filepath.Join(root, "deploy", "azure", "identities.tf"))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	if w.identity, err = StartIdentity(tokenLife, "web", "worker"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.identity.Close() })
	if w.account, err = Open(t.Context(), t.TempDir(), w.identity, roles, delegationLife); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.account.Close(); err != nil {
			t.Error(err)
		}
	})
	connection, direct := w.account.Direct()
	if w.owner, err = azstore.Open(azstore.Config{ConnectionString: connection, Transport: direct}); err != nil {
		t.Fatal(err)
	}
	// Deployment makes the CORS rules: a role may not.
	if err := w.owner.EnsureCORS(t.Context(), []string{origin}); err != nil {
		t.Fatal(err)
	}
	sameRule(t, w.owner, filepath.Join(root, "deploy", "azure", "account.tf"))
	common := slices.Concat(w.account.Env(), w.identity.Env("worker"), []string{
		"CUTROOM_RECONCILE_INTERVAL=3s", "CUTROOM_RECONCILE_GRACE=3s",
		"CUTROOM_RETRY_MAX=3", "CUTROOM_RETRY_DELAY=200ms", // says 503 sooner
	})
	w.stack = stacktest.Start(t, stack.Options{Workers: 1, Account: Name, Env: common, WebEnv: w.identity.Env("web")})
	transport := w.account.Transport()
	t.Cleanup(transport.CloseIdleConnections)
	if w.user, err = journey.NewThrough(w.stack.BaseURL(), transport); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.user.Close)
	return w
}

// sameRule compares the CORS rule that deployment makes with the one that a role makes
// where it may.
func sameRule(t *testing.T, owner *azstore.Account, path string) {
	t.Helper()
	properties, err := owner.Blobs.GetProperties(t.Context(), nil)
	if err != nil || len(properties.CORS) != 1 {
		t.Fatalf("CORS rules: %v, %v", properties.CORS, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]*string{
		"allowedMethods": properties.CORS[0].AllowedMethods, "allowedHeaders": properties.CORS[0].AllowedHeaders, "exposedHeaders": properties.CORS[0].ExposedHeaders,
	} {
		list := "[]"
		if want != nil && *want != "" {
			list = `["` + strings.ReplaceAll(*want, ",", `", "`) + `"]`
		}
		if !regexp.MustCompile(name + `\s+= ` + regexp.QuoteMeta(list)).Match(text) {
			t.Errorf("%s in %s is not %s", name, path, list)
		}
	}
}

// The rules by which Container Apps starts workers name queues that exist, all lanes of
// each, and all that are heavy.
func TestScaleRulesNameTheQueues(t *testing.T) {
	t.Parallel()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy", "azure", "apps.tf"))
	if err != nil {
		t.Fatal(err)
	}
	signal := regexp.MustCompile(`signal = \{(.*)\}`).FindSubmatch(text)
	lanes := regexp.MustCompile(`lanes\s+= \[(.*)\]`).FindSubmatch(text)
	if signal == nil || lanes == nil {
		t.Fatal("apps.tf has no signal, or no lanes")
	}
	var named []string
	for _, queue := range regexp.MustCompile(`([a-z-]+) = \d+`).FindAllSubmatch(signal[1], -1) {
		for _, lane := range regexp.MustCompile(`"([^"]*)"`).FindAllSubmatch(lanes[1], -1) {
			named = append(named, string(queue[1])+string(lane[1]))
		}
	}
	var want []string
	for _, spec := range workflow.Specs {
		if spec.Name != workflow.Probe && spec.Pool != workflow.Heavy {
			continue
		}
		for _, name := range azqtest.Names(azq.Options{Queues: []azq.Spec{spec}}) {
			if name != azq.PoisonName(spec.Name) {
				want = append(want, name)
			}
		}
	}
	slices.Sort(named)
	slices.Sort(want)
	if !slices.Equal(named, want) {
		t.Errorf("the rules are for %v, want %v", named, want)
	}
}

// The roles as they are deployed, without a key anywhere: a browser's upload in
// parts becomes a video that plays; keys that the service lends are used again and
// renewed; when no token can be had, users are told to come again, and nothing is lost.
func TestWithoutKeys(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: this test runs Azurite and the built roles")
	}
	clip := clip(t)
	w := begin(t)
	ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(3*time.Minute))
	defer cancel()

	first := w.announce(t, ctx, "In parts")
	w.preflight(t, ctx, w.announce(t, ctx, "Never sent"))
	if err := w.user.UploadParts(ctx, first, bytes.NewReader(clip), int64(len(clip)), func(int64) {}); err != nil {
		t.Fatal(err)
	}
	azuritetest.Eventually(t, time.Minute, func() error {
		_, err := w.user.FirstSegment(ctx, first)
		return err
	})
	w.delegation(t, ctx)
	second := w.announce(t, ctx, "When no token can be had")
	if err := w.user.Put(ctx, second, bytes.NewReader(clip), int64(len(clip))); err != nil {
		t.Fatal(err)
	}
	w.outage(t, ctx, second)
	for _, id := range []string{first, second} {
		azuritetest.Eventually(t, time.Minute, func() error {
			_, err := w.user.AwaitReady(ctx, id)
			return err
		})
		if _, err := w.user.FirstSegment(ctx, id); err != nil {
			t.Error(err)
		}
	}
	azuritetest.Eventually(t, time.Minute, func() error { return w.leftovers(ctx) })
	for _, request := range w.account.Wrong() {
		t.Error(request)
	}
	for _, kind := range []string{"token", "signature", "preflight", "transaction", "forbidden"} {
		if w.account.Count(kind) == 0 {
			t.Errorf("no request of kind %q: too little happened to say anything", kind)
		}
	}
	t.Logf("%d tokens, %d requests with one, %d with the signature of a lent key, %d transactions", w.identity.Tokens(),
		w.account.Count("token"), w.account.Count("signature"), w.account.Count("transaction"))
}

func (w *world) announce(t *testing.T, ctx context.Context, title string) string {
	t.Helper()
	v, err := w.user.Announce(ctx, client.NewVideo{Title: title})
	if err != nil {
		t.Fatal(err)
	}
	return v.Id
}

// size is what the file of a grant has, in bytes.
const size = 9

// grant is the valet key of a part, and when the key that signed it ends.
func (w *world) grant(t *testing.T, ctx context.Context, id string) (at *url.URL, ends string) {
	t.Helper()
	res, err := w.user.API().BeginUploadWithResponse(ctx, id, client.UploadBegin{SizeBytes: size})
	if err != nil || res.StatusCode() != http.StatusOK || len(res.JSON200.Send) != 1 {
		t.Fatalf("grant: %v %s", err, res.Status())
	}
	if at, err = url.Parse(res.JSON200.Send[0].Url); err != nil {
		t.Fatal("the valet key is not a URL")
	}
	if at.Host != Name+".blob.core.windows.net" || at.Query().Get("skoid") != "web" || at.Query().Get("spr") != "https" {
		t.Fatalf("valet key at %s, signed for %s, protocols %q", at.Host, at.Query().Get("skoid"), at.Query().Get("spr"))
	}
	return at, at.Query().Get("ske")
}

// preflight asks what a browser asks before it sends a part from the page's origin,
// and from a stranger's.
func (w *world) preflight(t *testing.T, ctx context.Context, id string) {
	at, _ := w.grant(t, ctx, id)
	transport := w.account.Transport()
	defer transport.CloseIdleConnections()
	for from, want := range map[string]int{origin: http.StatusOK, "https://elsewhere.example.org": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(ctx, http.MethodOptions, at.String(), nil)
		if err != nil {
			t.Fatal("the valet key is not a URL")
		}
		req.Header.Set("Origin", from)
		req.Header.Set("Access-Control-Request-Method", http.MethodPut)
		req.Header.Set("Access-Control-Request-Headers", "content-md5,if-none-match,x-ms-blob-type")
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("preflight from %s: %s, want %d", from, res.Status, want)
		}
	}
}

// delegation asks for valet keys until another lent key signs them: not before the
// first one would end too early, and every one opens.
func (w *world) delegation(t *testing.T, ctx context.Context) {
	id := w.announce(t, ctx, "Renewed")
	var keys []string
	azuritetest.Eventually(t, time.Minute, func() error {
		at, key := w.grant(t, ctx, id)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, at.String(), strings.NewReader("short"))
		if err != nil {
			t.Fatal("the valet key is not a URL")
		}
		req.Header.Set("x-ms-blob-type", "BlockBlob") // of a wrong length, so it makes room for the next
		transport := w.account.Transport()
		defer transport.CloseIdleConnections()
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusCreated {
			t.Fatalf("a valet key does not open: %s", res.Status)
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
		if len(keys) < 2 {
			return fmt.Errorf("%d keys so far", len(keys))
		}
		return nil
	})
	if lent := w.account.Count("delegation key"); lent > len(keys)+2 {
		t.Errorf("%d keys lent for %d that were used: it is not used again", lent, len(keys))
	}
}

// outage breaks the identity endpoint until users are told so, then mends it.
func (w *world) outage(t *testing.T, ctx context.Context, id string) {
	w.identity.SetAway(true)
	azuritetest.Eventually(t, time.Minute, func() error {
		began := time.Now()
		res, err := w.user.API().GetVideoWithResponse(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		switch took := time.Since(began); {
		case res.StatusCode() == http.StatusOK:
			return errors.New("tokens still hold")
		case res.StatusCode() != http.StatusServiceUnavailable || res.HTTPResponse.Header.Get("Retry-After") == "":
			t.Fatalf("without a token: %s, Retry-After %q: %s", res.Status(), res.HTTPResponse.Header.Get("Retry-After"), res.Body)
		case !bytes.Contains(res.Body, []byte(`"storage_unavailable"`)):
			t.Fatalf("without a token: %s", res.Body)
		case took > azuritetest.Bound(15*time.Second):
			t.Errorf("the answer took %v; 10 s are promised", took)
		}
		return nil
	})
	if w.identity.Refused() == 0 {
		t.Error("no role asked for a token while there was none")
	}
	w.identity.SetAway(false)
	azuritetest.Eventually(t, time.Minute, func() error {
		res, err := w.user.API().GetVideoWithResponse(ctx, id)
		if err == nil && res.StatusCode() != http.StatusOK {
			err = fmt.Errorf("after the outage: %s", res.Status())
		}
		return err
	})
}

// leftovers are messages that no worker will take, seen by the account's owner.
func (w *world) leftovers(ctx context.Context) error {
	var left []string
	for _, name := range azqtest.Names(azq.Options{Queues: workflow.Specs}) {
		properties, err := w.owner.Queue(name).GetProperties(ctx, nil)
		if err != nil {
			return err
		}
		if n := *properties.ApproximateMessagesCount; n > 0 {
			left = append(left, fmt.Sprintf("%d messages in queue %s", n, name))
		}
	}
	if len(left) > 0 {
		return errors.New(strings.Join(left, ", "))
	}
	return nil
}

// clip makes a source of 6 s.
func clip(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	out, err := exec.CommandContext(t.Context(), "ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=128x72:r=25:d=6",
		"-f", "lavfi", "-i", "anoisesrc=c=pink:a=0.2:r=48000:seed=1:d=6", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", path).CombinedOutput()
	if err != nil {
		t.Fatalf("make a clip: %v\n%s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
