// Package scene lists the scenes: short programs on real storage that show one row
// of the papers each, told step by step. It has what is said about a scene before it
// plays, so that the web role, which cannot play one, can still show that.
//
// The scenes themselves are in e2e/scenes. Next: e2e/scenes/doc.go.
package scene

import "slices"

// Scene is what is said about a scene before it plays.
type Scene struct {
	Name  string   // in addresses and on the command line, such as "stale-receipt"
	Title string   // one line for people
	Rows  []string // of the papers that it shows, such as "Q16c": see docs/papers.md
	Learn string   // what one knows afterwards: one or two sentences
	Page  string   // the pattern's page, below docs, such as "patterns/claim-check.md"
}

// All returns every scene, in the order in which they are best watched.
func All() []Scene { return slices.Clone(all) }

// Find returns the scene of that name.
func Find(name string) (Scene, bool) {
	i := slices.IndexFunc(all, func(s Scene) bool { return s.Name == name })
	if i < 0 {
		return Scene{}, false
	}
	return all[i], true
}

// OfRow returns the scenes that show a row of the papers, which may be none.
func OfRow(row string) []Scene {
	return slices.DeleteFunc(All(), func(s Scene) bool { return !slices.Contains(s.Rows, row) })
}
