// Package lab hands requests to the lab of a stack (e2e/lab), which breaks things and plays
// scenes, in the process that started the stack.
package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/settings"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

const base = web.Base + "/lab"

var away = problem.Code{Name: "lab_unavailable", Status: http.StatusServiceUnavailable}

// Read reads CUTROOM_LAB: the lab, with its token; nothing but in the stack of make demo and make up.
func Read(env *settings.Reader) web.Optional {
	lab := settings.Parse(env, "CUTROOM_LAB", address)
	return web.Optional{Settings: slog.Bool("lab", lab != nil), New: func(p web.Parts) web.Feature {
		// The board may break the stack only if no other host can reach the public listener. Scenes
		// work below names of their own: where people sign in, operators may play them from anywhere.
		breaks := lab != nil && p.Local && p.Ops
		plays := breaks || lab != nil && p.Token
		return web.Feature{Shows: map[string]any{"Lab": breaks, "Plays": plays}, Pages: func(r gin.IRouter, _ web.Show) {
			if !plays {
				return
			}
			pass := gin.WrapH(passOn(lab))
			r.GET(base+"/scenes", pass)
			r.POST(base+"/scenes/:scene", pass)
			r.GET(base+"/scene-runs/:run", pass)
			if breaks {
				r.GET(base, pass)
				r.POST(base+"/:fault", pass)
			}
		}}
	}}
}

// address reads http://lab:token@127.0.0.1:port. The lab is on this host, or the
// token would travel.
func address(text string) (*url.URL, error) {
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

// passOn hands requests to the lab. Our own guards stand before it, and the client's
// credentials stay here.
func passOn(lab *url.URL) http.Handler {
	token, _ := lab.User.Password()
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(lab)
			r.Out.Header = http.Header{
				"Authorization": {"Bearer " + token},
				"Content-Type":  r.In.Header["Content-Type"],
			}
		},
		Transport: &http.Transport{DisableKeepAlives: true}, // it is asked rarely
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if !errors.Is(err, context.Canceled) {
				err = problem.New(away, "The lab does not answer.").Because(err)
			}
			problem.Write(w, r, fmt.Errorf("ask the lab: %w", err))
		},
	}
}
