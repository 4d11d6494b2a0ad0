package page

import (
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/scene"
	"github.com/cutroom/cutroom/webrole/internal/handbook"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

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
	for _, s := range scene.All() {
		if patternOf(s) == "/patterns/"+one.Name {
			one.Scenes = append(one.Scenes, s)
		}
	}
	return one, nil
}
