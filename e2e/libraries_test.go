package e2e

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"testing"
)

// aside matches the packages of the libraries that only tests import, and the commands.
var aside = regexp.MustCompile(`^shared/az(q|store)/(azurite|azuritetest|inject|azqtest|histories|conformance|cmd)/`)

// mostLines bounds a library: who takes it has to be able to read it.
var mostLines = map[string]int{"shared/azq": 4320, "shared/azstore": 3900}

// Everything that a library exports has a comment, but the usual methods of errors and texts, and a library stays small.
func TestArchitectureLibrariesAreDocumented(t *testing.T) {
	t.Parallel()
	names := 0
	for _, library := range []string{"shared/azstore", "shared/azq"} {
		lines := 0
		eachSource(t, []string{library}, func(path string, file *ast.File, at func(token.Pos) token.Position) {
			if !aside.MatchString(path) {
				lines += at(file.FileEnd).Line
			}
			for _, decl := range file.Decls {
				eachExported(decl, func(name *ast.Ident, documented bool) {
					names++
					if !documented {
						t.Errorf("%s: %s has no comment", at(name.Pos()), name.Name)
					}
				})
			}
		})
		if most := mostLines[library]; most > 0 && lines > most {
			t.Errorf("%s has %d lines, at most %d", library, lines, most)
		}
		t.Logf("%s: %d lines", library, lines)
	}
	if names < 300 {
		t.Errorf("only %d names looked at", names)
	}
}

// eachExported calls look for every exported name of a declaration. Names in a group share
// its comment.
func eachExported(decl ast.Decl, look func(name *ast.Ident, documented bool)) {
	exported := func(name *ast.Ident, comments ...*ast.CommentGroup) {
		documented := false
		for _, comment := range comments {
			documented = documented || comment != nil
		}
		if name.IsExported() {
			look(name, documented)
		}
	}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		usual := slices.Contains([]string{"Error", "Unwrap", "String"}, decl.Name.Name)
		if receiver := receiverOf(decl); receiver == nil || receiver.IsExported() && !usual {
			exported(decl.Name, decl.Doc)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				exported(spec.Name, spec.Doc, decl.Doc)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					exported(name, spec.Doc, spec.Comment, decl.Doc)
				}
			}
		}
	}
}

// receiverOf is the type that a method belongs to, or nil.
func receiverOf(f *ast.FuncDecl) (name *ast.Ident) {
	if f.Recv == nil {
		return nil
	}
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == nil {
			name = id
		}
		return name == nil
	})
	return name
}
