// Package admin is the worker role's only listener: health, metrics and profiles.
package admin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// InstanceHeader carries the instance that the starter chose, so that the program that
// started this process can tell it from a stranger on the same port.
const InstanceHeader = "X-Cutroom-Instance"

// What a connection may take: anyone who reaches the port may open one, also without the
// token. The time of an answer has no bound: a profile lasts as long as it is asked to.
const (
	readTime  = 5 * time.Second // of a request: net/http reads its body, wanted or not
	idleTime  = 2 * time.Minute
	maxHeader = 32 << 10 // bytes
)

// Server answers /livez, /readyz, /metrics and /debug/pprof.
type Server struct {
	Instance string
	Registry *prometheus.Registry
	// Token, if set, is asked for as a bearer token by everything but health.
	Token string
	// Note, if set, follows the "ok" of /readyz in a line of its own.
	Note string
	// Ready returns why the worker cannot take work now, or nil.
	Ready func(ctx context.Context) error

	http *http.Server
	addr net.Addr
}

// Start listens on addr ("127.0.0.1:0" chooses a free port) and serves until Stop. The
// listener is open when it returns. When ctx has ended /readyz answers 503.
func (s *Server) Start(ctx context.Context, addr string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for admin requests: %w", err)
	}
	s.addr = listener.Addr()
	s.http = &http.Server{Handler: s.handler(ctx), ReadTimeout: readTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
	go func() {
		if err := s.http.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			slog.Error("admin listener stopped", "error", err)
		}
	}()
	return nil
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.addr.String() }

// Stop closes the listener and waits for requests under way until ctx ends.
func (s *Server) Stop(ctx context.Context) error {
	return s.http.Shutdown(ctx)
}

func (s *Server) handler(working context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if working.Err() != nil {
			http.Error(w, "not ready: the worker is stopping", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
		defer cancel()
		if err := s.Ready(ctx); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
		if s.Note != "" {
			_, _ = w.Write([]byte(s.Note + "\n"))
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(InstanceHeader, s.Instance)
		health := r.URL.Path == "/livez" || r.URL.Path == "/readyz"
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if s.Token != "" && !health && subtle.ConstantTimeCompare([]byte(given), []byte(s.Token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "this listener asks for the token of WORKERROLE_ADMIN_TOKEN", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
