package handbook

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cutroom/cutroom/docs"
	"github.com/cutroom/cutroom/webrole/web"
)

var rowOfPapers = regexp.MustCompile(`(?m)^\| [QTS][0-9]+[a-z]? \|`)

// All documents of the repository are rendered: each pattern's page is in the list once.
func TestReadsAllDocuments(t *testing.T) {
	t.Parallel()
	h, err := Read(docs.Files, web.Files)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, paper := range h.Papers {
		rows += len(paper.Rows)
	}
	files, err := docs.Files.ReadDir("patterns")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]bool{}
	for _, file := range files {
		if name, is := strings.CutSuffix(file.Name(), ".md"); is && name != "README" {
			pages[name] = true
		}
	}
	for _, group := range h.Patterns {
		for _, p := range group.Rows {
			if !pages[p.Name] {
				t.Errorf("%s is listed twice, or is no page", p.Name)
			}
			delete(pages, p.Name)
			if !strings.Contains(string(p.Body), `<figure class="scroll" tabindex="0"><img src="/static/patterns/`+p.Name+"-1.svg") || len(p.Parts) < 13 {
				t.Errorf("page %s has no diagram or only the parts %v", p.Name, p.Parts)
			}
		}
	}
	papers, err := docs.Files.ReadFile("papers.md")
	if want := len(rowOfPapers.FindAll(papers, -1)); err != nil || rows != want || want == 0 || len(pages) > 0 {
		t.Errorf("%d rows of %d, %v; not listed: %v", rows, want, err, pages)
	}
}

// What is special about our pages, in one document.
func TestRender(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"patterns/one-1.svg": {Data: []byte(`<svg viewBox="-5 0 320.5 200">`)},
		"patterns/plot.svg":  {Data: []byte(`<svg/>`)},
	}
	page := "# One\n\nRows: Q1, T10\n\n## A `b`, and c\n\n## A b and c\n\n" +
		"[two](two.md#x) [all](README.md) [code](../../shared/a.go) [a.go](../../shared/a.go) [web](https://example.com/?a&b)\n\n" +
		"<!-- snippet: shared/a.go f -->\n```go\nfunc f() { return \"<\" + string(1) } // no\n```\n\n" +
		"```mermaid\naccTitle: A \"title\"\n```\n\n![a plot](plot.svg)\n\n| | n |\n| --- | ---: |\n| a | 1 |\n"
	want := `<h1 id="one">One</h1>
<p>Rows: <a href="/learn#Q1">Q1</a>, <a href="/learn#T10">T10</a></p>
<h2 id="a-b-and-c">A <code>b</code>, and c</h2>
<h2 id="a-b-and-c-1">A b and c</h2>
<p><a href="/patterns/two#x">two</a> <a href="/learn">all</a> code <span class="path">(shared/a.go)</span> a.go <span class="path">(shared/a.go)</span> <a href="https://example.com/?a&amp;b">web</a></p>
<pre class="go" tabindex="0"><code><span class="keyword">func</span> <span class="function">f</span>() { <span class="keyword">return</span> <span class="literal">&#34;&lt;&#34;</span> + <span class="predeclared">string</span>(<span class="literal">1</span>) } <span class="comment">// no</span>
</code></pre>
<figure class="scroll" tabindex="0"><img src="/static/patterns/one-1.svg" alt="A &#34;title&#34;" width="320" height="200" loading="lazy"></figure>
<p><img class="plot" src="/static/patterns/plot.svg" alt="a plot"></p>
<div class="scroll" tabindex="0"><table>
<thead>
<tr>
<td></td>
<th class="number">n</th>
</tr>
</thead>
<tbody>
<tr>
<td>a</td>
<td class="number">1</td>
</tr>
</tbody>
</table></div>
`
	got, err := render(files, "patterns/one.md", page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := render(files, "patterns/two.md", page); err == nil {
		t.Error("a diagram without a drawing is shown")
	}
}
