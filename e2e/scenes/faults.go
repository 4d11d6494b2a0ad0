package scenes

import (
	"net/http"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// onTheWay lets choose decide what becomes of each request of an actor.
func onTheWay(choose func(*http.Request) inject.Fault) Option {
	return func(cfg *azstore.Config) { cfg.Transport = &inject.Transport{Choose: choose} }
}

// retrying gives an actor a retry strategy of its own.
func retrying(r azstore.Retry) Option {
	return func(cfg *azstore.Config) { cfg.Retry = r }
}

func isPut(r *http.Request) bool    { return r.Method == http.MethodPut }
func isPost(r *http.Request) bool   { return r.Method == http.MethodPost }
func isDelete(r *http.Request) bool { return r.Method == http.MethodDelete }
