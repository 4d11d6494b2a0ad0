package main

import "strings"

// wanted says what each route is for, in the words of those who may: "free" (also
// without credentials), "viewers", "seers" of the video (viewers, but of a private one
// its owner), "clippers" (seers who may upload), "owners" of the video, "uploaders",
// "operators". It repeats the rules of package access on purpose: a rule that a person
// changes by mistake is found here.
const wanted = `
free GET /livez
free GET /readyz
viewers GET /
viewers GET /upload
viewers GET /watch/:id
viewers GET /embed/:id
viewers GET /static/*file
viewers HEAD /static/*file
seers GET /v/:id/*path
seers HEAD /v/:id/*path
viewers GET /api/v1/videos
uploaders POST /api/v1/videos
seers GET /api/v1/videos/:id
owners PATCH /api/v1/videos/:id
owners DELETE /api/v1/videos/:id
owners PUT /api/v1/videos/:id/content
owners GET /api/v1/videos/:id/upload
owners POST /api/v1/videos/:id/upload
owners POST /api/v1/videos/:id/upload/complete
owners POST /api/v1/videos/:id/retry
owners POST /api/v1/videos/:id/cancel
owners POST /api/v1/videos/:id/reprocess
seers GET /api/v1/videos/:id/steps
operators GET /api/v1/ops/queues
operators GET /api/v1/ops/queues/:queue/messages
operators POST /api/v1/ops/queues/:queue/clear
operators POST /api/v1/ops/queues/:queue/pause
operators POST /api/v1/ops/queues/:queue/resume
operators GET /api/v1/ops/poison
operators POST /api/v1/ops/poison/:poisonId/redrive
operators GET /api/v1/ops/unreadable
operators DELETE /api/v1/ops/unreadable/:rowId
operators GET /api/v1/ops/workers
operators GET /metrics
operators GET /debug/pprof/*name
`

// wantedRoutes is for whom each route is, by method and path.
func wantedRoutes() map[string]string {
	classes := map[string]string{}
	all := wanted
	for _, p := range parts {
		all += p.routes
	}
	for line := range strings.Lines(strings.TrimSpace(all)) {
		class, route, _ := strings.Cut(strings.TrimSpace(line), " ")
		classes[route] = class
	}
	return classes
}
