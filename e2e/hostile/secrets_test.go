package hostile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/e2e/stack/stacktest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// secrets are what must never be shown or logged, by what they are.
type secrets map[string]string

// in fails for each secret that a text has, also as it stands in a URL.
func (s secrets) in(t *testing.T, where, text string) {
	t.Helper()
	for what, secret := range s {
		if strings.Contains(text, secret) || strings.Contains(text, url.QueryEscape(secret)) {
			t.Errorf("%s has %s", where, what)
		}
	}
}

// listener keeps every answer that it gets, with its headers.
type listener struct {
	t       *testing.T
	heard   map[string]string // answers by request
	allowed map[string]bool   // requests whose answers are secrets
}

func (l *listener) ask(method, url, credentials string, body []byte, headers ...string) []byte {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	if credentials != "" {
		req.Header.Set("Authorization", credentials)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatalf("%s: %v", method, err)
	}
	defer res.Body.Close() //nolint:errcheck // reading only
	head, err := httputil.DumpResponse(res, false)
	if err != nil {
		l.t.Fatal(err)
	}
	content, err := io.ReadAll(res.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	if !l.allowed[method+" "+req.URL.Path] {
		l.heard[fmt.Sprintf("the answer to %s %s (%d)", method, req.URL.Path, len(l.heard))] = string(head) + string(content)
	}
	return content
}

// TestSecretsStaySecret makes a journey with known secrets, with credentials that are
// wrong, and with storage that breaks on the way, and looks for each secret in every
// log and in every answer that is not there to tell it.
func TestSecretsStaySecret(t *testing.T) {
	var proxy *inject.Proxy
	known := secrets{
		"the access token": "token-Zq8vT4nWb2LkYx", "the worker's token": "worker-Rj5mPc9sHd7GfA", "a guessed token": "guess-Bn3kVt6yQw1XzE",
		"a password": "password-Uu2iOo4pLl8Kk", "a cookie": "cookie-Mm6nJj3hGg9Ff", "a token in an address": "query-Tt7yRr5eWw3Qq",
		"a key of playback": "playback-Vv4bNn7mKk2Ll9Pp6Oo3Ii8Uu",
	}
	s := stacktest.Start(t, stack.Options{
		Workers: 1,
		Env: []string{
			"WEBROLE_TOKEN=" + known["the access token"], "WORKERROLE_ADMIN_TOKEN=" + known["the worker's token"],
			"WEBROLE_PLAYBACK_KEYS=" + known["a key of playback"], "WEBROLE_PUBLIC_OPS=on", "WEBROLE_ANONYMOUS=on", "CUTROOM_LOG_LEVEL=debug",
		},
		Through: func(connection string) (_ string, err error) {
			if proxy, err = inject.Start(connection, 7); err != nil {
				return "", err
			}
			return proxy.ConnectionString(), nil
		},
	})
	t.Cleanup(proxy.Close)
	known["the account's key"] = regexp.MustCompile(`AccountKey=([^;]+)`).FindStringSubmatch(s.ConnectionString())[1]

	l := &listener{t: t, heard: map[string]string{}, allowed: map[string]bool{"POST /api/v1/ops/keys": true}}
	base := s.BaseURL() + "/api/v1"
	operator := "Bearer " + known["the access token"]
	var made client.MadeKey
	unpack(t, l.ask("POST", base+"/ops/keys", operator, []byte(`{"name":"a journey","owner":"studio","role":"uploader"}`), "Content-Type", "application/json"), &made)
	known["an API key"] = made.Text[strings.LastIndex(made.Text, "_")+1:]
	uploader := "Bearer " + made.Text

	for _, credentials := range []string{"Bearer " + known["a guessed token"], "Basic " + known["a guessed token"], known["a guessed token"], "Bearer key_aaaaaaaaaaaa_" + known["a guessed token"]} {
		l.ask("GET", base+"/videos", credentials, nil)
		l.ask("POST", base+"/videos", credentials, []byte(`{"title":"`+known["a password"]), "Content-Type", "application/json")
	}
	l.ask("GET", base+"/videos?token="+known["a token in an address"], uploader, nil, "Cookie", "session="+known["a cookie"])
	l.ask("GET", s.BaseURL()+"/watch/nonsense?sig="+known["a token in an address"], "", nil)

	id := l.upload(base, uploader, known)
	l.allowed["GET /api/v1/videos/"+id] = true // it tells those who are allowed to see the video a token that plays it
	const burst = 2 * time.Second
	var begun time.Time
	stacktest.Eventually(t, "the video is ready", func() bool {
		// Again, if the worker asked for no blob meanwhile: the machine may be busy.
		if proxy.Met(azstore.Blobs, inject.Reset) == 0 && time.Since(begun) > burst {
			begun = time.Now()
			proxy.Begin(inject.Burst{Service: azstore.Blobs, Fault: inject.Reset, Share: 0.3, Length: burst})
			proxy.Begin(inject.Burst{Service: azstore.Tables, Fault: inject.ServerBusy, Share: 0.1, Length: burst})
		}
		var v client.Video
		return json.Unmarshal(l.ask("GET", base+"/videos/"+id, uploader, nil), &v) == nil && v.State == client.Ready
	})
	if proxy.Met(azstore.Blobs, inject.Reset) == 0 {
		t.Error("no request met a fault: errors of storage were not looked at")
	}
	l.playByLink(s.BaseURL(), id, uploader, known)
	for _, path := range []string{"", "/steps", "/journey", "/cost", "/captions", "/upload"} {
		l.ask("GET", base+"/videos/"+id+path, operator, nil)
	}
	l.ask("GET", s.BaseURL()+"/v/"+id+"/master.m3u8", operator, nil)
	for _, path := range []string{"/ops/keys", "/ops/queues", "/ops/workers", "/ops/poison"} {
		l.ask("GET", base+path, operator, nil)
	}
	for _, path := range []string{"/", "/upload", "/board/tables", "/watch/" + id} {
		l.ask("GET", s.BaseURL()+path, operator, nil)
	}
	l.ask("GET", s.AdminURL(stack.Web)+"/metrics", operator, nil)
	l.ask("GET", s.AdminURL(stack.Worker(1))+"/metrics", "Bearer "+known["the worker's token"], nil)
	l.ask("GET", s.AdminURL(stack.Worker(1))+"/readyz", "", nil)

	for where, text := range l.heard {
		known.in(t, where, text)
	}
	for _, role := range []string{stack.Web, stack.Worker(1)} {
		log := s.Logs(role)
		if !strings.Contains(log, "configuration") || role == stack.Web && !strings.Contains(log, "level=DEBUG") {
			t.Errorf("the log of %s is not the whole log", role)
		}
		known.in(t, "the log of "+role, log)
	}
}

func unpack(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// playByLink plays a private video as a player does that knows its address and nothing
// else. The token in the address is a secret from then on; only who asks the API for
// the video is told it.
func (l *listener) playByLink(site, id, credentials string, known secrets) {
	l.t.Helper()
	var v client.Video
	unpack(l.t, l.ask("GET", site+"/api/v1/videos/"+id, credentials, nil), &v)
	if v.Links.Master == nil || !strings.Contains(*v.Links.Master, "/~") {
		l.t.Fatalf("no address with a token: %v", v.Links.Master)
	}
	base := site + strings.TrimSuffix(*v.Links.Master, "master.m3u8")
	_, token, _ := strings.Cut(strings.Trim(*v.Links.Master, "/"), "~")
	known["a token of playback"], _, _ = strings.Cut(token, "/")

	address := regexp.MustCompile(`(?m)^[^#\n].*$|URI="([^"]+)"`)
	segments := 0
	for lists := []string{"master.m3u8"}; len(lists) > 0; lists = lists[1:] {
		for _, found := range address.FindAllStringSubmatch(string(l.ask("GET", base+lists[0], "", nil)), -1) {
			name := found[0]
			if found[1] != "" {
				name = found[1]
			}
			if strings.Contains(name, ".m3u8") {
				lists = append(lists, name)
				continue
			}
			if res := l.ask("GET", base+name, "", nil); !bytes.Contains(res[:min(len(res), 64)], []byte("ftyp")) && !bytes.Contains(res[:min(len(res), 64)], []byte("styp")) && !bytes.Contains(res[:min(len(res), 64)], []byte("moof")) {
				l.t.Errorf("%s is no piece of a film: %.200s", name, res)
			}
			segments++
		}
	}
	if segments < 3 { // a beginning and its segments
		l.t.Errorf("only %d pieces were played", segments)
	}
	good := "~" + known["a token of playback"] + "/"
	for _, bad := range []string{"", strings.Replace(good, "/", "x/", 1)} { // without, and a spoilt one
		if text := l.ask("GET", strings.Replace(base, good, bad, 1)+"master.m3u8", "", nil); bytes.Contains(text, []byte("#EXTM3U")) {
			l.t.Error("a stranger plays a private video")
		}
	}
	l.ask("GET", strings.Replace(base, "/v/", "/v/x/", 1)+"master.m3u8", "", nil) // in a place where no token belongs
}

// upload brings a video by valet key, whose signature is a secret from then on.
func (l *listener) upload(base, credentials string, known secrets) (id string) {
	l.t.Helper()
	content := ffmpeg(l.t, "-f", "lavfi", "-i", "testsrc2=s=160x90:r=15:d=6", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-movflags", "+faststart")
	var v client.Video
	unpack(l.t, l.ask("POST", base+"/videos", credentials, fmt.Appendf(nil, `{"title":"A journey","sizeBytes":%d,"visibility":"private"}`, len(content)), "Content-Type", "application/json"), &v)
	l.allowed["POST /api/v1/videos/"+v.Id+"/upload"] = true
	var up client.Upload
	unpack(l.t, l.ask("POST", base+"/videos/"+v.Id+"/upload", credentials, nil), &up)
	l.allowed["POST /api/v1/videos/"+v.Id+"/upload"] = false
	if len(up.Send) != 1 {
		l.t.Fatalf("%d parts to send, want the file in one", len(up.Send))
	}
	signed, err := url.Parse(up.Send[0].Url)
	if err != nil || signed.Query().Get("sig") == "" {
		l.t.Fatalf("the valet key has no signature: %v", err)
	}
	known["a signature"] = signed.Query().Get("sig")
	l.ask("PUT", up.Send[0].Url, "", content, "x-ms-blob-type", "BlockBlob")
	l.ask("POST", base+"/videos/"+v.Id+"/upload/complete", credentials, nil)
	return v.Id
}

// TestStartErrorsTellNoSecret: what a role says when it refuses its settings.
func TestStartErrorsTellNoSecret(t *testing.T) {
	bin := stacktest.Bin(t)
	known := secrets{"a key": "c2VjcmV0LWtleS1vZi1hbi1hY2NvdW50", "a short token": "Xy7-short", "the lab's token": "lab-Ww3Qq9Zz5Tt1Rr7"}
	for _, role := range []string{"webrole", "workerrole"} {
		for _, connection := range []string{
			"AccountName=a;AccountKey=" + known["a key"], "AccountKey=" + known["a key"] + ";=;nonsense",
			"AccountName=a;AccountKey=" + known["a key"] + "!;BlobEndpoint=::", "SharedAccessSignature=sv=1&sig=" + known["a key"],
		} {
			ctx, cancel := context.WithTimeout(t.Context(), azuritetest.Patience(30*time.Second))
			cmd := exec.CommandContext(ctx, filepath.Join(bin, role))
			cmd.Env = []string{
				"AZURE_STORAGE_CONNECTION_STRING=" + connection, "WEBROLE_TOKEN=" + known["a short token"], "WORKERROLE_ADMIN_TOKEN=" + known["a short token"],
				"CUTROOM_LAB=http://lab:" + known["the lab's token"] + "@192.0.2.1:80", "CUTROOM_VISIBILITY=nope",
			}
			said, err := cmd.CombinedOutput()
			cancel()
			if err == nil || !bytes.Contains(said, []byte("CUTROOM_VISIBILITY")) {
				t.Errorf("%s did not refuse its settings: %v %s", role, err, said)
			}
			known.in(t, "what "+role+" says", string(said))
		}
	}
}
