// Package quotas reads what owners, and all together, may have, and tells clients what there is
// no room for. It has the page of one's own videos.
package quotas

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/azstore/settings"
	"github.com/cutroom/cutroom/shared/quotas"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

var exceeded = problem.Code{Name: "quota_exceeded", Status: http.StatusTooManyRequests}

// Read reads WEBROLE_CLIPS_PER_VIDEO, WEBROLE_CLIPS, WEBROLE_REPROCESSINGS: work that is open at
// once; and WEBROLE_QUOTA_*: what an owner may have.
func Read(env *settings.Reader) web.Optional {
	limits := limitsOf(env)
	return web.Optional{Settings: slog.Any("limits", limits), New: func(p web.Parts) web.Feature {
		ledger := quotas.Open(p.Account, p.Videos, limits)
		return web.Feature{
			Tables: []string{quotas.Table}, Problems: []problem.Answer{answer}, Owned: ledger.Owned,
			Pages: func(_ gin.IRouter, show web.Show) { show("/mine", "mine", web.Nothing) },
			Rules: access.Rules{"GET /mine": access.Look}, // whose they are the list of the API knows
		}
	}}
}

func limitsOf(env *settings.Reader) quotas.Limits {
	quotaOf := func(unset quotas.Quota) quotas.Quota {
		read := func(name string, unset int64, most int) int64 { return int64(env.Int(name, int(unset), 0, most)) }
		return quotas.Quota{
			StoredBytes: read("WEBROLE_QUOTA_STORED", unset.StoredBytes>>30, 1<<20) << 30,
			Waiting:     read("WEBROLE_QUOTA_WAITING", unset.Waiting, 1<<20),
			Minutes:     read("WEBROLE_QUOTA_MINUTES", unset.Minutes, 1<<20),
			Clips:       read("WEBROLE_QUOTA_CLIPS", unset.Clips, quotas.MaxOpen),
		}
	}
	return quotas.Limits{
		ClipsOfVideo:  env.Int("WEBROLE_CLIPS_PER_VIDEO", 8, 1, quotas.MaxOpen),
		Clips:         int64(env.Int("WEBROLE_CLIPS", 64, 1, quotas.MaxOpen)),
		Reprocessings: int64(env.Int("WEBROLE_REPROCESSINGS", 16, 1, quotas.MaxOpen)),
		Owner:         quotaOf(quotas.Quota{StoredBytes: 100 << 30, Waiting: 100, Minutes: 600, Clips: 16}),
		Local:         quotaOf(quotas.Quota{}), // the holder of the token, and requests over loopback
	}
}

// answer is 403 where only the owner can make room, and 429 where time will.
func answer(err error) *problem.Error {
	if errors.Is(err, quotas.ErrBusy) {
		return problem.New(problem.TooBusy, "As much of this waits to be made as is allowed. Nothing was asked for; try again later.").After(5)
	}
	q, is := errors.AsType[*quotas.Error](err)
	if !is {
		return nil
	}
	e := problem.New(exceeded, "The quota %s of %d is used up; %d are left. Nothing was done.", q.Name, q.Limit, q.Left).After(30)
	switch q.Name {
	case quotas.Stored:
		e.Code.Status, e.RetryAfter = http.StatusForbidden, 0
	case quotas.Minutes:
		now := time.Now().UTC()
		e.RetryAfter = int(now.Truncate(24*time.Hour).Add(24*time.Hour).Sub(now)/time.Second) + 1
	}
	e.Members = func(p *api.Problem) { p.Quota = q }
	return e
}
