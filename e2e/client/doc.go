// Package client is the Go client of the HTTP API, generated from
// docs/openapi.yaml (`make generate`). The demo and the end-to-end tests speak
// to the web role through it.
//
// Next: docs/openapi.yaml, which says what every call means.
package client
