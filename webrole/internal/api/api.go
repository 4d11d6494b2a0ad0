// Package api is generated from docs/openapi.yaml: the types of the HTTP API and the document
// itself. Change the part in the folder of what it describes, then run `make generate`.
//
// Next: webrole/internal/web, which checks requests against the document.
package api

//go:generate sh -c "cd ../../../tools && GOWORK=off go build -o ../.tools/apiparts ./apiparts"
//go:generate ../../../.tools/apiparts

// Some is a member that is missing when it has the zero value.
func Some[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Each is a list with every item in the form of the API. It is never nil, which would be
// null in JSON.
func Each[A, B any](items []A, public func(A) B) []B {
	out := make([]B, len(items))
	for i, item := range items {
		out[i] = public(item)
	}
	return out
}
