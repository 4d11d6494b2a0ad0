// Package web holds what the pages are made of: templates, texts, style, and scripts that esbuild
// makes of each file in src/entry and what they import: one for each page, those that run beside a
// page or in a part of one, and what they share, so that a browser loads it once. All of it is
// embedded. hls.js, js-md5 and idiomorph are copies of their published files (see package.json and
// vendor.mjs). A feature's lines in watch.html, upload.html, the layout and the scripts of those
// pages go with it: see e2e/fork/features.go.
//
// To change a script: edit src, then `go generate ./webrole/web`. The result is committed, so
// building and running the roles needs neither esbuild nor Node. esbuild removes the types and
// does not check them: `npm ci && npm run check` here does, and `make test`; those of the API are
// made from docs/openapi.yaml by `npm run types`.
//
// Next: webrole/internal/page, which serves them.
package web

import "embed"

//go:generate find static -maxdepth 1 -name *.js -delete
//go:generate -command esbuild go tool esbuild --bundle --splitting --format=esm --target=es2022 --minify --log-level=warning
//go:generate esbuild --legal-comments=none --chunk-names=shared-[hash] --outdir=static src/entry/*.ts

// Files holds templates/, with the stops at /learn in path/, and static/.
//
//go:embed templates static
var Files embed.FS
