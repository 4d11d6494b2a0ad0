package access

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// TestUnknownAllowsTheLeast tries every rule with a value that this release does not know
// of each enumeration that an Identity or a video has: it allows what all known values
// allow, and nothing else.
func TestUnknownAllowsTheLeast(t *testing.T) {
	t.Parallel()
	known := constants(t, ".", "../../../shared/video", "../../../shared/engine")
	inputs := combinations(t, known)
	tried := map[string]int{}
	for _, in := range inputs {
		for do := Action(0); do <= Operate+1; do++ {
			if (do == 0 || do > Operate) && May(in.who, do, in.v) {
				t.Errorf("%+v may do the unknown action %d", in.who, do)
			}
			for i := range fields(&in) {
				name := fields(&in)[i].Type().Name()
				unknown := in
				fields(&unknown)[i].SetString("of a later release")
				if !May(unknown.who, do, unknown.v) {
					tried[name]++
					continue
				}
				for _, value := range known[name] {
					other := in
					fields(&other)[i].SetString(value)
					if !May(other.who, do, other.v) {
						t.Errorf("an unknown %s may do %d where %q may not: %+v, %+v", name, do, value, in.who, in.v)
					}
				}
			}
		}
	}
	for _, name := range []string{"Role", "State", "Visibility"} {
		if tried[name] == 0 {
			t.Errorf("an unknown %s is never refused", name)
		}
	}
	v := video.Video{Meta: engine.Meta{ID: engine.NewID(), State: engine.Ready}, Visibility: "of a later release"}
	if base := (Links{Keys: []jwt.VerificationKey{[]byte{1}}, Life: time.Hour}).Base(v); !strings.Contains(base, tokenMark) {
		t.Errorf("a video of unknown visibility plays without a token: %s", base)
	}
}

// input is what a rule is asked about.
type input struct {
	who Identity
	v   video.Video
}

// fields are the enumerations of an input: the fields whose type is a text with a name,
// but for the id.
func fields(in *input) (found []reflect.Value) {
	for _, whole := range []reflect.Value{reflect.ValueOf(&in.who).Elem(), reflect.ValueOf(&in.v).Elem(), reflect.ValueOf(&in.v.Meta).Elem()} {
		for i := range whole.NumField() {
			f := whole.Field(i)
			if f.Kind() == reflect.String && f.Type() != reflect.TypeFor[string]() && f.Type() != reflect.TypeFor[engine.ID]() {
				found = append(found, f)
			}
		}
	}
	return found
}

// combinations are all known values of all enumerations, for the owner, a stranger, and
// who shows a token.
func combinations(t *testing.T, known map[string][]string) []input {
	t.Helper()
	id := engine.NewID()
	all := []input{
		{Identity{Owner: "studio"}, video.Video{Meta: engine.Meta{ID: id, Owner: "studio"}}},
		{Identity{Owner: "studio"}, video.Video{Meta: engine.Meta{ID: id, Owner: "else"}}},
		{Identity{Plays: id}, video.Video{Meta: engine.Meta{ID: id, Owner: "else"}}},
	}
	for i := range fields(&all[0]) {
		name := fields(&all[0])[i].Type().Name()
		if len(known[name]) < 2 {
			t.Fatalf("the values of %s are not found", name)
		}
		var more []input
		for _, in := range all {
			for _, value := range known[name] {
				fields(&in)[i].SetString(value)
				more = append(more, in)
			}
		}
		all = more
	}
	return all
}

// constants returns the values of the constants of packages, by the name of their type.
func constants(t *testing.T, dirs ...string) map[string][]string {
	t.Helper()
	values := map[string][]string{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				spec, isValue := n.(*ast.ValueSpec)
				if !isValue || len(spec.Values) != 1 {
					return true
				}
				name, named := spec.Type.(*ast.Ident)
				text, literal := spec.Values[0].(*ast.BasicLit)
				if named && literal && text.Kind == token.STRING {
					if value, err := strconv.Unquote(text.Value); err == nil {
						values[name.Name] = append(values[name.Name], value)
					}
				}
				return true
			})
		}
	}
	return values
}
