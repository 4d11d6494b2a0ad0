package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	_ "net/http/pprof" // registers the profiles in http.DefaultServeMux
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/settings"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/page"
	"github.com/cutroom/cutroom/webrole/internal/playback"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// Time-outs of both listeners. There is no write time-out: a slow player may take
// its time over a segment. Bodies and the work on requests: see middleware.Deadline.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 32 << 10 // bytes
)

// role is a web role: what its listeners show, and the listeners once they are open.
type role struct {
	cfg      config
	account  *azstore.Account
	features []web.Feature
	pages    *page.Pages
	playback *playback.Service
	ready    *readiness
	programs access.Authenticator
	everyone access.Authenticator // people, too, where they sign in
	videos   *videostore.Store
	measured *metrics

	public, admin net.Listener
	servers       []*http.Server // of public and admin
	routes        [2]*gin.Engine // the same
}

// listen opens the listeners for what there is, with what features add to it.
func (r *role) listen(ctx context.Context) error {
	r.everyone = r.programs
	for _, f := range r.features {
		if f.Metrics != nil {
			f.Metrics(r.measured.registry)
		}
		if f.SignIn != nil {
			r.everyone = f.SignIn(r.programs)
		}
	}
	config := net.ListenConfig{}
	var err error
	if r.public, err = config.Listen(ctx, "tcp", r.cfg.Addr); err != nil {
		return fmt.Errorf("open the public listener: %w", err)
	}
	if r.admin, err = config.Listen(ctx, "tcp", r.cfg.AdminAddr); err != nil {
		return errors.Join(fmt.Errorf("open the admin listener: %w", err), r.public.Close())
	}
	origins := r.cfg.Origins
	if r.cfg.local() {
		_, port, _ := net.SplitHostPort(r.public.Addr().String())
		origins = append(origins, "http://127.0.0.1:"+port, "http://localhost:"+port) // as a browser on this host sees us
	}
	if err := r.account.EnsureCORS(ctx, origins); err != nil {
		// In Azure deployment sets the rules, and the role may not.
		slog.WarnContext(ctx, "pages may be unable to upload straight to storage", "error", err)
	}
	r.routes = [2]*gin.Engine{r.publicRoutes(), r.adminRoutes()}
	for _, engine := range r.routes {
		r.servers = append(r.servers, &http.Server{
			Handler: access.Hide(middleware.Span(engine)), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		})
	}
	r.servers[0].ConnState = middleware.NewConnections(r.cfg.Open, r.cfg.Proxies, r.measured.refused.Inc).Track
	for _, f := range r.features {
		if f.Close != nil {
			r.servers[0].RegisterOnShutdown(f.Close)
		}
	}
	return nil
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
		r.ready.draining.Store(true)
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

// publicRoutes is pages, API and playback, operations where they are wanted here.
func (r *role) publicRoutes() *gin.Engine {
	e := r.newEngine(allowedHosts(r.cfg.Addr, r.cfg.Hosts), r.everyone, r.cfg.OpsFrom)
	r.pages.Register(e)
	r.playback.Register(e)
	r.mount(e, func(path string) bool { return r.cfg.PublicOps || !web.IsOps(path) })
	return e
}

// adminRoutes is what operators need: operations, metrics, profiles. People do not sign in
// here: the way back from the issuer leads to the public listener.
func (r *role) adminRoutes() *gin.Engine {
	e := r.newEngine(allowedHosts(r.cfg.AdminAddr, nil), r.programs, nil)
	r.mount(e, web.IsOps)
	e.GET("/metrics", gin.WrapH(promhttp.HandlerFor(r.measured.registry, promhttp.HandlerOpts{})))
	e.GET("/debug/pprof/*name", func(c *gin.Context) {
		middleware.StreamsOut(c) // a profile lasts as long as it is asked to
		http.DefaultServeMux.ServeHTTP(c.Writer, c.Request)
	})
	return e
}

func (r *role) mount(e *gin.Engine, included func(path string) bool) {
	for _, f := range r.features {
		web.Mount(e, f, included)
	}
}

// newEngine is Gin behind what every request passes, with raw paths: an id of a%2Fb is
// one bad id, not two path segments. Last before every handler stands the rule of its route.
func (r *role) newEngine(hosts []string, authenticator access.Authenticator, opsFrom middleware.Proxies) *gin.Engine {
	all := web.Sum(r.features)
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.UseRawPath = true
	e.UnescapePathValues = true
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	e.RemoteIPHeaders = []string{"X-Forwarded-For"}
	_ = e.SetTrustedProxies(api.Each(r.cfg.Proxies, netip.Prefix.String)) // they were parsed
	e.Use(problem.WithAnswers(all.Problems), middleware.Deadline(r.cfg.WorkTime), middleware.RequestID,
		middleware.Log(r.measured.observe), middleware.Headers(r.account.Blobs.URL(), r.cfg.Instance), middleware.Recover, middleware.Hosts(hosts),
		middleware.Rate(r.cfg.Rate), access.Identify(all.Rules, authenticator, r.cfg.Links), middleware.SameOrigin,
		r.pages.ShowProblems, opsOnlyFrom(opsFrom), access.Enforce(all.Rules, r.videos, all.Record))
	e.NoRoute(web.NoRoute)
	e.NoMethod(web.NoMethod)
	e.GET("/livez", func(c *gin.Context) { c.String(http.StatusOK, "ok\n") }) // the process runs
	e.GET("/readyz", func(c *gin.Context) {                                   // it should be sent requests
		if err := r.ready.check(c.Request.Context()); err != nil {
			c.Header("Retry-After", "1")
			c.String(http.StatusServiceUnavailable, err.Error()+"\n")
			return
		}
		c.String(http.StatusOK, "ok\n")
	})
	return e
}

// opsOnlyFrom answers operators of these networks only, and all others as if there were
// nothing. Without networks it answers all.
func opsOnlyFrom(networks middleware.Proxies) gin.HandlerFunc {
	return func(c *gin.Context) {
		ops := web.IsOps(c.FullPath()) || c.FullPath() == "/board/tables"
		if ops && len(networks) > 0 && !networks.Include(middleware.Client(c).Addr()) {
			web.NoRoute(c)
		}
	}
}

// allowedHosts is what a listener answers for. On loopback the list is fixed and
// stops DNS rebinding; elsewhere the token protects, and an empty list allows all.
func allowedHosts(addr string, configured []string) []string {
	host, _, _ := net.SplitHostPort(addr)
	if settings.IsLoopback(host) {
		return append([]string{"localhost", "127.0.0.1", "::1", host}, configured...)
	}
	return configured
}

const (
	readyTimeout = 3 * time.Second
	readyMemory  = time.Second // how long one look at storage answers all callers
)

var (
	errDraining = errors.New("the role is stopping")
	errNoAnswer = errors.New("storage does not answer")
)

// readiness says whether this role should be sent requests. Any client may ask, as
// often as they like: storage is asked once a second at most.
type readiness struct {
	probe    func(context.Context, engine.ID) (bool, error) // asks storage for one row, of no video: ids are random
	draining atomic.Bool

	mu    sync.Mutex // held while storage is asked: the others wait for the same answer
	asked time.Time
	err   error
}

// check returns why not, in words for any client; the log has the reason.
func (r *readiness) check(ctx context.Context) error {
	if r.draining.Load() {
		return errDraining
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) < readyMemory {
		return r.err
	}
	// Others wait for this answer, so it is not the caller's to cancel.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	r.err = nil
	if _, err := r.probe(azstore.WithoutRetry(ctx), "aaaaaaaaaaaaaaaaaaaaaaaaaa"); err != nil {
		slog.WarnContext(ctx, "storage does not answer", "error", err)
		r.err = errNoAnswer
	}
	r.asked = time.Now()
	return r.err
}
