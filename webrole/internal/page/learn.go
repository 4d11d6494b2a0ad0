package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"net/http"
	"regexp"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/scene"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// learnMap is what /learn shows beside the scenes. Package e2e/handbook makes it, and
// the fragments of the patterns' pages, from docs: `go generate ./e2e`.
type learnMap struct {
	Papers []struct {
		Title string `json:"title"`
		Rows  []struct {
			ID       string        `json:"id"`
			Sentence template.HTML `json:"sentence"`
			Page     template.HTML `json:"page"`
			Code     template.HTML `json:"code"`
			Test     template.HTML `json:"test"`
			See      template.HTML `json:"see"`
		} `json:"rows"`
	} `json:"papers"`
	Patterns []struct {
		Title    string `json:"title"`
		Patterns []struct {
			Name  string `json:"name"`
			Title string `json:"title"`
			Rows  string `json:"rows"`
		} `json:"patterns"`
	} `json:"patterns"`
}

// Scenes are all scenes, in the order in which they are best watched.
func (learnMap) Scenes() []scene.Scene { return scene.All() }

// ScenesOf are the scenes that show a row of the papers.
func (learnMap) ScenesOf(row string) []scene.Scene { return scene.OfRow(row) }

// titleOf is the title of a pattern's page, and whether there is such a page.
func (m learnMap) titleOf(name string) (string, bool) {
	for _, group := range m.Patterns {
		for _, p := range group.Patterns {
			if p.Name == name {
				return p.Title, true
			}
		}
	}
	return "", false
}

// patternOf is the address of the pattern's page that belongs to a scene.
func patternOf(s scene.Scene) string { return "/" + strings.TrimSuffix(s.Page, ".md") }

// nextScene is the scene that is best watched after s: nil after the last.
func nextScene(s scene.Scene) *scene.Scene {
	all := scene.All()
	for i := range all[:len(all)-1] {
		if all[i].Name == s.Name {
			return &all[i+1]
		}
	}
	return nil
}

// pattern is the page of a pattern.
type pattern struct {
	Title        string
	Body         template.HTML
	Parts        []link        // its headings
	Before, Next *link         // the patterns beside it; nil at the ends
	Plays        []scene.Scene // that show it
}

// link leads to a place: a page, or a part of this one.
type link struct{ To, Title string }

var heading = regexp.MustCompile(`<h2 id="([^"]+)">([^<]+)</h2>`)

// partsOf are the headings of a page.
func partsOf(body []byte) (parts []link) {
	for _, m := range heading.FindAllStringSubmatch(string(body), -1) {
		parts = append(parts, link{"#" + m[1], html.UnescapeString(m[2])})
	}
	return parts
}

// beside are the pages before and after a pattern's, in the order of the map.
func (m learnMap) beside(name string) (before, next *link) {
	var all []link
	at := -1
	for _, group := range m.Patterns {
		for _, p := range group.Patterns {
			if p.Name == name {
				at = len(all)
			}
			all = append(all, link{"/patterns/" + p.Name, p.Title})
		}
	}
	if at > 0 {
		before = &all[at-1]
	}
	if at+1 < len(all) {
		next = &all[at+1]
	}
	return before, next
}

func (p *Pages) readMap() (learnMap, error) {
	var m learnMap
	text, err := fs.ReadFile(p.files, "learn/map.json")
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read the map of the papers: %w", err)
	}
	return m, nil
}

// showMap shows the scenes, the patterns, and the rows of the papers.
func (p *Pages) showMap(c *gin.Context) {
	m, err := p.readMap()
	if err != nil {
		problem.Write(c.Writer, c.Request, err)
		return
	}
	p.show(c, "learn", "", m)
}

// showPattern shows the page of a pattern.
func (p *Pages) showPattern(c *gin.Context) {
	m, err := p.readMap()
	if err != nil {
		problem.Write(c.Writer, c.Request, err)
		return
	}
	name := c.Param("page")
	title, found := m.titleOf(name)
	body, err := fs.ReadFile(p.files, "learn/"+name+".html")
	if !found || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		problem.Write(c.Writer, c.Request, problem.New(http.StatusNotFound, problem.NotFound, "There is no pattern of this name."))
		return
	}
	if err != nil {
		problem.Write(c.Writer, c.Request, fmt.Errorf("read the page of a pattern: %w", err))
		return
	}
	one := pattern{Title: title, Body: template.HTML(body), Parts: partsOf(body)} //nolint:gosec // ours: made from docs/patterns
	one.Before, one.Next = m.beside(name)
	for _, s := range scene.All() {
		if patternOf(s) == "/patterns/"+name {
			one.Plays = append(one.Plays, s)
		}
	}
	p.show(c, "pattern", "", one)
}
