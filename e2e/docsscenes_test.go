package e2e

import (
	"strings"
	"testing"

	"github.com/cutroom/cutroom/e2e/handbook"
	"github.com/cutroom/cutroom/shared/scene"
)

// A scene is named on the page that it belongs to, with the command that plays it.
func TestDocsScenesAreOnTheirPages(t *testing.T) {
	t.Parallel()
	pages := map[string]handbook.Page{}
	for _, p := range handbookPages(t) {
		pages[p.Path()] = p
	}
	for _, s := range scene.All() {
		if see, _ := pages["docs/"+s.Page].Section("See it"); !strings.Contains(see, "`make scene NAME="+s.Name+"`") {
			t.Errorf("section \"See it\" of docs/%s does not name `make scene NAME=%s`", s.Page, s.Name)
		}
	}
}
