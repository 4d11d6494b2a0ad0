// Package page serves the pages and their scripts, embedded in the binary. The
// pages hold no data but one for browsers without script: they ask the API for it.
package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/docs"
	"github.com/cutroom/cutroom/shared/scene"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/handbook"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/web"
)

// Pages is safe for concurrent use.
type Pages struct {
	files fs.FS
	docs  fs.FS
	lab   bool // the board shows the lab
	plays bool // a scene's page plays it, for operators
	ops   bool // operations are here, and the board has something to show
	open  bool // no sign-in
	live  bool // files are read from disk and parsed at every request
	pages map[string]*template.Template

	assets map[string]asset // by name; none when live

	handbook func() (*handbook.Handbook, error) // rendered at the first call, or at each when live
}

// The pages: name and title. A page's script has its name.
var titles = map[string]string{"home": "Videos", "mine": "My videos", "upload": "Upload", "watch": "Watch", "embed": "Video", "race": "Find your finish", "board": "Board", "tables": "Board as tables", "scene": "Scene", "learn": "Learn", "pattern": "Pattern", "trouble": "Trouble"}

// New reads the embedded pages, or those under dir and in docs beside it, which are
// then read again for every request so that they can be edited while the role runs.
func New(dir string) (*Pages, error) {
	p := &Pages{files: web.Files, docs: docs.Files, pages: map[string]*template.Template{}, assets: map[string]asset{}}
	read := func() (*handbook.Handbook, error) { return handbook.Read(p.docs) }
	p.handbook = sync.OnceValues(read)
	if dir != "" {
		p.files, p.docs, p.live = os.DirFS(dir), os.DirFS(filepath.Join(dir, "../../docs")), true
		p.handbook = read
	}
	for name := range titles {
		t, err := p.parse(name)
		if err != nil {
			return nil, err
		}
		p.pages[name] = t
	}
	if p.live {
		return p, nil
	}
	return p, p.readAssets()
}

// ShowLab says what a lab may do here: break the stack, by buttons on the board, and
// play scenes, for operators. Call it before Register.
func (p *Pages) ShowLab(breaks, plays bool) { p.lab, p.plays = breaks, plays }

// SayOpen says on the page for uploads that there is no sign-in. Call it before Register.
func (p *Pages) SayOpen() { p.open = true }

func (p *Pages) parse(name string) (*template.Template, error) {
	t, err := template.New(name).Funcs(template.FuncMap{"patternOf": patternOf, "nextScene": nextScene, "media": media}).ParseFS(p.files, "templates/layout.html", "templates/lab.html", "templates/racefields.html", "templates/"+name+".html")
	if err != nil {
		return nil, fmt.Errorf("read page %s: %w", name, err)
	}
	return t, nil
}

// Register adds the pages' routes. What the board shows is for operators: with ops,
// a page has it as tables, for browsers without script; snapshot reads it. Without, the
// board says where it is.
func (p *Pages) Register(r gin.IRoutes, ops bool, snapshot func(context.Context) (api.BoardEvent, error)) {
	p.ops = ops
	show := func(name string) gin.HandlerFunc {
		return func(c *gin.Context) { p.show(c, name, "", nil) }
	}
	if ops {
		r.GET("/board/tables", func(c *gin.Context) {
			seen, err := snapshot(c.Request.Context())
			if err != nil {
				problem.Write(c.Writer, c.Request, err)
				return
			}
			p.show(c, "tables", "", &seen)
		})
	}
	r.GET("/", func(c *gin.Context) { p.show(c, "home", "", c.Request.URL.RawQuery != "") }) // whether something is searched for
	r.GET("/mine", show("mine"))
	r.GET("/upload", show("upload"))
	r.GET("/race", show("race"))
	r.GET("/board", show("board"))
	r.GET("/learn", p.showMap)
	r.GET("/learn/:scene", p.showScene)
	r.GET("/patterns/:page", p.showPattern)
	r.GET("/watch/:id", p.showVideo("watch"))
	r.GET("/embed/:id", framed, p.showVideo("embed"))
	r.GET("/static/*file", p.static)
	r.HEAD("/static/*file", p.static)
}

// showVideo shows a page about one video.
func (p *Pages) showVideo(name string) gin.HandlerFunc {
	return func(c *gin.Context) {
		id, err := video.ParseID(c.Param("id"))
		if err != nil {
			problem.Write(c.Writer, c.Request, err)
			return
		}
		p.show(c, name, string(id), nil)
	}
}

// showScene shows what is said about a scene and, where there is a lab, plays it.
func (p *Pages) showScene(c *gin.Context) {
	sc, found := scene.Find(c.Param("scene"))
	if !found {
		problem.Write(c.Writer, c.Request, problem.New(problem.NotFound, "There is no scene of this name."))
		return
	}
	p.show(c, "scene", sc.Name, sc)
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

func (p *Pages) trouble(w http.ResponseWriter, r *http.Request, what api.Problem) bool {
	html, err := p.draw(r.Context(), "trouble", "", what)
	if err != nil {
		return false
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(what.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(html) // the client is gone; nothing to do
	}
	return true
}

func (p *Pages) show(c *gin.Context, name, id string, data any) {
	html, err := p.draw(c.Request.Context(), name, id, data)
	if err != nil {
		problem.Write(c.Writer, c.Request, err)
		return
	}
	c.Header("Cache-Control", "no-cache")
	c.Data(http.StatusOK, "text/html; charset=utf-8", html)
}

// draw fills a page's template.
func (p *Pages) draw(ctx context.Context, name, id string, data any) ([]byte, error) {
	t := p.pages[name]
	if p.live {
		var err error
		if t, err = p.parse(name); err != nil {
			return nil, err
		}
	}
	title := titles[name]
	switch one := data.(type) {
	case scene.Scene:
		title = one.Title
	case patternPage:
		title = one.Title
	case api.Problem:
		title = one.Title
	}
	var html bytes.Buffer
	if err := t.ExecuteTemplate(&html, "layout", map[string]any{
		"Name": name, "Title": title, "ID": id, "Data": data, "Lab": p.lab, "Ops": p.ops, "Plays": p.plays, "Open": p.open,
		"SignsIn": access.SignsIn(ctx), "SignedIn": access.IdentityOf(ctx).SignedIn, "Owns": access.IdentityOf(ctx).Owner != "", "Operates": access.May(access.IdentityOf(ctx), access.Operate, video.Video{}),
	}); err != nil {
		return nil, fmt.Errorf("draw page %s: %w", name, err)
	}
	return html.Bytes(), nil
}

// asset is a file of static/ as it is sent.
type asset struct {
	content []byte
	packed  []byte // gzip of content; nil when that is not smaller
	etag    string
}

func (p *Pages) asset(name string) (asset, error) {
	if a, ok := p.assets[name]; ok {
		return a, nil
	}
	if !p.live {
		return asset{}, fs.ErrNotExist
	}
	content, err := p.read(name)
	if err != nil {
		return asset{}, err
	}
	return newAsset(content), nil
}

// read returns a file of static/. The drawings of the handbook are below it, too.
func (p *Pages) read(name string) ([]byte, error) {
	files := p.files
	if drawing, is := strings.CutPrefix(name, "static/patterns/"); is {
		files, name = p.docs, "patterns/"+drawing
	}
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return content, nil
}

// newAsset compresses what shrinks by compression. A write to a buffer cannot fail.
func newAsset(content []byte) asset {
	sum := sha256.Sum256(content)
	a := asset{content: content, etag: hex.EncodeToString(sum[:8])}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = w.Write(content)
	_ = w.Close()
	if packed.Len() < len(content) {
		a.packed = packed.Bytes()
	}
	return a
}

// readAssets reads all of static/, once: it is embedded and does not change.
func (p *Pages) readAssets() error {
	names, err := fs.Glob(p.docs, "patterns/*.svg")
	for i := range names {
		names[i] = "static/" + names[i]
	}
	err = errors.Join(err, fs.WalkDir(p.files, "static", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	for _, name := range names {
		content, readErr := p.read(name)
		err = errors.Join(err, readErr)
		p.assets[name] = newAsset(content)
	}
	return err
}

// static serves a file with the hash of its content as ETag: a new version of
// the role is seen at once, and nothing is sent twice. Each encoding has an ETag of
// its own (RFC 9110, 8.8.3.3).
func (p *Pages) static(c *gin.Context) {
	name := path.Join("static", path.Clean("/"+c.Param("file")))
	a, err := p.asset(name)
	if err != nil {
		var broken *fs.PathError
		if errors.As(err, &broken) || errors.Is(err, fs.ErrNotExist) {
			err = problem.New(problem.NotFound, "There is nothing at this address.")
		}
		problem.Write(c.Writer, c.Request, err)
		return
	}
	h := c.Writer.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", contentType(name))
	h.Set("Vary", "Accept-Encoding")
	content, etag := a.content, a.etag
	if a.packed != nil && c.GetHeader("Range") == "" && acceptsGzip(c.GetHeader("Accept-Encoding")) {
		content, etag = a.packed, a.etag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", `"`+etag+`"`)
	http.ServeContent(c.Writer, c.Request, "", time.Time{}, bytes.NewReader(content))
}

// acceptsGzip reads an Accept-Encoding header: gzip is named and not refused by q=0.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, weight, weighted := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
		return !weighted || err == nil && q > 0
	}
	return false
}

// contentType does not ask the host's tables, which differ.
func contentType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".txt":
		return "text/plain; charset=utf-8"
	default:
		if t := mime.TypeByExtension(ext); t != "" && !strings.HasPrefix(t, "text/html") {
			return t
		}
		return "application/octet-stream"
	}
}
