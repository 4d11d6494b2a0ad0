package azstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

func TestEnsureMayBeRepeated(t *testing.T) {
	t.Parallel()
	// Of every request the first reply is lost, and the second is "busy".
	var mu sync.Mutex
	seen := map[string]int{}
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		mu.Lock()
		defer mu.Unlock()
		key := r.Method + r.URL.Path
		seen[key]++
		return map[int]inject.Fault{1: inject.LostReply, 2: inject.ServerBusy}[seen[key]]
	}}
	a := azuritetest.AccountWith(t, func(c *azstore.Config) { c.Transport, c.Retry = faults, quick })
	for range 2 {
		if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{"media"}, Queues: []string{"probe"}, Tables: []string{"videos"}}); err != nil {
			t.Fatal(err)
		}
	}
	if faults.Fired() != 6 {
		t.Errorf("%d faults fired, want 6", faults.Fired())
	}
	if a.Name("media") == "media" {
		t.Error("the test's account has no prefix")
	}
}

// Q15: status and code of each service, as Azurite gives them.
func TestDescribe(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{"box"}, Queues: []string{"queue"}, Tables: []string{"rows"}}); err != nil {
		t.Fatal(err)
	}
	_, noBlob := a.Container("box").NewBlobClient("nothing").GetProperties(t.Context(), nil)
	_, noQueue := a.Queue("nothing").GetProperties(t.Context(), nil)
	_, noRow := a.Table("rows").GetEntity(t.Context(), "p", "r", nil)
	_, noTable := a.Table("nothing").GetEntity(t.Context(), "p", "r", nil)
	_, twice := a.Container("box").Create(t.Context(), nil)
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{noBlob, 404, "BlobNotFound"},
		{noQueue, 404, "QueueNotFound"},
		{noRow, 404, "ResourceNotFound"},
		{noTable, 404, "TableNotFound"},
		{twice, 409, "ContainerAlreadyExists"},
	} {
		status, code, ok := azstore.Describe(fmt.Errorf("wrapped: %w", c.err))
		if status != c.status || code != c.code || !ok {
			t.Errorf("Describe = %d %q %v, want %d %q", status, code, ok, c.status, c.code)
		}
		if !azstore.HasCode(c.err, "Other", c.code) || azstore.IsNotFound(c.err) != (c.status == 404) || azstore.IsConflict(c.err) != (c.status == 409) {
			t.Errorf("%d %s: wrong answers", c.status, c.code)
		}
	}
	if _, _, ok := azstore.Describe(inject.ErrReset); ok {
		t.Error("a broken connection has no storage code")
	}
	if _, _, ok := azstore.Describe(nil); ok {
		t.Error("no error has no storage code")
	}
}

// The table of lost replies, queues: what a repeated request sees (Q13). The
// rules of shared/azq stand on these facts.
func TestLostRepliesOfQueues(t *testing.T) {
	t.Parallel()
	var lose func(*http.Request) bool
	fire := make(chan struct{}, 1)
	faults := &inject.Transport{Choose: func(r *http.Request) inject.Fault {
		select {
		case <-fire:
			if lose(r) {
				return inject.LostReply
			}
			fire <- struct{}{}
		default:
		}
		return inject.None
	}}
	a := azuritetest.AccountWith(t, func(c *azstore.Config) { c.Transport, c.Retry = faults, quick })
	if err := a.Ensure(t.Context(), azstore.Names{Queues: []string{"q"}}); err != nil {
		t.Fatal(err)
	}
	q := a.Queue("q")
	losing := func(method string) (context.Context, *azstore.Counter) {
		lose = func(r *http.Request) bool { return r.Method == method }
		fire <- struct{}{}
		return azstore.WithCounter(t.Context())
	}

	ctx, tries := losing(http.MethodPost)
	if _, err := q.EnqueueMessage(ctx, "m", nil); err != nil || tries.Requests() != 2 {
		t.Fatalf("enqueue: %d tries, %v", tries.Requests(), err)
	}
	props, err := q.GetProperties(t.Context(), nil)
	if err != nil || *props.ApproximateMessagesCount != 2 {
		t.Errorf("enqueue: %d messages, want the duplicate too; %v", *props.ApproximateMessagesCount, err)
	}

	ctx, tries = losing(http.MethodGet)
	first, err := q.DequeueMessage(ctx, nil)
	if err != nil || len(first.Messages) != 1 || tries.Requests() != 2 {
		t.Fatalf("dequeue: %d messages after %d tries, %v; want the other one", len(first.Messages), tries.Requests(), err)
	}
	none, err := q.DequeueMessage(t.Context(), nil)
	if err != nil || len(none.Messages) != 0 {
		t.Errorf("dequeue: the message of the lost reply is visible: %v", err)
	}

	m := first.Messages[0]
	ctx, tries = losing(http.MethodPut)
	if _, err := q.UpdateMessage(ctx, *m.MessageID, *m.PopReceipt, "m", nil); !azstore.HasCode(err, queueerror.PopReceiptMismatch) || tries.Requests() != 2 {
		t.Errorf("update: %d tries, %v; want PopReceiptMismatch, the new receipt being lost", tries.Requests(), err)
	}

	if _, err := q.EnqueueMessage(t.Context(), "m2", nil); err != nil {
		t.Fatal(err)
	}
	second, err := q.DequeueMessage(t.Context(), nil)
	if err != nil || len(second.Messages) != 1 {
		t.Fatalf("dequeue: %v", err)
	}
	m = second.Messages[0]
	ctx, tries = losing(http.MethodDelete)
	if _, err := q.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil); !azstore.HasCode(err, queueerror.MessageNotFound) || tries.Requests() != 2 {
		t.Errorf("delete: %d tries, %v; want MessageNotFound", tries.Requests(), err)
	}
	if faults.Fired() != 4 {
		t.Errorf("%d faults fired, want 4", faults.Fired())
	}
}

func putBlob(t *testing.T, a *azstore.Account, text string) {
	t.Helper()
	if _, err := a.Container("box").NewBlockBlobClient("v/source").UploadBuffer(t.Context(), []byte(text), nil); err != nil {
		t.Fatal(err)
	}
}

func fetch(t *testing.T, method, address, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-ms-blob-type", "BlockBlob")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func TestSignedURLs(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{"box"}}); err != nil {
		t.Fatal(err)
	}
	putBlob(t, a, "content")
	there, err := a.SignCreate(t.Context(), "box", "v/source", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	create, err := a.SignCreate(t.Context(), "box", "v/part", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, method, url string
		status            int
	}{
		{"read", http.MethodGet, there, 403},
		{"delete", http.MethodDelete, there, 403},
		{"overwrite", http.MethodPut, there, 403},
		{"stage a block over it", http.MethodPut, there + "&comp=block&blockid=MDAwMDAwMDAwMDAwMDAw", 403},
		{"create another blob", http.MethodPut, strings.Replace(create, "part", "other", 1), 403},
		{"create it", http.MethodPut, create, 201},
		{"create it again", http.MethodPut, create, 403},
	} {
		if status, body := fetch(t, c.method, c.url, "text"); status != c.status {
			t.Errorf("%s: %d, want %d: %s", c.what, status, c.status, body)
		}
	}
	if _, err := a.SignCreate(t.Context(), "box", "x", 0); err == nil {
		t.Error("a URL without a life was signed")
	}
}

// Anyone who reads a log must not be able to read a video.
func TestSignaturesStayOutOfErrors(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	signed, err := a.SignCreate(t.Context(), "box", "v/source", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(signed, "sig=") {
		t.Fatalf("no signature in %s", signed)
	}
	u, err := url.Parse(signed)
	if err != nil {
		t.Fatal(err)
	}
	secret := url.QueryEscape(u.Query().Get("sig"))

	// A client of our own on a signed URL, at a port without a listener.
	u.Host = "127.0.0.1:1"
	_, transport := http.DefaultClient.Get(u.String())
	if transport == nil || !strings.Contains(transport.Error(), secret) {
		t.Fatalf("net/http does not quote the URL any more: %v", transport)
	}
	// The SDK on a signed URL that the service refuses.
	client, err := blockblob.NewClientWithNoCredential(strings.Replace(signed, "source", "other", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, refused := client.GetProperties(t.Context(), nil)
	_, denied := client.DownloadStream(t.Context(), nil)

	for name, err := range map[string]error{"transport": transport, "refused": refused, "denied": denied, "wrapped": fmt.Errorf("ffmpeg: %s", signed)} {
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: azstore.RedactAttr})).Error("x", "error", err, "url", signed)
		for where, text := range map[string]string{"text": azstore.Redact(err.Error()), "log": log.String()} {
			if strings.Contains(text, "sig=") || strings.Contains(text, secret) {
				t.Errorf("%s, %s: %s", name, where, text)
			}
		}
	}
	nested := "concat:http%3A%2F%2Fh%2Fb%3Fsv%3D1%26sig%3Dabc%252B%26se=1 AccountKey=c2VjcmV0;x"
	if got := azstore.Redact(nested); strings.Contains(got, "abc") || strings.Contains(got, "c2VjcmV0") {
		t.Errorf("Redact(%q) = %q", nested, got)
	}
}

// The account's own clients redact by themselves.
func TestPipelineRedacts(t *testing.T) {
	t.Parallel()
	leaky := transportFunc(func(r *http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Get", URL: "http://h/b?sv=1&sig=topsecret%3D", Err: inject.ErrReset}
	})
	a, err := azstore.Open(azstore.Config{Transport: leaky, Retry: quick})
	if err != nil {
		t.Fatal(err)
	}
	err = createQueue(azstore.WithoutRetry(t.Context()), a)
	if err == nil || strings.Contains(err.Error(), "?sv") || !errors.Is(err, inject.ErrReset) {
		t.Errorf("error: %v", err)
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// One test for all, because the rules belong to the whole emulator.
func TestEnsureCORS(t *testing.T) {
	t.Parallel()
	a := azuritetest.Account(t)
	if err := a.Ensure(t.Context(), azstore.Names{Containers: []string{"box"}}); err != nil {
		t.Fatal(err)
	}
	const page, other = "http://127.0.0.1:8080", "http://127.0.0.1:8081"
	for _, origins := range [][]string{nil, {page}, {page}, {page, other}} {
		if err := a.EnsureCORS(t.Context(), origins); err != nil {
			t.Fatal(err)
		}
	}
	properties, err := a.Blobs.GetProperties(t.Context(), nil)
	if err != nil || len(properties.CORS) != 1 {
		t.Errorf("%d rules, want 1 for all origins; %v", len(properties.CORS), err)
	}
	signed, err := a.SignCreate(t.Context(), "box", "b", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	may := func(origin, method, headers string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, signed, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		req.Header.Set("Access-Control-Request-Method", method)
		req.Header.Set("Access-Control-Request-Headers", headers)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	const sent = "content-md5,if-none-match,x-ms-blob-type,x-ms-version" // by parts.ts
	preflight := func(origin string) int { return may(origin, http.MethodPut, sent) }
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodPost} {
		if status := may(page, method, sent); status != 403 {
			t.Errorf("a page may %s: %d, want 403", method, status)
		}
	}
	for _, header := range []string{"range", "if-match", "x-ms-meta-a", "x-ms-copy-source", "content-type"} {
		if status := may(page, http.MethodPut, header+","+sent); status != 403 {
			t.Errorf("a page may send %s: %d, want 403", header, status)
		}
	}
	for _, origin := range []string{page, other} {
		if status := preflight(origin); status != 200 {
			t.Errorf("preflight of %s: %d, want 200", origin, status)
		}
	}
	if status := preflight("http://evil.example"); status != 403 {
		t.Errorf("preflight of a stranger: %d, want 403", status)
	}

	// A role that takes a free port every time does not fill the rule: what is kept
	// is bounded, and neither other rules nor origins that were configured go.
	const configured, strangers = "https://video.example.org", "https://another.example.org"
	if err := a.EnsureCORS(t.Context(), []string{configured}); err != nil {
		t.Fatal(err)
	}
	if properties, err = a.Blobs.GetProperties(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	foreign := &service.CORSRule{
		AllowedOrigins: to.Ptr(strangers), AllowedMethods: to.Ptr("GET"), AllowedHeaders: to.Ptr(""),
		ExposedHeaders: to.Ptr(""), MaxAgeInSeconds: to.Ptr[int32](1),
	}
	if _, err := a.Blobs.SetProperties(t.Context(), &service.SetPropertiesOptions{CORS: append(properties.CORS, foreign)}); err != nil {
		t.Fatal(err)
	}
	var newest []string
	for port := range 30 {
		newest = []string{fmt.Sprintf("http://127.0.0.1:%d", 20000+port), fmt.Sprintf("http://localhost:%d", 20000+port)}
		if err := a.EnsureCORS(t.Context(), newest); err != nil {
			t.Fatal(err)
		}
	}
	if properties, err = a.Blobs.GetProperties(t.Context(), nil); err != nil || len(properties.CORS) != 2 {
		t.Fatalf("%d rules, want ours and the stranger's; %v", len(properties.CORS), err)
	}
	if kept := strings.Split(*properties.CORS[0].AllowedOrigins, ","); len(kept) != 17 || *properties.CORS[1].AllowedOrigins != strangers {
		t.Errorf("kept %v and %v, want 16 on loopback and %s", kept, *properties.CORS[1].AllowedOrigins, configured)
	}
	for _, origin := range append(newest, configured) {
		if status := preflight(origin); status != 200 {
			t.Errorf("preflight of %s: %d, want 200", origin, status)
		}
	}

	// Another client wrote at the same moment, and our change is lost.
	lost := 0
	unlucky := azuritetest.AccountWith(t, func(cfg *azstore.Config) {
		cfg.Transport = transportFunc(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut && r.URL.Query().Get("comp") == "properties" && lost < 2 {
				lost++
				return &http.Response{StatusCode: http.StatusAccepted, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			}
			return http.DefaultClient.Do(r)
		})
	})
	const late = "http://127.0.0.1:8082"
	if err := unlucky.EnsureCORS(t.Context(), []string{late}); err != nil || lost != 2 {
		t.Errorf("%d changes lost: %v", lost, err)
	}
	if status := preflight(late); status != 200 {
		t.Errorf("preflight after lost changes: %d, want 200", status)
	}
}

// identity is a credential without an authority behind it.
type identity struct{}

func (identity) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// lender answers requests for a user delegation key, which ends when the service says.
func lender(t *testing.T, life time.Duration, lent *int) transportFunc {
	return func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("comp") != "userdelegationkey" || r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf("request %s with %q", r.URL, r.Header.Get("Authorization"))
		}
		*lent++
		now := time.Now().UTC()
		body := `<?xml version="1.0" encoding="utf-8"?><UserDelegationKey><SignedOid>o</SignedOid><SignedTid>t</SignedTid>` +
			`<SignedStart>` + now.Format(time.RFC3339) + `</SignedStart><SignedExpiry>` + now.Add(life).Format(time.RFC3339) + `</SignedExpiry>` +
			`<SignedService>b</SignedService><SignedVersion>2020-02-10</SignedVersion><Value>c2VjcmV0</Value></UserDelegationKey>`
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/xml"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

// Without an account key the URL is signed by a key that the service lends, and
// the lent key is used again as long as it outlives the URL.
func TestSignWithAnIdentity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		life  time.Duration // of the lent key
		lent  int
		fails bool
	}{{life: 12 * time.Hour, lent: 1}, {life: time.Hour + 62*time.Second, lent: 1}, {life: time.Hour + time.Second, lent: 3, fails: true}} {
		lent := 0
		a, err := azstore.Open(azstore.Config{Account: "films", Credential: identity{}, Transport: lender(t, c.life, &lent)})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			signed, err := a.SignCreate(t.Context(), "box", "b", time.Hour)
			if c.fails != (err != nil) {
				t.Fatalf("key of %v: %v", c.life, err)
			} else if err != nil {
				continue
			}
			u, err := url.Parse(signed)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			if u.Host != "films.blob.core.windows.net" || q.Get("skoid") != "o" || q.Get("spr") != "https" || q.Get("sig") == "" || q.Get("st") != "" {
				t.Errorf("signed URL %s", azstore.Redact(signed))
			}
		}
		if lent != c.lent {
			t.Errorf("key of %v: %d lent, want %d", c.life, lent, c.lent)
		}
		if _, err := a.SignCreate(t.Context(), "box", "b", 8*24*time.Hour); err == nil {
			t.Error("a URL was signed for longer than a lent key lives")
		}
	}
}
