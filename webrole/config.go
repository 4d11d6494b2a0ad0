package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/settings"
	"github.com/cutroom/cutroom/shared/logging"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/shared/workflow"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/scaling"
	"github.com/cutroom/cutroom/webrole/internal/upload"
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
	SignIn    access.OIDC        // WEBROLE_OIDC_ISSUER and the like: where people sign in
	Links     access.Links       // WEBROLE_PLAYBACK_KEYS, WEBROLE_PLAYBACK_LIFE: tokens that play private videos
	Hosts     []string           // WEBROLE_HOSTS: names that the public listener answers for
	Origins   []string           // WEBROLE_ORIGINS: where browsers see the pages, for the blob service's CORS rules
	Rate      middleware.Limits  // WEBROLE_RATE_LIMIT, WEBROLE_PLAYBACK_RATE_LIMIT: requests per client and 10 s
	Open      int                // WEBROLE_CONNECTIONS: connections that each client may have open
	Proxies   middleware.Proxies // WEBROLE_TRUSTED_PROXIES: whose X-Forwarded-For is believed
	PublicOps bool               // WEBROLE_PUBLIC_OPS: operator's routes on the public listener, too
	OpsFrom   middleware.Proxies // WEBROLE_OPS_NETWORKS: where they are asked for there; empty: anywhere

	Limits videostore.Limits // WEBROLE_CLIPS_PER_VIDEO, WEBROLE_CLIPS, WEBROLE_REPROCESSINGS: work that waits at once; WEBROLE_QUOTA_*: what an owner may have

	Scaling scaling.Settings // WEBROLE_SCALE_*: how many workers are wanted

	Prices price.Table // WEBROLE_PRICES: what things cost, for GET /videos/{id}/cost
	Lab    *url.URL    // CUTROOM_LAB: the lab, with its token; nil but in the stack of make demo and make up

	WebDir       string        // WEBROLE_WEB_DIR: page sources to serve instead of the embedded ones
	WorkTime     time.Duration // WEBROLE_REQUEST_TIMEOUT: for the work on a request
	DrainTimeout time.Duration // WEBROLE_DRAIN_TIMEOUT: for requests under way when the role stops

	UploadMemory int64         // WEBROLE_UPLOAD_MEMORY, in bytes: buffers of all uploads through this role
	DrainDelay   time.Duration // WEBROLE_DRAIN_DELAY: from /readyz saying no to the listeners closing
}

const defaultAdminAddr = "127.0.0.1:9090"

// Bounds of several variables.
const (
	minKey      = 32 // characters
	maxRate     = 1_000_000
	maxWorkTime = 10 * time.Minute
	maxFleet    = 1000 // workers
	maxOpen     = 500  // places of a ledger, see videostore.QuotasTable
)

// loadConfig reads the environment. One error lists every bad variable.
func loadConfig(getenv func(string) string) (config, error) {
	env := settings.Reader{Getenv: getenv}
	cfg := config{
		Addr:      env.Text("WEBROLE_ADDR", "127.0.0.1:8080"),
		AdminAddr: env.Text("WEBROLE_ADMIN_ADDR", defaultAdminAddr),
		Instance:  getenv("CUTROOM_INSTANCE"),
		Token:     getenv("WEBROLE_TOKEN"),
		WebDir:    getenv("WEBROLE_WEB_DIR"),
		Hosts:     env.Words("WEBROLE_HOSTS"),
		Origins:   env.Words("WEBROLE_ORIGINS"),
		Rate: middleware.Limits{
			API:      env.Int("WEBROLE_RATE_LIMIT", 0, 0, maxRate),
			Playback: env.Int("WEBROLE_PLAYBACK_RATE_LIMIT", 0, 0, maxRate),
		},
		Open: env.Int("WEBROLE_CONNECTIONS", 1000, 0, 1_000_000),
		Limits: videostore.Limits{
			ClipsOfVideo:  env.Int("WEBROLE_CLIPS_PER_VIDEO", 8, 1, maxOpen),
			Clips:         int64(env.Int("WEBROLE_CLIPS", 64, 1, maxOpen)),
			Reprocessings: int64(env.Int("WEBROLE_REPROCESSINGS", 16, 1, maxOpen)),
			Owner:         quotas(&env, videostore.Quota{StoredBytes: 100 << 30, Waiting: 100, Minutes: 600, Clips: 16}),
			Local:         quotas(&env, videostore.Quota{}), // the holder of the token, and requests over loopback
		},
		Scaling: scaling.Settings{
			Begin:    env.Duration("WEBROLE_SCALE_BEGIN", 10*time.Second, time.Second, 0),
			Bulk:     env.Duration("WEBROLE_SCALE_BULK", 30*time.Minute, time.Second, 0),
			Floor:    env.Int("WEBROLE_SCALE_FLOOR", 1, 1, maxFleet),
			Ceiling:  env.Int("WEBROLE_SCALE_CEILING", 10, 1, maxFleet),
			CoolDown: env.Duration("WEBROLE_SCALE_COOL_DOWN", 5*time.Minute, 0, 24*time.Hour),
		},
		UploadMemory: int64(env.Int("WEBROLE_UPLOAD_MEMORY", 256, upload.MinMemory>>20, 64<<10)) << 20,
		WorkTime:     env.Duration("WEBROLE_REQUEST_TIMEOUT", middleware.WorkTime, time.Second, maxWorkTime),
		DrainTimeout: env.Duration("WEBROLE_DRAIN_TIMEOUT", 20*time.Second, 0, 10*time.Minute),
		Prices:       settings.Parse(&env, "WEBROLE_PRICES", price.Parse),
		Lab:          settings.Parse(&env, "CUTROOM_LAB", labAddress),
		Queues:       settings.Parse(&env, "CUTROOM_VISIBILITY", workflow.WithVisibility),
	}
	// On loopback there is no load balancer that would have to notice.
	delay := 5 * time.Second
	if cfg.local() {
		delay = 0
	}
	cfg.readAccess(&env)
	cfg.DrainDelay = env.Duration("WEBROLE_DRAIN_DELAY", delay, 0, time.Minute)
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
	for _, key := range readKeys(env, "WEBROLE_PLAYBACK_KEYS") {
		c.Links.Keys = append(c.Links.Keys, []byte(key))
	}
	c.SignIn = access.OIDC{
		Issuer: env.Getenv("WEBROLE_OIDC_ISSUER"), ClientID: env.Getenv("WEBROLE_OIDC_CLIENT_ID"), ClientSecret: env.Getenv("WEBROLE_OIDC_CLIENT_SECRET"),
		URL: env.Getenv("WEBROLE_URL"), Role: access.Role(env.Text("WEBROLE_OIDC_ROLE", string(access.Viewer))),
		RoleClaim: env.Text("WEBROLE_OIDC_ROLE_CLAIM", "roles"), Keys: readKeys(env, "WEBROLE_SESSION_KEYS"),
	}
}

// quotas reads what an owner may have. unset is what holds where a variable is not set.
func quotas(env *settings.Reader, unset videostore.Quota) videostore.Quota {
	read := func(name string, unset int64, most int) int64 { return int64(env.Int(name, int(unset), 0, most)) }
	return videostore.Quota{
		StoredBytes: read("WEBROLE_QUOTA_STORED", unset.StoredBytes>>30, 1<<20) << 30,
		Waiting:     read("WEBROLE_QUOTA_WAITING", unset.Waiting, 1<<20),
		Minutes:     read("WEBROLE_QUOTA_MINUTES", unset.Minutes, 1<<20),
		Clips:       read("WEBROLE_QUOTA_CLIPS", unset.Clips, maxOpen),
	}
}

func readKeys(env *settings.Reader, name string) []string {
	all := env.Words(name)
	if slices.ContainsFunc(all, func(key string) bool { return len(key) < minKey }) {
		env.Bad(name, fmt.Errorf("a key has fewer than %d characters", minKey))
	}
	return all
}

// local reports whether the public listener is on loopback.
func (c config) local() bool {
	host, _, _ := net.SplitHostPort(c.Addr)
	return settings.IsLoopback(host)
}

// labAddress reads http://lab:token@127.0.0.1:port. The lab is on this host, or the
// token would travel.
func labAddress(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || !settings.IsLoopback(u.Hostname()) || u.Path != "" {
		return nil, errors.New("want http://lab:token@127.0.0.1:port") // the text holds a secret: not in the error
	}
	if token, _ := u.User.Password(); len(token) < settings.MinToken {
		return nil, fmt.Errorf("want a token of at least %d characters", settings.MinToken)
	}
	return u, nil
}

// breaks reports whether the board may break the stack: there is a lab, and only this
// host can reach the public listener.
func (c config) breaks() bool { return c.Lab != nil && c.local() && c.PublicOps }

// plays reports whether pages may play scenes. They need a lab, too, but they work below
// names of their own: where people sign in, operators may play them from anywhere.
func (c config) plays() bool { return c.breaks() || c.Lab != nil && c.Token != "" }

// check tells bad what a value alone does not show: who could reach a listener,
// and whether a folder is there.
func (c config) check(bad func(name, format string, args ...any)) {
	if c.Token != "" && len(c.Token) < settings.MinToken {
		bad("WEBROLE_TOKEN", "has %d characters, needs at least %d", len(c.Token), settings.MinToken)
	}
	if c.Token == "" && c.PublicOps && len(c.Hosts)+len(c.Proxies) > 0 {
		bad("WEBROLE_PUBLIC_OPS", "WEBROLE_HOSTS or WEBROLE_TRUSTED_PROXIES lets others in, and there is no authentication: set WEBROLE_TOKEN")
	}
	if c.Scaling.Ceiling < c.Scaling.Floor {
		bad("WEBROLE_SCALE_CEILING", "%d is less than WEBROLE_SCALE_FLOOR, %d", c.Scaling.Ceiling, c.Scaling.Floor)
	}
	c.checkSignIn(bad)
	for _, origin := range c.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.Path != "" {
			bad("WEBROLE_ORIGINS", "%q is not an origin such as https://video.example.org", origin)
		}
	}
	if c.WebDir != "" {
		if info, err := os.Stat(c.WebDir); err != nil || !info.IsDir() {
			bad("WEBROLE_WEB_DIR", "%q is not a directory", c.WebDir)
		}
	}
}

func (c config) checkSignIn(bad func(name, format string, args ...any)) {
	if c.SignIn.Issuer == "" {
		return
	}
	for name, text := range map[string]string{"WEBROLE_OIDC_ISSUER": c.SignIn.Issuer, "WEBROLE_URL": c.SignIn.URL} {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !settings.IsLoopback(u.Hostname())) {
			bad(name, "%q is not an address such as https://id.example.org; http is for loopback only", text)
		}
	}
	if u, err := url.Parse(c.SignIn.URL); err == nil && u.Path != "" {
		bad("WEBROLE_URL", "%q has a path", c.SignIn.URL)
	}
	for name, text := range map[string]string{
		"WEBROLE_TOKEN": c.Token, "WEBROLE_OIDC_CLIENT_ID": c.SignIn.ClientID,
		"WEBROLE_SESSION_KEYS": strings.Join(c.SignIn.Keys, ""),
	} {
		if text == "" {
			bad(name, "is empty, and WEBROLE_OIDC_ISSUER needs it")
		}
	}
	if !slices.Contains([]access.Role{access.Viewer, access.Uploader, access.Operator}, c.SignIn.Role) {
		bad("WEBROLE_OIDC_ROLE", "%q is not viewer, uploader or operator", c.SignIn.Role)
	}
}

// LogValue is what the log shows at the start: what is in force, without secrets.
func (c config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Any("storage", c.Storage), slog.String("visibility", workflow.Visibilities(c.Queues)),
		slog.String("address", c.Addr), slog.String("admin", c.AdminAddr), slog.Bool("token", c.Token != ""), slog.Bool("anonymous", c.Anonymous), slog.Int("playbackKeys", len(c.Links.Keys)), slog.String("issuer", c.SignIn.Issuer),
		slog.Any("hosts", c.Hosts), slog.Any("origins", c.Origins), slog.Any("rate", c.Rate), slog.Any("proxies", c.Proxies), slog.Bool("publicOps", c.PublicOps), slog.Any("opsFrom", c.OpsFrom), slog.Any("limits", c.Limits),
		slog.Any("prices", c.Prices), slog.Any("scaling", c.Scaling),
		slog.String("webDir", c.WebDir), slog.Bool("lab", c.Lab != nil), slog.Int64("uploadMemory", c.UploadMemory),
		slog.Duration("drainDelay", c.DrainDelay), slog.Duration("drainTimeout", c.DrainTimeout))
}
