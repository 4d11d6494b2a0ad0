// Package page serves the pages and their scripts, embedded in the binary. The
// pages hold no data: they ask the API for it.
package page

import (
	"bytes"
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
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/web"
)

// Pages is safe for concurrent use.
type Pages struct {
	files fs.FS
	live  bool // files are read from disk and parsed at every request
	pages map[string]*template.Template
}

// The pages: name and title. A page's script has its name.
var titles = map[string]string{"home": "Videos", "upload": "Upload", "watch": "Watch", "board": "Queues"}

// New reads the embedded pages, or those under dir, which are then read again
// for every request so that they can be edited while the role runs.
func New(dir string) (*Pages, error) {
	p := &Pages{files: web.Files, pages: map[string]*template.Template{}}
	if dir != "" {
		p.files, p.live = os.DirFS(dir), true
	}
	for name := range titles {
		t, err := p.parse(name)
		if err != nil {
			return nil, err
		}
		p.pages[name] = t
	}
	return p, nil
}

func (p *Pages) parse(name string) (*template.Template, error) {
	t, err := template.ParseFS(p.files, "templates/layout.html", "templates/"+name+".html")
	if err != nil {
		return nil, fmt.Errorf("read page %s: %w", name, err)
	}
	return t, nil
}

// Register adds the pages' routes.
func (p *Pages) Register(r gin.IRoutes) {
	show := func(name string) gin.HandlerFunc {
		return func(c *gin.Context) { p.show(c, name, "") }
	}
	r.GET("/", show("home"))
	r.GET("/upload", show("upload"))
	r.GET("/board", show("board"))
	r.GET("/watch/:id", func(c *gin.Context) {
		id, err := video.ParseID(c.Param("id"))
		if err != nil {
			problem.Write(c.Writer, c.Request, err)
			return
		}
		p.show(c, "watch", string(id))
	})
	r.GET("/static/*file", p.static)
	r.HEAD("/static/*file", p.static)
}

func (p *Pages) show(c *gin.Context, name, id string) {
	t := p.pages[name]
	if p.live {
		var err error
		if t, err = p.parse(name); err != nil {
			problem.Write(c.Writer, c.Request, err)
			return
		}
	}
	var html bytes.Buffer
	if err := t.ExecuteTemplate(&html, "layout", map[string]string{"Name": name, "Title": titles[name], "ID": id}); err != nil {
		problem.Write(c.Writer, c.Request, fmt.Errorf("draw page %s: %w", name, err))
		return
	}
	c.Header("Cache-Control", "no-cache")
	c.Data(http.StatusOK, "text/html; charset=utf-8", html.Bytes())
}

// static serves a file with the hash of its content as ETag: a new version of
// the role is seen at once, and nothing is sent twice.
func (p *Pages) static(c *gin.Context) {
	name := path.Join("static", path.Clean("/"+c.Param("file")))
	content, err := fs.ReadFile(p.files, name)
	if err != nil {
		var broken *fs.PathError
		if errors.As(err, &broken) {
			err = problem.New(http.StatusNotFound, problem.NotFound, "There is nothing at this address.")
		}
		problem.Write(c.Writer, c.Request, err)
		return
	}
	sum := sha256.Sum256(content)
	h := c.Writer.Header()
	h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", contentType(name))
	http.ServeContent(c.Writer, c.Request, "", time.Time{}, bytes.NewReader(content))
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
