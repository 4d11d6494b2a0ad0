// Package web holds what the pages are made of: templates, style, and scripts that
// package bundle makes from the TypeScript in src. All of it is embedded. hls.js,
// js-md5 and idiomorph are copies of their published files (see package.json and vendor.mjs).
//
// To change a script: edit src, then `go generate ./webrole/web`. Types are checked by
// `npm ci && npm run check` here, and by `make test`; those of the API are made from
// docs/openapi.yaml by `npm run types`.
//
// Next: webrole/internal/page, which serves them.
package web

import "embed"

//go:generate find static -maxdepth 1 -name *.js -delete
//go:generate go run ./bundle

// Files holds templates/ and static/.
//
//go:embed templates static
var Files embed.FS
