package keyless

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azurite"
)

// Name is the account's: the one that Azurite has.
const Name = "devstoreaccount1"

const suffix = ".core.windows.net"

// Account is Azurite under the host names of a storage account that takes tokens and
// signatures of lent keys, and no others.
type Account struct {
	identity *Identity
	roles    map[string][]string // role definitions of a client id
	certs    *certificates
	emulator *azurite.Server
	proxy    *http.Server
	front    *http.Server
	accepted chan net.Conn
	closed   chan struct{}
	ports    map[string]int // of Azurite, by service
	forward  *http.Transport
	keyLife  time.Duration
	address  string // of the proxy

	mu     sync.Mutex
	counts map[string]int
	wrong  []string
}

// Open starts Azurite and everything before it. roles are the names of Azure's role
// definitions that each client id has on the account. keyLife is how long a user
// delegation key lives, whatever was asked for. Files are kept in dir.
func Open(ctx context.Context, dir string, identity *Identity, roles map[string][]string, keyLife time.Duration) (_ *Account, err error) {
	a := &Account{identity: identity, roles: roles, keyLife: keyLife, accepted: make(chan net.Conn), closed: make(chan struct{}), counts: map[string]int{}}
	var hosts []string
	for _, service := range []string{"blob", "queue", "table"} {
		hosts = append(hosts, Name+"."+service+suffix)
	}
	if a.certs, err = issue(dir, hosts); err != nil {
		return nil, err
	}
	if a.emulator, err = azurite.Start(ctx, azurite.Options{CertFile: a.certs.certFile, KeyFile: a.certs.keyFile}); err != nil {
		return nil, err
	}
	a.ports = map[string]int{"blob": a.emulator.BlobPort, "queue": a.emulator.QueuePort, "table": a.emulator.TablePort}
	a.forward = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.certs.pool}, MaxIdleConnsPerHost: 64, IdleConnTimeout: 3 * time.Second}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the proxy: %w", err), a.emulator.Stop())
	}
	a.address = listener.Addr().String()
	a.proxy = &http.Server{Handler: http.HandlerFunc(a.connect), ReadHeaderTimeout: 10 * time.Second}
	quiet := log.New(io.Discard, "", 0) // clients that are killed break handshakes
	a.front = &http.Server{Handler: a.handler(quiet), ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	go func() { _ = a.proxy.Serve(listener) }()
	go func() {
		_ = a.front.Serve(tls.NewListener(&funnel{a}, &tls.Config{Certificates: []tls.Certificate{a.certs.pair}}))
	}()
	return a, nil
}

// Close ends everything and Azurite.
func (a *Account) Close() error {
	err := errors.Join(a.proxy.Close(), a.front.Close())
	a.forward.CloseIdleConnections()
	return errors.Join(err, a.emulator.Stop())
}

// Env leads a program to the account by its real host names.
func (a *Account) Env() []string {
	return []string{"HTTPS_PROXY=http://" + a.address, "https_proxy=", "NO_PROXY=", "no_proxy=", "SSL_CERT_FILE=" + a.certs.authorityFile, "SSL_CERT_DIR=/nonexistent"}
}

// Transport is the same for this process.
func (a *Account) Transport() *http.Transport {
	proxy := &url.URL{Scheme: "http", Host: a.address}
	return &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			if r.URL.Scheme == "https" {
				return proxy, nil
			}
			return nil, nil
		},
		TLSClientConfig: &tls.Config{RootCAs: a.certs.pool}, IdleConnTimeout: 3 * time.Second,
	}
}

// Direct is Azurite itself with its key, as who owns the account uses it: a
// connection string and the transport for it.
func (a *Account) Direct() (connection string, transport *http.Client) {
	connection = a.emulator.ConnectionString()
	return strings.ReplaceAll(connection, "http", "https"), &http.Client{Transport: a.forward}
}

// Count is how many requests of a kind came: "token", "signature", "preflight",
// "transaction", "delegation key", "forbidden".
func (a *Account) Count(kind string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[kind]
}

// Wrong lists requests that no deployed role may send, such as one with a key.
func (a *Account) Wrong() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.wrong)
}

func (a *Account) count(kind string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[kind]++
}

// connect opens a tunnel to the front, for the account's names and no others.
func (a *Account) connect(w http.ResponseWriter, r *http.Request) {
	host, port, _ := net.SplitHostPort(r.Host)
	if r.Method != http.MethodConnect || port != "443" || a.service(host) == "" {
		http.Error(w, "no way to "+r.Host, http.StatusForbidden)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = conn.Close()
		return
	}
	select {
	case a.accepted <- conn:
	case <-a.closed:
		_ = conn.Close()
	}
}

// funnel is a listener whose connections come through the proxy.
type funnel struct{ a *Account }

// Accept waits for a tunnel.
func (f *funnel) Accept() (net.Conn, error) {
	select {
	case conn := <-f.a.accepted:
		return conn, nil
	case <-f.a.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. http.Server calls it once.
func (f *funnel) Close() error {
	close(f.a.closed)
	return nil
}

// Addr is where clients think they are.
func (f *funnel) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

// service is "blob", "queue" or "table" for one of the account's host names, else "".
func (a *Account) service(host string) string {
	name, ok := strings.CutSuffix(strings.TrimSuffix(host, ":443"), suffix)
	account, service, _ := strings.Cut(name, ".")
	if !ok || account != Name || a.ports[service] == 0 {
		return ""
	}
	return service
}

func (a *Account) handler(quiet *log.Logger) http.Handler {
	pass := &httputil.ReverseProxy{Transport: a.forward, ErrorLog: quiet, Rewrite: func(p *httputil.ProxyRequest) {
		service := a.service(p.In.Host)
		p.Out.URL.Scheme, p.Out.URL.Host = "https", fmt.Sprintf("127.0.0.1:%d", a.ports[service])
		p.Out.Host = p.In.Host
		if service == "table" {
			a.pathStyle(p.Out)
		}
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, code := a.judge(r); status != 0 {
			w.Header().Set("x-ms-error-code", code)
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>Refused by the test.</Message></Error>`, code)
			return
		}
		if err := a.change(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		pass.ServeHTTP(w, r)
	})
}

// pathStyle puts the account into the path. Azurite does not understand the requests
// inside a table transaction otherwise (its issue 2322); Azure does.
func (a *Account) pathStyle(out *http.Request) {
	out.Host = out.URL.Host
	out.URL.RawPath = "/" + Name + out.URL.EscapedPath()
	out.URL.Path = "/" + Name + out.URL.Path
}

var expiry = regexp.MustCompile(`<Expiry>[^<]*</Expiry>`)

// change alters the bodies of two requests: see pathStyle and Open.
func (a *Account) change(r *http.Request) error {
	transaction := r.URL.Path == "/$batch" && a.service(r.Host) == "table"
	lend := r.URL.Query().Get("comp") == "userdelegationkey"
	if !transaction && !lend {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("read a body: %w", err)
	}
	if transaction {
		a.count("transaction")
		body = bytes.ReplaceAll(body, []byte("https://"+Name+".table"+suffix+"/"), fmt.Appendf(nil, "https://127.0.0.1:%d/%s/", a.ports["table"], Name))
	} else {
		a.count("delegation key")
		body = expiry.ReplaceAll(body, []byte("<Expiry>"+time.Now().Add(a.keyLife).UTC().Format(time.RFC3339)+"</Expiry>"))
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Del("Content-Length")
	return nil
}

// Roles reads from a Terraform file which roles it gives: lines such as
//
//	web = ["Storage Blob Data Contributor", …]
//
// inside "roles = {".
func Roles(path string) (map[string][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the roles: %w", err)
	}
	_, text, found := bytes.Cut(text, []byte("roles = {"))
	text, _, ended := bytes.Cut(text, []byte("\n  }"))
	if !found || !ended {
		return nil, fmt.Errorf("read the roles: %s has none", path)
	}
	roles := map[string][]string{}
	for _, line := range regexp.MustCompile(`(?m)^\s+(\w+)\s*=\s*\[(.*)\]`).FindAllSubmatch(text, -1) {
		for _, quoted := range strings.Split(string(line[2]), ",") {
			roles[string(line[1])] = append(roles[string(line[1])], strings.Trim(quoted, ` "`))
		}
	}
	return roles, nil
}
