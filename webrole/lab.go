package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// labBase is where the lab is.
const labBase = httpapi.Base + "/lab"

// passOn hands requests to the lab (e2e/lab), which the process that started the
// stack keeps: it holds the processes. Our own guards (host, origin, token, deadline)
// stand before it, and the client's credentials stay here.
func passOn(lab *url.URL) http.Handler {
	token, _ := lab.User.Password()
	to := &url.URL{Scheme: lab.Scheme, Host: lab.Host}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header = http.Header{
				"Authorization": {"Bearer " + token},
				"Content-Type":  r.In.Header["Content-Type"],
			}
		},
		Transport: &http.Transport{DisableKeepAlives: true}, // it is asked rarely
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if !errors.Is(err, context.Canceled) {
				err = problem.New(problem.LabAway, "The lab does not answer.").Because(err)
			}
			problem.Write(w, r, fmt.Errorf("ask the lab: %w", err))
		},
	}
}
