// Package docs embeds the documents that the web role shows at /learn and /patterns. It
// is a module of its own because go:embed reaches no file above its module.
//
// Next: webrole/internal/handbook, which renders them.
package docs

import "embed"

// Files holds papers.md, and patterns/ with its Markdown and drawings.
//
//go:embed papers.md patterns
var Files embed.FS
