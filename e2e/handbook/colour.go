package handbook

import (
	"fmt"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
)

// colour returns Go as HTML whose parts have classes: webrole/web/static/learn.css has
// their colours. No style is in the markup, which the pages' policy forbids.
func colour(code string) (string, error) {
	tokens, err := chroma.Coalesce(lexers.Get("go")).Tokenise(nil, code)
	if err != nil {
		return "", fmt.Errorf("read Go: %w", err)
	}
	var out strings.Builder
	if err := html.New(html.WithClasses(true), html.TabWidth(4), html.PreventSurroundingPre(true)).Format(&out, styles.Fallback, tokens); err != nil {
		return "", fmt.Errorf("colour Go: %w", err)
	}
	return `<pre class="go" tabindex="0"><code>` + out.String() + "</code></pre>\n", nil
}
