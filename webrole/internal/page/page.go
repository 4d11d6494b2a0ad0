// Package page serves the pages and their scripts, embedded in the binary. The
// pages hold no data but one for browsers without script: they ask the API for it.
package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzhttp"

	"github.com/cutroom/cutroom/docs"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
	sources "github.com/cutroom/cutroom/webrole/web"
)

// Options are what pages show according to the configuration.
type Options struct {
	Ops  bool // operations are here, and the board has something to show
	Open bool // no sign-in
}

// Pages is safe for concurrent use.
type Pages struct {
	Options
	pages map[string]*template.Template

	features []web.Feature
	shows    map[string]any // by features
}

// New reads the pages, and has those of features.
func New(o Options, features []web.Feature) (*Pages, error) {
	p := &Pages{Options: o, pages: map[string]*template.Template{}, features: features, shows: map[string]any{}}
	functions := template.FuncMap{"media": media}
	for _, f := range features {
		maps.Copy(p.shows, f.Shows)
		maps.Copy(functions, f.Functions)
	}
	parts, _ := fs.Glob(sources.Files, "templates/parts/*.html") // of features, of which there may be none
	files, err := fs.Glob(sources.Files, "templates/*.html")
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		p.pages[name], err = template.New(name).Funcs(functions).ParseFS(sources.Files, slices.Concat(parts, []string{"templates/layout.html", file})...)
		if err != nil {
			return nil, fmt.Errorf("read page %s: %w", name, err)
		}
	}
	return p, err
}

// Register adds the pages' routes, and those of features.
func (p *Pages) Register(r gin.IRouter) {
	show := func(path, template string, read func(*gin.Context) (any, error), before ...gin.HandlerFunc) {
		r.GET(path, append(before, func(c *gin.Context) { p.show(c, template, read) })...)
	}
	for _, f := range p.features {
		if f.Pages != nil {
			f.Pages(r, show)
		}
	}
	searches := func(c *gin.Context) (any, error) { return c.Request.URL.RawQuery != "", nil }
	show("/", "home", searches)
	show("/upload", "upload", web.Nothing)
	show("/watch/:id", "watch", checkID)
	show("/embed/:id", "embed", checkID, framed)
	files := gin.WrapH(gzhttp.GzipHandler(http.HandlerFunc(static)))
	r.GET("/static/*file", files)
	r.HEAD("/static/*file", files)
}

func checkID(c *gin.Context) (any, error) {
	_, err := engine.ParseID(c.Param("id"))
	return nil, err
}

// framed lets other sites show a page in a frame. It has nothing to click on that
// changes anything, so it cannot be used for clickjacking.
func framed(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), "frame-ancestors 'none'", "frame-ancestors *", 1))
	h.Del("X-Frame-Options")
}

// ShowProblems makes problems pages for browsers that were sent to an address by a person.
// Programs, and the scripts of our pages, get JSON.
func (p *Pages) ShowProblems(c *gin.Context) {
	r := c.Request
	forScripts := slices.ContainsFunc([]string{"/api/", "/v/", "/static/"}, func(s string) bool { return strings.HasPrefix(r.URL.Path, s) })
	if !forScripts && strings.Contains(r.Header.Get("Accept"), "text/html") {
		c.Request = r.WithContext(problem.WithPage(r.Context(), p.trouble))
	}
}

func (p *Pages) trouble(w http.ResponseWriter, r *http.Request, shown api.Problem) bool {
	html, err := p.draw(r.Context(), "trouble", "", shown)
	if err != nil {
		return false
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(shown.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(html) // the client is gone; nothing to do
	}
	return true
}

func (p *Pages) show(c *gin.Context, name string, read func(*gin.Context) (any, error)) {
	data, err := read(c)
	var html []byte
	if err == nil {
		html, err = p.draw(c.Request.Context(), name, c.Param("id")+c.Param("scene"), data)
	}
	if err != nil {
		problem.Abort(c, err)
		return
	}
	c.Header("Cache-Control", "no-cache")
	c.Data(http.StatusOK, "text/html; charset=utf-8", html)
}

func (p *Pages) draw(ctx context.Context, name, id string, data any) ([]byte, error) {
	caller := access.IdentityOf(ctx)
	var html bytes.Buffer
	shown := map[string]any{
		"Name": name, "ID": id, "Data": data, "Ops": p.Ops, "Open": p.Open,
		"SignsIn": caller.SignsIn, "SignedIn": caller.SignedIn, "Owns": caller.Owner != "", "Operates": access.May(caller, access.Operate, video.Video{}),
	}
	maps.Copy(shown, p.shows)
	if err := p.pages[name].ExecuteTemplate(&html, "layout", shown); err != nil {
		return nil, fmt.Errorf("draw page %s: %w", name, err)
	}
	return html.Bytes(), nil
}

// read returns a file of static/. The drawings of the handbook are below it, too.
func read(name string) ([]byte, error) {
	if drawing, is := strings.CutPrefix(name, "static/patterns/"); is {
		return fs.ReadFile(docs.Files, "patterns/"+drawing)
	}
	return fs.ReadFile(sources.Files, name)
}

// static serves a file with the hash of its content as ETag: a new version of the role is
// seen at once. It is weak, because all encodings have it.
func static(w http.ResponseWriter, r *http.Request) {
	name := path.Clean(r.URL.Path)[1:]
	content, err := read(name)
	if err != nil || !strings.HasPrefix(name, "static/") {
		problem.Write(w, r, problem.New(problem.NotFound, "There is nothing at this address."))
		return
	}
	sum := sha256.Sum256(content)
	w.Header().Set("ETag", `W/"`+hex.EncodeToString(sum[:8])+`"`)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", cmp.Or(contentTypes[path.Ext(name)], "application/octet-stream"))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// contentTypes are not asked of the host's tables, which differ.
var contentTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8", ".csv": "text/csv; charset=utf-8",
}

// media gives the page for uploads the lists by which files are judged.
func media() map[string]any {
	kinds, _ := json.Marshal(video.OtherKinds) // names and patterns
	accept := []string{"video/*"}
	for _, c := range video.Containers {
		accept = slices.Concat(accept, c.Types, c.Suffixes)
	}
	return map[string]any{
		"Accept": strings.Join(accept, ","), "Containers": video.ContainerNames(), "Kinds": string(kinds), "Head": video.HeadBytes,
	}
}
