package signin

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/azstore/settings"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// Read reads WEBROLE_OIDC_ISSUER and what belongs to it.
func Read(env *settings.Reader) web.Optional {
	c := OIDC{
		Issuer: env.Getenv("WEBROLE_OIDC_ISSUER"), ClientID: env.Getenv("WEBROLE_OIDC_CLIENT_ID"), ClientSecret: env.Getenv("WEBROLE_OIDC_CLIENT_SECRET"),
		URL: env.Getenv("WEBROLE_URL"), Role: access.Role(env.Text("WEBROLE_OIDC_ROLE", string(access.Viewer))),
		RoleClaim: env.Text("WEBROLE_OIDC_ROLE_CLAIM", "roles"), Keys: env.Keys("WEBROLE_SESSION_KEYS"),
	}
	c.check(env)
	return web.Optional{Settings: slog.String("issuer", c.Issuer), New: func(p web.Parts) web.Feature {
		if c.Issuer == "" {
			return web.Feature{}
		}
		s := newSignIn(c, apikeys.New(p.Account))
		return web.Feature{
			SignIn: s.before, Pages: func(r gin.IRouter, _ web.Show) { s.register(r) },
			Rules: access.Rules{"GET " + beginPath: access.Anyone, "GET " + callbackPath: access.Anyone, "POST " + signOutPath: access.Anyone},
		}
	}}
}

func (c OIDC) check(env *settings.Reader) {
	if c.Issuer == "" {
		return
	}
	bad := func(name, format string, args ...any) { env.Bad(name, fmt.Errorf(format, args...)) }
	for name, text := range map[string]string{"WEBROLE_OIDC_ISSUER": c.Issuer, "WEBROLE_URL": c.URL} {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !settings.IsLoopback(u.Hostname())) {
			bad(name, "%q is not an address such as https://id.example.org; http is for loopback only", text)
		}
	}
	if u, err := url.Parse(c.URL); err == nil && u.Path != "" {
		bad("WEBROLE_URL", "%q has a path", c.URL)
	}
	for name, text := range map[string]string{
		"WEBROLE_TOKEN": env.Getenv("WEBROLE_TOKEN"), "WEBROLE_OIDC_CLIENT_ID": c.ClientID, "WEBROLE_SESSION_KEYS": strings.Join(c.Keys, ""),
	} {
		if text == "" {
			bad(name, "is empty, and WEBROLE_OIDC_ISSUER needs it")
		}
	}
	if !slices.Contains(access.Roles, c.Role) {
		bad("WEBROLE_OIDC_ROLE", "%q is not viewer, uploader or operator", c.Role)
	}
}
