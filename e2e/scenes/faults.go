package scenes

import (
	"net/http"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/testkit/inject"
)

// onTheWay lets choose decide what becomes of each request of an actor.
func onTheWay(choose func(*http.Request) inject.Fault) Option {
	return func(cfg *azstorage.Config) { cfg.Transport = &inject.Transport{Choose: choose} }
}

// retrying gives an actor a retry strategy of its own.
func retrying(r azstorage.Retry) Option {
	return func(cfg *azstorage.Config) { cfg.Retry = r }
}

func isPut(r *http.Request) bool    { return r.Method == http.MethodPut }
func isPost(r *http.Request) bool   { return r.Method == http.MethodPost }
func isDelete(r *http.Request) bool { return r.Method == http.MethodDelete }
