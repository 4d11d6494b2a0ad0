// Package web holds the page sources: templates, style and scripts, embedded as
// they are. There is no build step: the scripts are modules that browsers read,
// and hls.js and js-md5 are copies of their published files (see package.json and
// vendor.mjs).
//
// Next: webrole/internal/page, which serves them.
package web

import "embed"

// Files holds templates/ and static/.
//
//go:embed templates static
var Files embed.FS
