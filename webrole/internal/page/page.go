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
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzhttp"

	"github.com/cutroom/cutroom/docs"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/scene"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/calculator"
	"github.com/cutroom/cutroom/webrole/internal/handbook"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
	sources "github.com/cutroom/cutroom/webrole/web"
)

// Options are what pages show according to the configuration.
type Options struct {
	// Dir has the pages' sources, and docs beside it, which are read again for every request
	// so that they can be edited while the role runs; empty: the embedded ones.
	Dir    string
	Ops    bool // operations are here, and the board has something to show
	Open   bool // no sign-in
	Prices price.Table
}

// Pages is safe for concurrent use.
type Pages struct {
	Options
	files fs.FS
	docs  fs.FS
	pages map[string]*template.Template

	shows    map[string]any                     // by features
	handbook func() (*handbook.Handbook, error) // rendered at the first call, or at each with Dir
}

// New reads the pages.
func New(o Options) (*Pages, error) {
	p := &Pages{Options: o, files: sources.Files, docs: docs.Files, pages: map[string]*template.Template{}, shows: map[string]any{}}
	read := func() (*handbook.Handbook, error) { return handbook.Read(p.docs, p.files) }
	p.handbook = sync.OnceValues(read)
	if o.Dir != "" {
		p.files, p.docs, p.handbook = os.DirFS(o.Dir), os.DirFS(filepath.Join(o.Dir, "../../docs")), read
	}
	files, err := fs.Glob(p.files, "templates/*.html")
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if p.pages[name], err = p.parse(name); err != nil {
			return nil, err
		}
	}
	return p, err
}

func (p *Pages) parse(name string) (*template.Template, error) {
	functions := template.FuncMap{
		"scenes": scene.All, "scenesOf": scene.ScenesOf, "patternOf": patternOf, "nextScene": nextScene, "media": media,
	}
	t, err := template.New(name).Funcs(functions).ParseFS(p.files, "templates/layout.html", "templates/lab.html", "templates/racefields.html", "templates/"+name+".html")
	if err != nil {
		return nil, fmt.Errorf("read page %s: %w", name, err)
	}
	return t, nil
}

// shower is where features add pages.
type shower struct {
	gin.IRouter
	pages *Pages
}

// Show implements web.Pages.
func (s shower) Show(path, template string, read func(*gin.Context) (any, error), before ...gin.HandlerFunc) {
	s.GET(path, append(before, func(c *gin.Context) { s.pages.show(c, template, read) })...)
}

// Register adds the pages' routes, and those of features.
func (p *Pages) Register(r gin.IRouter, features []web.Feature) {
	all := shower{r, p}
	for _, f := range features {
		maps.Copy(p.shows, f.Shows)
		if f.Pages != nil {
			f.Pages(all)
		}
	}
	show, nothing := all.Show, web.Nothing
	searches := func(c *gin.Context) (any, error) { return c.Request.URL.RawQuery != "", nil }
	show("/", "home", searches)
	show("/mine", "mine", nothing)
	show("/upload", "upload", nothing)
	show("/race", "race", nothing)
	readPath := func(c *gin.Context) (any, error) { return p.readPath(c) }
	show("/learn", "learn", readPath)
	show("/learn/path/:stop", "stop", readPath)
	r.POST("/learn/path/:stop", p.answer)
	show("/learn/calculators", "calculators", func(c *gin.Context) (any, error) {
		return calculator.All(c.Request.URL.Query(), p.Prices)
	})
	show("/learn/:scene", "scene", readScene)
	show("/patterns/:page", "pattern", p.readPattern)
	show("/watch/:id", "watch", checkID)
	show("/embed/:id", "embed", checkID, framed)
	static := gin.WrapH(gzhttp.GzipHandler(http.HandlerFunc(p.static)))
	r.GET("/static/*file", static)
	r.HEAD("/static/*file", static)
}

func checkID(c *gin.Context) (any, error) {
	_, err := engine.ParseID(c.Param("id"))
	return nil, err
}

// readScene returns what is said about a scene, which its page plays where there is a lab.
func readScene(c *gin.Context) (any, error) {
	sc, found := scene.Find(c.Param("scene"))
	if !found {
		return nil, problem.New(problem.NotFound, "There is no scene of this name.")
	}
	return sc, nil
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
	t := p.pages[name]
	if p.Dir != "" {
		var err error
		if t, err = p.parse(name); err != nil {
			return nil, err
		}
	}
	caller := access.IdentityOf(ctx)
	var html bytes.Buffer
	shown := map[string]any{
		"Name": name, "ID": id, "Data": data, "Ops": p.Ops, "Open": p.Open,
		"SignsIn": caller.SignsIn, "SignedIn": caller.SignedIn, "Owns": caller.Owner != "", "Operates": access.May(caller, access.Operate, video.Video{}),
	}
	maps.Copy(shown, p.shows)
	if err := t.ExecuteTemplate(&html, "layout", shown); err != nil {
		return nil, fmt.Errorf("draw page %s: %w", name, err)
	}
	return html.Bytes(), nil
}

// read returns a file of static/. The drawings of the handbook are below it, too.
func (p *Pages) read(name string) ([]byte, error) {
	if drawing, is := strings.CutPrefix(name, "static/patterns/"); is {
		return fs.ReadFile(p.docs, "patterns/"+drawing)
	}
	return fs.ReadFile(p.files, name)
}

// static serves a file with the hash of its content as ETag: a new version of the role is
// seen at once. It is weak, because all encodings have it.
func (p *Pages) static(w http.ResponseWriter, r *http.Request) {
	name := path.Clean(r.URL.Path)[1:]
	content, err := p.read(name)
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
func media() (map[string]any, error) {
	kinds, err := json.Marshal(video.OtherKinds)
	if err != nil {
		return nil, fmt.Errorf("list kinds of files: %w", err)
	}
	accept := []string{"video/*"}
	for _, c := range video.Containers {
		accept = slices.Concat(accept, c.Types, c.Suffixes)
	}
	return map[string]any{
		"Accept": strings.Join(accept, ","), "Containers": video.ContainerNames(), "Kinds": string(kinds), "Head": video.HeadBytes,
	}, nil
}

type patternPage struct {
	*handbook.Pattern
	Before, Next *handbook.Pattern // in the list; nil at its ends
	Scenes       []scene.Scene     // that show it
}

// patternOf is the address of the pattern's page that belongs to a scene.
func patternOf(s scene.Scene) string { return "/" + strings.TrimSuffix(s.Page, ".md") }

// nextScene is the scene that is best watched after s: nil after the last.
func nextScene(s scene.Scene) *scene.Scene {
	all := scene.All()
	i := 1 + slices.IndexFunc(all, func(one scene.Scene) bool { return one.Name == s.Name })
	if i == len(all) {
		return nil
	}
	return &all[i]
}

func (p *Pages) readPattern(c *gin.Context) (any, error) {
	h, err := p.handbook()
	if err != nil {
		return nil, err
	}
	one := patternPage{}
	one.Before, one.Pattern, one.Next = h.Find(c.Param("page"))
	if one.Pattern == nil {
		return nil, problem.New(problem.NotFound, "There is no pattern of this name.")
	}
	one.Scenes = slices.DeleteFunc(scene.All(), func(s scene.Scene) bool { return patternOf(s) != "/patterns/"+one.Name })
	return one, nil
}
