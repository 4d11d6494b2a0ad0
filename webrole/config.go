package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/settings"
	"github.com/cutroom/cutroom/shared/logging"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/upload"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// config is everything that the environment decides. Every variable is in
// docs/configuration.md with its unit, default and range.
type config struct {
	Storage   azstore.Config
	Queues    []azq.Spec // with the visibilities of CUTROOM_VISIBILITY
	Addr      string     // WEBROLE_ADDR: public listener
	AdminAddr string     // WEBROLE_ADMIN_ADDR: metrics, profiles, operations
	Instance  string     // CUTROOM_INSTANCE: echoed, so that a starter knows its own child

	Token     string             // WEBROLE_TOKEN: needed on any address but loopback
	Anonymous bool               // WEBROLE_ANONYMOUS: without token or key one is a viewer
	Links     access.Links       // WEBROLE_PLAYBACK_KEYS, WEBROLE_PLAYBACK_LIFE: tokens that play private videos
	Hosts     []string           // WEBROLE_HOSTS: names that the public listener answers for
	Origins   []string           // WEBROLE_ORIGINS: where browsers see the pages, for the blob service's CORS rules
	Rate      middleware.Limits  // WEBROLE_RATE_LIMIT, WEBROLE_PLAYBACK_RATE_LIMIT: requests per client and 10 s
	Open      int                // WEBROLE_CONNECTIONS: connections that each client may have open
	Proxies   middleware.Proxies // WEBROLE_TRUSTED_PROXIES: whose X-Forwarded-For is believed
	PublicOps bool               // WEBROLE_PUBLIC_OPS: operator's routes on the public listener, too
	OpsFrom   middleware.Proxies // WEBROLE_OPS_NETWORKS: where they are asked for there; empty: anywhere

	Prices price.Table // WEBROLE_PRICES: what things cost, for GET /videos/{id}/cost

	optional []web.Optional // features, with what they have read

	WorkTime     time.Duration // WEBROLE_REQUEST_TIMEOUT: for the work on a request
	DrainTimeout time.Duration // WEBROLE_DRAIN_TIMEOUT: for requests under way when the role stops

	UploadMemory int64         // WEBROLE_UPLOAD_MEMORY, in bytes: buffers of all uploads through this role
	DrainDelay   time.Duration // WEBROLE_DRAIN_DELAY: from /readyz saying no to the listeners closing
}

const defaultAdminAddr = "127.0.0.1:9090"

// Bounds of several variables.
const (
	maxRate     = 1_000_000
	maxWorkTime = 10 * time.Minute
)

// loadConfig reads the environment. One error lists every bad variable.
func loadConfig(getenv func(string) string) (config, error) {
	env := settings.Reader{Getenv: getenv}
	cfg := config{
		Addr:      env.Text("WEBROLE_ADDR", "127.0.0.1:8080"),
		AdminAddr: env.Text("WEBROLE_ADMIN_ADDR", defaultAdminAddr),
		Instance:  getenv("CUTROOM_INSTANCE"),
		Token:     getenv("WEBROLE_TOKEN"),
		Hosts:     env.Words("WEBROLE_HOSTS"),
		Origins:   env.Words("WEBROLE_ORIGINS"),
		Rate: middleware.Limits{
			API:      env.Int("WEBROLE_RATE_LIMIT", 0, 0, maxRate),
			Playback: env.Int("WEBROLE_PLAYBACK_RATE_LIMIT", 0, 0, maxRate),
		},
		Open:         env.Int("WEBROLE_CONNECTIONS", 1000, 0, 1_000_000),
		UploadMemory: int64(env.Int("WEBROLE_UPLOAD_MEMORY", 256, upload.MinMemory>>20, 64<<10)) << 20,
		WorkTime:     env.Duration("WEBROLE_REQUEST_TIMEOUT", middleware.WorkTime, time.Second, maxWorkTime),
		DrainTimeout: env.Duration("WEBROLE_DRAIN_TIMEOUT", 20*time.Second, 0, 10*time.Minute),
		Prices:       settings.Parse(&env, "WEBROLE_PRICES", price.Parse),
		Queues:       settings.Parse(&env, "CUTROOM_VISIBILITY", workflow.WithVisibility),
	}
	// On loopback there is no load balancer that would have to notice.
	delay := 5 * time.Second
	if cfg.local() {
		delay = 0
	}
	cfg.readAccess(&env)
	cfg.DrainDelay = env.Duration("WEBROLE_DRAIN_DELAY", delay, 0, time.Minute)
	for _, read := range optional {
		cfg.optional = append(cfg.optional, read(&env))
	}
	_, log := logging.New(io.Discard, getenv) // main has it
	var storage error
	cfg.Storage, storage = azstore.ConfigFromEnv(getenv, "CUTROOM")
	env.Bad("WEBROLE_ADDR", settings.CheckListener(cfg.Addr, cfg.Token, "WEBROLE_TOKEN"))
	env.Bad("WEBROLE_ADMIN_ADDR", settings.CheckListener(cfg.AdminAddr, cfg.Token, "WEBROLE_TOKEN"))
	cfg.check(func(name, format string, args ...any) { env.Bad(name, fmt.Errorf(format, args...)) })
	return cfg, errors.Join(env.Err(), log, storage)
}

func (c *config) readAccess(env *settings.Reader) {
	c.Proxies = settings.Parse(env, "WEBROLE_TRUSTED_PROXIES", middleware.ParseProxies)
	c.OpsFrom = settings.Parse(env, "WEBROLE_OPS_NETWORKS", middleware.ParseProxies)
	c.PublicOps, c.Anonymous = env.On("WEBROLE_PUBLIC_OPS"), env.On("WEBROLE_ANONYMOUS")
	c.Links.Life = env.Duration("WEBROLE_PLAYBACK_LIFE", 6*time.Hour, time.Second, 7*24*time.Hour)
	for _, key := range env.Keys("WEBROLE_PLAYBACK_KEYS") {
		c.Links.Keys = append(c.Links.Keys, []byte(key))
	}
}

// local reports whether the public listener is on loopback.
func (c config) local() bool {
	host, _, _ := net.SplitHostPort(c.Addr)
	return settings.IsLoopback(host)
}

// check tells bad what a value alone does not show: who could reach a listener.
func (c config) check(bad func(name, format string, args ...any)) {
	if c.Token != "" && len(c.Token) < settings.MinToken {
		bad("WEBROLE_TOKEN", "has %d characters, needs at least %d", len(c.Token), settings.MinToken)
	}
	if c.Token == "" && c.PublicOps && len(c.Hosts)+len(c.Proxies) > 0 {
		bad("WEBROLE_PUBLIC_OPS", "WEBROLE_HOSTS or WEBROLE_TRUSTED_PROXIES lets others in, and there is no authentication: set WEBROLE_TOKEN")
	}
	for _, origin := range c.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.Path != "" {
			bad("WEBROLE_ORIGINS", "%q is not an origin such as https://video.example.org", origin)
		}
	}
}

// LogValue is what the log shows at the start: what is in force, without secrets.
func (c config) LogValue() slog.Value {
	shown := []slog.Attr{
		slog.Any("storage", c.Storage), slog.String("visibility", workflow.Visibilities(c.Queues)),
		slog.String("address", c.Addr), slog.String("admin", c.AdminAddr), slog.Bool("token", c.Token != ""), slog.Bool("anonymous", c.Anonymous), slog.Int("playbackKeys", len(c.Links.Keys)),
		slog.Any("hosts", c.Hosts), slog.Any("origins", c.Origins), slog.Any("rate", c.Rate), slog.Any("proxies", c.Proxies), slog.Bool("publicOps", c.PublicOps), slog.Any("opsFrom", c.OpsFrom),
		slog.Any("prices", c.Prices),
		slog.Int64("uploadMemory", c.UploadMemory),
		slog.Int("connections", c.Open), slog.Duration("requestTimeout", c.WorkTime), slog.Duration("drainDelay", c.DrainDelay), slog.Duration("drainTimeout", c.DrainTimeout),
	}
	for _, f := range c.optional {
		shown = append(shown, f.Settings)
	}
	return slog.GroupValue(shown...)
}
