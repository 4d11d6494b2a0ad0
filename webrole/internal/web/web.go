// Package web is what every part of the web role's API is made with: a Feature, and how
// requests are checked against the document and answered.
//
// Next: webrole/internal/httpapi, the part that is no feature.
package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"html/template"
	"log/slog"
	"maps"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/engine/workers"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// Base is where the API is mounted.
const Base = "/api/v1"

// PathOf is the address of a video in the API.
func PathOf(id engine.ID) string { return Base + "/videos/" + string(id) }

// Feature is a part of the web role that comes off with its folder and its line in main.
// Members may be missing.
type Feature struct {
	Routes    func(gin.IRouter, ErrorHandler)               // registers the handlers of its operations below Base
	Rules     access.Rules                                  // of its routes
	Problems  []problem.Answer                              // what clients are told of its errors
	Check     func(video.Video) error                       // refuses what a user says of a video
	Links     func(video.Video, *api.Links)                 // adds addresses of what it has of a video
	Pages     func(gin.IRouter, Show)                       // registers its pages, on the public listener alone
	Shows     map[string]any                                // values for the templates of all pages
	Functions template.FuncMap                              // for its own templates
	Metrics   func(prometheus.Registerer)                   // registers its collectors
	SignIn    func(next access.Authenticator) access.People // how people sign in, on the public listener
	Close     func()                                        // ends streams, which have no end of their own
	Tables    []string                                      // that it uses
	Record    access.Recorder                               // writes changes to the audit log
	Plays     map[string]Files                              // what it serves below /v/{id}/, by folder
	Extend    PlaylistEditor                                // adds to multivariant playlists
	Keys      access.Keyring                                // the API keys of programs
	Owned     Owned                                         // lists the videos of an owner
}

// Owned returns a page of an owner's videos, newest first, and the token of the next page.
type Owned func(ctx context.Context, owner string, limit int, token string) (ids []engine.ID, next string, err error)

// Files finds a file by its name in a folder of a video.
type Files func(ctx context.Context, v video.Video, name string) (File, error)

// File is a blob in container "media", or a text.
type File struct {
	Blob, Text, ContentType string
	Bytes                   int64 // of the blob
	Fixed                   bool  // its address never shows other bytes
}

// PlaylistEditor adds to the multivariant playlist of a video.
type PlaylistEditor func(ctx context.Context, id engine.ID, master string) (string, error)

// Optional is a feature with settings, which it reads before anything is opened.
type Optional struct {
	Settings slog.Attr // in force, without secrets, for the log
	New      func(Parts) Feature
}

// Parts are what such a feature is made of.
type Parts struct {
	Account *azstore.Account
	Queues  *azq.Client
	Workers *workers.Register
	Videos  *videostore.Store

	Local, Token, Ops bool // of the public listener: on loopback only, for who has a token, with operations
}

// Show adds a page, of what read returns.
type Show func(path, template string, read func(*gin.Context) (any, error), before ...gin.HandlerFunc)

// Nothing is read for a page without data.
func Nothing(*gin.Context) (any, error) { return nil, nil }

// ErrorHandler answers for a parameter that the generated code cannot read.
type ErrorHandler = func(*gin.Context, error, int)

// Sum adds up features for the router and for provision. Its rules include those of the routes
// that belong to no feature.
func Sum(features []Feature) (all Feature) {
	all.Rules = maps.Clone(access.Core)
	for _, f := range features {
		maps.Copy(all.Rules, f.Rules)
		all.Problems = append(all.Problems, f.Problems...)
		all.Tables = append(all.Tables, f.Tables...)
		if f.Record != nil {
			all.Record = f.Record
		}
		if f.Keys != nil {
			all.Keys = f.Keys
		}
	}
	return all
}

// Mount adds the routes of a feature that included selects.
func Mount(r gin.IRouter, f Feature, included func(path string) bool) {
	if f.Routes == nil {
		return
	}
	all := gin.New()
	f.Routes(all, func(c *gin.Context, err error, _ int) {
		if !problem.Known(c, err) {
			err = problem.New(problem.InvalidParameter, "A parameter cannot be read.").Because(err)
		}
		problem.Abort(c, err)
	})
	for _, route := range all.Routes() {
		if included(route.Path) {
			r.Handle(route.Method, route.Path, noStore, checkParameters, route.HandlerFunc)
		}
	}
}

// document is the API's, as it is in the binary.
var document = sync.OnceValue(func() *openapi3.T {
	doc, err := api.GetSpec()
	if err != nil {
		panic(err) // the generated code is broken
	}
	return doc
})

// noStore is what caches are told unless a handler tells them otherwise.
func noStore(c *gin.Context) { c.Header("Cache-Control", "no-store") }

// IsOps selects the operator's routes, which the public listener has only if WEBROLE_PUBLIC_OPS is on.
func IsOps(path string) bool { return strings.HasPrefix(path, Base+"/ops/") }

// NoFile says that a video has no such file.
func NoFile() error { return problem.New(problem.NotFound, "There is no such file.") }

// NoRoute answers for addresses that no route has.
func NoRoute(c *gin.Context) {
	problem.Abort(c, problem.New(problem.NotFound, "There is nothing at this address."))
}

// NoMethod answers for addresses that do not know the method.
func NoMethod(c *gin.Context) {
	problem.Abort(c, problem.New(problem.MethodNotAllowed, "This address does not know that method."))
}

// Handle answers with what do returns, or with the problem that its error stands for.
func Handle[T any](c *gin.Context, status int, do func(context.Context) (T, error)) {
	body, err := do(c.Request.Context())
	Reply(c, status, body, err)
}

// Reply answers with a body as JSON, if there is one, or with the problem that err stands for.
func Reply(c *gin.Context, status int, body any, err error) {
	if err != nil {
		problem.Abort(c, err)
		return
	}
	if body == nil {
		c.Status(status)
		c.Writer.WriteHeaderNow()
		return
	}
	c.JSON(status, body)
}

// List makes JSON's [] of a nil slice.
func List[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// The table service's ETag holds quotes and a time; ours is the same text in
// base64url between quotes, so that it is one opaque word in JSON and in headers.

// EncodeETag is a row's version as the API shows it.
func EncodeETag(storage string) string {
	return `"` + base64.RawURLEncoding.EncodeToString([]byte(storage)) + `"`
}

// DecodeIfMatch returns the storage ETag of an If-Match header, "" for "*" and for a header
// that is missing. The quotes may be missing, as people paste them. What cannot be one of
// ours matches no version: 412, like a stale one.
func DecodeIfMatch(header string) (string, error) {
	text := strings.TrimSpace(header)
	if header == "" || text == "*" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.Trim(strings.TrimPrefix(text, "W/"), `"`))
	if err != nil || len(raw) == 0 {
		return "", problem.New(problem.PreconditionFail, "If-Match is not a version of this.")
	}
	return string(raw), nil
}

// NeedIfMatch is DecodeIfMatch for an operation that must not overwrite what its client
// has not read.
func NeedIfMatch(header string) (string, error) {
	if header == "" {
		return "", problem.New(problem.PreconditionNeed, "Send the etag as If-Match.")
	}
	return DecodeIfMatch(header)
}

// HashOf is the SHA-256 of data, in hexadecimal.
func HashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Invisible refuses a member of a body for what people cannot see.
func Invisible(member string) error {
	return problem.New(problem.InvalidBody, "Member /%s: it is blank, or has characters that cannot be seen or that change how others are shown.", member)
}
