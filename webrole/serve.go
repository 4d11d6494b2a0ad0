package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/board"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/page"
	"github.com/cutroom/cutroom/webrole/internal/playback"
)

// Time-outs of both listeners. There is no write time-out: a slow player may take
// its time over a segment. Bodies and the work on requests: see middleware.Deadline.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 32 << 10 // bytes
)

// instanceHeader carries the instance that the starter chose, so that the process that
// started this process can tell it from a stranger on the same port.
const instanceHeader = "X-Cutroom-Instance"

// site is what the listeners show.
type site struct {
	api      *httpapi.Server
	pages    *page.Pages
	playback *playback.Service
	board    *board.Board
	ready    *readiness
	who      access.Authenticator
	videos   access.Videos
	trail    access.Auditor
	measured *metrics
}

// role is a web role whose listeners are open.
type role struct {
	site
	cfg           config
	account       *azstorage.Account
	public, admin net.Listener
	servers       []*http.Server // of public and admin
	routes        [2]*gin.Engine // the same
}

// listen opens both listeners and tells the blob service which pages may upload.
func listen(ctx context.Context, cfg config, account *azstorage.Account, s site) (*role, error) {
	blobOrigin, err := originOf(account.ServiceBlobs().URL())
	if err != nil {
		return nil, err
	}
	s.ready = &readiness{probe: s.api.Ready}
	r := &role{site: s, cfg: cfg, account: account}
	config := net.ListenConfig{}
	if r.public, err = config.Listen(ctx, "tcp", cfg.Addr); err != nil {
		return nil, fmt.Errorf("open the public listener: %w", err)
	}
	if r.admin, err = config.Listen(ctx, "tcp", cfg.AdminAddr); err != nil {
		return nil, errors.Join(fmt.Errorf("open the admin listener: %w", err), r.public.Close())
	}
	origins := cfg.Origins
	if cfg.local() {
		origins = append(origins, loopbackOrigins(r.public.Addr())...)
	}
	if err := account.EnsureCORS(ctx, origins); err != nil {
		// In Azure deployment sets the rules, and the role may not.
		slog.WarnContext(ctx, "pages may be unable to upload straight to storage", "error", err)
	}
	admins := s.who
	if signIn, ok := s.who.(*access.SignIn); ok {
		admins = signIn.Programs() // the way back from the issuer leads to the public listener
	}
	front := func(h http.Handler, hosts []string, who access.Authenticator) http.Handler {
		return middleware.Chain(h, access.Hide, middleware.Deadline(cfg.WorkTime), middleware.Span, middleware.RequestID, instance(cfg.Instance), middleware.Log(s.measured.observe), middleware.Headers(blobOrigin),
			middleware.Recover, middleware.Hosts(hosts), middleware.Rate(cfg.Rate, cfg.Proxies), access.Identify(who, cfg.Links), middleware.SameOrigin)
	}
	r.routes = [2]*gin.Engine{publicRoutes(s, cfg), adminRoutes(s, s.measured)}
	for _, engine := range r.routes {
		if err := access.Check(engine.Routes()); err != nil {
			return nil, errors.Join(err, r.public.Close(), r.admin.Close())
		}
	}
	r.servers = []*http.Server{
		newServer(front(r.routes[0], allowedHosts(cfg.Addr, cfg.Hosts), s.who)),
		newServer(front(r.routes[1], allowedHosts(cfg.AdminAddr, nil), admins)),
	}
	r.servers[0].ConnState = middleware.NewConnections(cfg.Open, cfg.Proxies, s.measured.refused.Inc).Track
	// Streams of events have no end of their own.
	r.servers[0].RegisterOnShutdown(s.board.Close)
	return r, nil
}

// serve answers until ctx ends, then drains: first /readyz says no, so that what
// sends requests here stops; after DrainDelay the listeners close, and requests
// under way end. The admin listener closes last.
func (r *role) serve(ctx context.Context) error {
	failed := make(chan error, len(r.servers))
	for i, listener := range []net.Listener{r.public, r.admin} {
		go func() { failed <- r.servers[i].Serve(listener) }()
	}
	slog.InfoContext(ctx, "web role is up", "address", "http://"+r.public.Addr().String()+"/", "admin", r.admin.Addr().String())

	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		r.ready.drain()
		slog.InfoContext(ctx, "draining: requests under way may finish", "listening for", r.cfg.DrainDelay)
		select {
		case err = <-failed:
		case <-time.After(r.cfg.DrainDelay):
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.DrainTimeout)
	defer cancel()
	for _, server := range r.servers {
		if stopErr := server.Shutdown(last); stopErr != nil {
			// A broken upload keeps its blocks, and a player asks again.
			slog.WarnContext(ctx, "requests were cut off", "error", stopErr)
			err = errors.Join(err, server.Close())
		}
	}
	return err
}

func newServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader}
}

// publicRoutes is pages, API and playback; operations only if they are wanted here;
// and what the lab may do.
func publicRoutes(s site, cfg config) *gin.Engine {
	r := newEngine(s, opsFrom(cfg.OpsFrom, cfg.Proxies))
	s.health(r)
	if signIn, ok := s.who.(*access.SignIn); ok {
		signIn.Register(r)
	}
	s.pages.Register(r, cfg.PublicOps, s.board.Snapshot)
	s.playback.Register(r)
	s.api.Register(r, func(path string) bool { return cfg.PublicOps || !httpapi.IsOps(path) })
	if cfg.plays() {
		pass := gin.WrapH(passOn(cfg.Lab))
		r.GET(labBase+"/scenes", pass)
		r.POST(labBase+"/scenes/:scene", pass)
		r.GET(labBase+"/scene-runs/:run", pass)
		if cfg.breaks() {
			r.GET(labBase, pass)
			r.POST(labBase+"/:fault", pass)
		}
	}
	return r
}

// opsFrom answers operators of these networks only, and all others as if there were nothing.
func opsFrom(networks, proxies middleware.Proxies) gin.HandlerFunc {
	return func(c *gin.Context) {
		ops := httpapi.IsOps(c.FullPath()) || c.FullPath() == "/board/tables"
		if ops && len(networks) > 0 && !networks.Include(proxies.Client(c.Request)) {
			httpapi.NoRoute(c)
		}
	}
}

// adminRoutes is what operators need: operations, metrics, profiles.
func adminRoutes(s site, m *metrics) *gin.Engine {
	r := newEngine(s)
	s.health(r)
	s.api.Register(r, httpapi.IsOps)
	r.GET("/metrics", gin.WrapH(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})))
	r.GET("/debug/pprof/*name", func(c *gin.Context) {
		middleware.StreamsOut(c.Request) // a profile lasts as long as it is asked to
		switch c.Param("name") {
		case "/profile":
			pprof.Profile(c.Writer, c.Request)
		case "/trace":
			pprof.Trace(c.Writer, c.Request)
		case "/symbol":
			pprof.Symbol(c.Writer, c.Request)
		default:
			pprof.Index(c.Writer, c.Request)
		}
	})
	return r
}

// newEngine is Gin without its own logging and recovery, which middleware does, and
// with raw paths: an id of a%2Fb is one bad id, not two path segments. Before every
// handler stands the rule of its route.
func newEngine(s site, before ...gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.UseRawPath = true
	r.UnescapePathValues = true
	r.RedirectTrailingSlash = false
	r.HandleMethodNotAllowed = true
	r.Use(middleware.Route, s.pages.ShowProblems)
	r.Use(before...)
	r.Use(access.Enforce(s.videos, s.trail))
	r.NoRoute(httpapi.NoRoute)
	r.NoMethod(httpapi.NoMethod)
	return r
}

// health answers /livez (the process runs) and /readyz (it should be sent requests).
func (s site) health(r gin.IRoutes) {
	r.GET("/livez", func(c *gin.Context) { c.String(http.StatusOK, "ok\n") })
	r.GET("/readyz", func(c *gin.Context) {
		if err := s.ready.check(c.Request.Context()); err != nil {
			c.Header("Retry-After", "1")
			c.String(http.StatusServiceUnavailable, err.Error()+"\n")
			return
		}
		c.String(http.StatusOK, "ok\n")
	})
}

func instance(name string) middleware.Middleware {
	return func(next http.Handler) http.Handler {
		if name == "" {
			return next
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(instanceHeader, name)
			next.ServeHTTP(w, r)
		})
	}
}

// allowedHosts is what a listener answers for. On loopback the list is fixed and
// stops DNS rebinding; elsewhere the token protects, and an empty list allows all.
func allowedHosts(addr string, configured []string) []string {
	host, _, _ := net.SplitHostPort(addr)
	if isLoopback(host) {
		return append([]string{"localhost", "127.0.0.1", "::1", host}, configured...)
	}
	return configured
}

// loopbackOrigins are the names under which a browser on this host may see us.
func loopbackOrigins(addr net.Addr) []string {
	_, port, _ := net.SplitHostPort(addr.String())
	return []string{"http://127.0.0.1:" + port, "http://localhost:" + port}
}

func originOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("read the blob service's address: %w", err)
	}
	return u.Scheme + "://" + u.Host, nil
}
