// Package learn is the part of the pages that teaches: the path, the scenes, the calculators, and
// the handbook of patterns and papers.
package learn

import (
	"html/template"
	"slices"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/docs"
	"github.com/cutroom/cutroom/shared/price"
	"github.com/cutroom/cutroom/shared/scene"
	"github.com/cutroom/cutroom/webrole/internal/access"
	"github.com/cutroom/cutroom/webrole/internal/calculator"
	"github.com/cutroom/cutroom/webrole/internal/handbook"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/web"
	sources "github.com/cutroom/cutroom/webrole/web"
)

type learn struct {
	handbook func() (*handbook.Handbook, error) // rendered at the first call
	prices   price.Table
}

// New returns the pages. The calculators begin with the prices.
func New(prices price.Table) web.Feature {
	read := func() (*handbook.Handbook, error) { return handbook.Read(docs.Files, sources.Files) }
	l := &learn{sync.OnceValues(read), prices}
	return web.Feature{
		Pages: l.register,
		Functions: template.FuncMap{
			"scenes": scene.All, "scenesOf": scene.ScenesOf, "patternOf": patternOf, "nextScene": nextScene,
		},
		Rules: access.Rules{
			"GET /learn":             access.Look,
			"GET /patterns/:page":    access.Look,
			"GET /learn/:scene":      access.Look,
			"GET /learn/calculators": access.Look,
			"GET /learn/path/:stop":  access.Look,
			"POST /learn/path/:stop": access.Look, // changes a cookie of the sender
		},
	}
}

func (l *learn) register(r gin.IRouter, show web.Show) {
	readPath := func(c *gin.Context) (any, error) { return l.readPath(c) }
	show("/learn", "learn", readPath)
	show("/learn/path/:stop", "stop", readPath)
	r.POST("/learn/path/:stop", l.answer)
	show("/learn/calculators", "calculators", func(c *gin.Context) (any, error) {
		return calculator.All(c.Request.URL.Query(), l.prices)
	})
	show("/learn/:scene", "scene", readScene)
	show("/patterns/:page", "pattern", l.readPattern)
}

// readScene returns what is said about a scene, which its page plays where there is a lab.
func readScene(c *gin.Context) (any, error) {
	sc, found := scene.Find(c.Param("scene"))
	if !found {
		return nil, problem.New(problem.NotFound, "There is no scene of this name.")
	}
	return sc, nil
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

func (l *learn) readPattern(c *gin.Context) (any, error) {
	h, err := l.handbook()
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
