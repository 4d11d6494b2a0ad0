// Command webrole answers browsers and API clients: it takes requests for work
// and turns them into rows and queue messages, and it serves what workers made.
// Start as many as there are users for: they share nothing but the storage
// account (paper rows Q1 and Q2).
//
// Next: webrole/internal/httpapi, the routes.
package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/blobstore"
	"github.com/cutroom/cutroom/shared/azstore/settings"
	"github.com/cutroom/cutroom/shared/azstore/tablestore"
	"github.com/cutroom/cutroom/shared/catalog"
	"github.com/cutroom/cutroom/shared/early"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/previews"
	"github.com/cutroom/cutroom/shared/process"
	"github.com/cutroom/cutroom/shared/provision"
	"github.com/cutroom/cutroom/shared/tracing"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/board"
	"github.com/cutroom/cutroom/webrole/internal/feature/captions"
	"github.com/cutroom/cutroom/webrole/internal/feature/clips"
	"github.com/cutroom/cutroom/webrole/internal/feature/finishclips"
	"github.com/cutroom/cutroom/webrole/internal/feature/journey"
	"github.com/cutroom/cutroom/webrole/internal/feature/keys"
	"github.com/cutroom/cutroom/webrole/internal/feature/lab"
	"github.com/cutroom/cutroom/webrole/internal/feature/learn"
	"github.com/cutroom/cutroom/webrole/internal/feature/quotas"
	"github.com/cutroom/cutroom/webrole/internal/feature/races"
	"github.com/cutroom/cutroom/webrole/internal/feature/search"
	"github.com/cutroom/cutroom/webrole/internal/feature/seek"
	"github.com/cutroom/cutroom/webrole/internal/feature/signin"
	"github.com/cutroom/cutroom/webrole/internal/feature/trail"
	"github.com/cutroom/cutroom/webrole/internal/feature/viewcount"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/page"
	"github.com/cutroom/cutroom/webrole/internal/playback"
	"github.com/cutroom/cutroom/webrole/internal/upload"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// optional are the features that have settings.
var optional = []func(*settings.Reader) web.Optional{
	board.Read,
	lab.Read,
	quotas.Read,
	signin.Read,
}

func main() {
	run := run
	run = tracing.Traced("webrole", "", run)
	process.Main("webrole", "WEBROLE_ADMIN_ADDR", defaultAdminAddr, run)
}

// run is main without the process: it serves until ctx ends, then lets requests
// under way finish and returns.
func run(ctx context.Context, getenv func(string) string) error {
	cfg, err := loadConfig(getenv)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	slog.InfoContext(ctx, "configuration", "config", cfg)
	role, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer role.account.CloseIdle()
	return role.serve(ctx)
}

func open(ctx context.Context, cfg config) (*role, error) {
	measured := newMetrics()
	measured.storage.Configure(&cfg.Storage)
	account, err := azstore.Open(cfg.Storage)
	if err != nil {
		return nil, err
	}
	queues := azq.Open(account, azq.Options{Queues: cfg.Queues})
	blobs := blobstore.New(account)
	videos := videostore.New(account, queues)
	videos.Observer = videostore.Observer{Subject: measured.changed}
	register := workers.New(account)
	previews.Open(videos)
	uploads := upload.New(account, blobs, videos, cfg.UploadMemory)
	uploads.Arrived = early.New(videos, blobs).Arrived
	core := httpapi.New(httpapi.Parts{
		Videos: videos, Blobs: blobs, Uploads: uploads, Catalog: catalog.New(account),
		Workers: register, Queues: queues, Links: cfg.Links, Unreadable: tablestore.OpenUnreadable(account),
	})
	core.Features = []web.Feature{
		core.Feature(),
		core.Operations(),
		search.New(account, core),
		viewcount.New(account),
		journey.New(core, cfg.Prices),
		seek.New(core),
		clips.New(core),
		captions.New(core),
		races.New(account, core),
		finishclips.New(account, core),
		keys.New(account),
		trail.New(account),
		learn.New(cfg.Prices),
	}
	parts := web.Parts{Account: account, Queues: queues, Workers: register, Videos: videos, Local: cfg.local(), Token: cfg.Token != "", Ops: cfg.PublicOps}
	for _, f := range cfg.optional {
		core.Features = append(core.Features, f.New(parts))
	}
	all := web.Sum(core.Features)
	if err := provision.Await(ctx, account, queues, all.Tables, cfg.AdminAddr); err != nil {
		return nil, err
	}
	pages, err := page.New(page.Options{Ops: cfg.PublicOps, Open: cfg.Token == ""}, core.Features)
	if err != nil {
		return nil, err
	}
	r := &role{
		cfg: cfg, account: account, features: core.Features, pages: pages, playback: playback.New(videos, blobs, core.Features),
		ready: &readiness{probe: videos.Exists}, programs: access.Open{}, videos: videos, measured: measured,
	}
	if cfg.Token != "" {
		r.programs = access.NewCredentials(cfg.Token, all.Keys, cfg.Anonymous)
	}
	return r, r.listen(ctx)
}
