// Package inject makes the faults of a storage service that Azurite never makes by
// itself. One set of faults serves a client in this process (Transport) and whole
// programs (Proxy).
//
//	way.go     servers before the emulator, which see every request
//	fault.go   the faults, and the transport that makes them
//	proxy.go   faults of a service for a while, by chance or all
//	held.go    a write that arrives after its sender has died
//	repeat.go  a message that is sent twice
package inject

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Services are all of a storage account.
var Services = []azstore.Service{azstore.Blobs, azstore.Queues, azstore.Tables}

// Way leads to the services of an emulator through servers of this process. Signatures
// cover the path and not the host, so requests go on as they are.
type Way struct {
	connection string // with the addresses of the servers
	servers    []*http.Server
	transport  *http.Transport
}

// Open listens on a free port of the loopback address for each service of the connection
// string, as Azurite's names them. place returns what handles the requests to a service and
// sends them on by next; nil leaves the service where it is.
func Open(connectionString string, place func(service azstore.Service, next http.RoundTripper) http.RoundTripper) (*Way, error) {
	w := &Way{
		connection: connectionString,
		// Azurite closes idle connections after 5 s: ours go before.
		transport: &http.Transport{IdleConnTimeout: 3 * time.Second, MaxIdleConnsPerHost: 256, DisableCompression: true},
	}
	for _, service := range Services {
		through := place(service, w.transport)
		if through == nil {
			continue
		}
		if err := w.interpose(service, through); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

func (w *Way) interpose(service azstore.Service, through http.RoundTripper) error {
	origin := endpoint(w.connection, service)
	target, err := url.Parse(origin)
	if err != nil || target.Host == "" {
		return fmt.Errorf("stand before the %ss: the connection string does not name their address", service)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("stand before the %ss: %w", service, err)
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // the client hears of it
	server := &http.Server{ReadHeaderTimeout: time.Minute, IdleTimeout: 5 * time.Second, ErrorLog: quiet, Handler: &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
		Transport:    through,
		ErrorLog:     quiet,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { breakConnection(w) },
	}}
	w.servers = append(w.servers, server)
	go func() { _ = server.Serve(listener) }() // ends with Close
	here := *target
	here.Host = listener.Addr().String()
	w.connection = strings.Replace(w.connection, origin, here.String(), 1)
	return nil
}

// ConnectionString is the one that Open was given, with the services behind the servers.
func (w *Way) ConnectionString() string { return w.connection }

// Close ends the servers with all their connections. Safe to repeat.
func (w *Way) Close() {
	for _, server := range w.servers {
		_ = server.Close()
	}
	w.transport.CloseIdleConnections()
}

func endpoint(connectionString string, service azstore.Service) string {
	for pair := range strings.SplitSeq(connectionString, ";") {
		if name, value, _ := strings.Cut(pair, "="); strings.EqualFold(strings.TrimSpace(name), string(service)+"Endpoint") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// breakConnection makes the client see a reset. Nothing can be answered after it.
func breakConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// ErrReset is the error of a connection that breaks.
var ErrReset = errors.New("connection reset by peer (injected)")

// Refusal is an answer of the service: its code in the header and in a body, as XML, or as
// JSON where the client accepts that. There is no Retry-After, as on Azure.
func Refusal(r *http.Request, status int, code, message string) *http.Response {
	id := rand.Text()
	message += fmt.Sprintf("\nRequestId:%s\nTime:%s", id, time.Now().UTC().Format("2006-01-02T15:04:05.0000000Z"))
	header := http.Header{"X-Ms-Error-Code": {code}, "X-Ms-Request-Id": {id}, "X-Ms-Version": {"2021-06-08"}, "Content-Type": {"application/xml"}}
	body := fmt.Sprintf(`<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
	if strings.Contains(r.Header.Get("Accept"), "json") {
		header.Set("Content-Type", "application/json;odata=minimalmetadata;streaming=true;charset=utf-8")
		text, _ := json.Marshal(map[string]any{"odata.error": map[string]any{ // of strings: cannot fail
			"code": code, "message": map[string]string{"lang": "en-US", "value": message},
		}})
		body = string(text)
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}
