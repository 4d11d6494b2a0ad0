// Package httpapi is the HTTP API of docs/openapi.yaml: it implements the
// generated interface, one file per group of operations. Every request is
// checked against the document before a handler runs, and every error is
// answered by package problem.
//
// Next: webrole/internal/upload, how bytes get in.
package httpapi
