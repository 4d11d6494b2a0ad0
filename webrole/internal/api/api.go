// Package api is generated from docs/openapi.yaml: the types of the HTTP API,
// its routes for Gin and the document itself. Change the document, then run
// `make generate`.
//
// Next: webrole/internal/httpapi, which implements ServerInterface.
package api

//go:generate go tool oapi-codegen -config config.yaml ../../../docs/openapi.yaml
//go:generate go tool oapi-codegen -config ../../../e2e/client/config.yaml -o ../../../e2e/client/client.gen.go ../../../docs/openapi.yaml

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
