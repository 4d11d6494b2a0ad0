// Package api is generated from docs/openapi.yaml: the types of the HTTP API,
// its routes for Gin and the document itself. Change the document, then run
// `make generate`.
//
// Next: webrole/internal/httpapi, which implements ServerInterface.
package api

//go:generate go tool oapi-codegen -config config.yaml ../../../docs/openapi.yaml
//go:generate go tool oapi-codegen -config ../../../e2e/client/config.yaml -o ../../../e2e/client/client.gen.go ../../../docs/openapi.yaml
