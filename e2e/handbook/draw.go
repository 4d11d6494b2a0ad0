package handbook

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// library is what Chromium runs; npm puts it there.
const library = "e2e/handbook/node_modules/mermaid/dist/mermaid.min.js"

// Draw draws the diagrams whose committed drawings are not theirs, and removes drawings
// that no page has. It returns how many it drew. For the first it installs Mermaid
// with npm and needs Chromium.
func Draw(ctx context.Context, root string, diagrams []Diagram) (int, error) {
	var tab context.Context
	drawn := 0
	wanted := map[string]bool{}
	for _, d := range diagrams {
		for _, scheme := range Schemes {
			wanted[d.File(scheme)] = true
			if d.Check(root, scheme) == nil {
				continue
			}
			if tab == nil {
				var stop func()
				var err error
				if tab, stop, err = openMermaid(ctx, root); err != nil {
					return drawn, err
				}
				defer stop()
			}
			svg, err := draw(tab, d, scheme)
			if err != nil {
				return drawn, err
			}
			if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(Drawings), d.File(scheme)), []byte(d.Mark(scheme)+"\n"+svg+"\n"), 0o600); err != nil {
				return drawn, fmt.Errorf("keep diagram %s: %w", d.Name, err)
			}
			drawn++
		}
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(Drawings), "*.*.svg"))
	if err != nil {
		return drawn, fmt.Errorf("look for old diagrams: %w", err)
	}
	for _, file := range files {
		if !wanted[filepath.Base(file)] {
			if err := os.Remove(file); err != nil {
				return drawn, fmt.Errorf("remove an old diagram: %w", err)
			}
		}
	}
	return drawn, nil
}

// openMermaid starts Chromium with an empty page that has the library.
func openMermaid(ctx context.Context, root string) (tab context.Context, stop func(), err error) {
	if err := os.MkdirAll(filepath.Join(root, filepath.FromSlash(Drawings)), 0o750); err != nil {
		return nil, nil, fmt.Errorf("draw diagrams: %w", err)
	}
	script, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(library)))
	if os.IsNotExist(err) {
		install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		install.Dir, install.Stderr = filepath.Join(root, "e2e/handbook"), os.Stderr
		if err := install.Run(); err != nil {
			return nil, nil, fmt.Errorf("install Mermaid: %w", err)
		}
		script, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(library)))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read Mermaid: %w", err)
	}
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900))
	if program := os.Getenv("CUTROOM_TEST_BROWSER"); program != "" {
		options = append(options, chromedp.ExecPath(program))
	}
	allocator, closeBrowser := chromedp.NewExecAllocator(ctx, options...)
	tab, closeTab := chromedp.NewContext(allocator)
	tab, cancel := context.WithTimeout(tab, 5*time.Minute)
	stop = func() { cancel(); closeTab(); closeBrowser() }
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start Chromium: %w", err)
	}
	if _, err := chromedp.Run(tab, chromedp.Evaluate[any](string(script)+"\n;null")); err != nil {
		stop()
		return nil, nil, fmt.Errorf("load Mermaid: %w", err)
	}
	return tab, stop, nil
}

// settings of Mermaid for a scheme. Text is drawn as SVG, because pictures cannot show
// HTML everywhere; identifiers are the same in every run. A change of these has to
// change drawnAs.
func settings(scheme string) map[string]any {
	colours := map[string]any{
		"fontFamily": "system-ui, sans-serif", "fontSize": "15px", "background": "#ffffff",
		"primaryColor": "#e8eefc", "primaryTextColor": "#16181d", "primaryBorderColor": "#3d63b8",
		"secondaryColor": "#f3f0e6", "tertiaryColor": "#f6f7f9", "lineColor": "#4a5160", "textColor": "#16181d",
		"noteBkgColor": "#fff4d6", "noteTextColor": "#16181d", "noteBorderColor": "#b98900", "edgeLabelBackground": "#ffffff",
	}
	if scheme == "dark" {
		colours = map[string]any{
			"darkMode": true, "fontFamily": "system-ui, sans-serif", "fontSize": "15px", "background": "#14171c",
			"primaryColor": "#22304d", "primaryTextColor": "#eceff4", "primaryBorderColor": "#8aabf0",
			"secondaryColor": "#2b2a22", "tertiaryColor": "#1d2127", "lineColor": "#aab2c0", "textColor": "#eceff4",
			"noteBkgColor": "#3a3216", "noteTextColor": "#f5efdc", "noteBorderColor": "#d0a93a", "edgeLabelBackground": "#14171c",
			"actorTextColor": "#eceff4", "signalColor": "#aab2c0", "signalTextColor": "#eceff4", "labelTextColor": "#eceff4", "loopTextColor": "#eceff4",
		}
	}
	return map[string]any{
		"startOnLoad": false, "theme": "base", "themeVariables": colours, "htmlLabels": false,
		"deterministicIds": true, "deterministicIDSeed": "cutroom", "securityLevel": "strict",
		"flowchart": map[string]any{"htmlLabels": false, "useMaxWidth": false, "wrappingWidth": 320}, "sequence": map[string]any{"useMaxWidth": false},
		"state": map[string]any{"useMaxWidth": false},
	}
}

var viewBox = regexp.MustCompile(`viewBox="[-0-9.]+ [-0-9.]+ ([0-9.]+) ([0-9.]+)"`)

// draw returns the SVG of a diagram, with a size of its own.
func draw(tab context.Context, d Diagram, scheme string) (string, error) {
	config, err := json.Marshal(settings(scheme))
	if err != nil {
		return "", fmt.Errorf("draw %s: %w", d.Name, err)
	}
	source, err := json.Marshal(d.Source)
	if err != nil {
		return "", fmt.Errorf("draw %s: %w", d.Name, err)
	}
	svg, err := chromedp.Run(tab, chromedp.Evaluate[string](fmt.Sprintf(
		`(async () => { document.body.innerHTML = ''; mermaid.initialize(%s);
		  try { return (await mermaid.render('d', %s)).svg } catch (e) { return 'error: ' + e.message } })()`, config, source), chromedp.EvalAwaitPromise))
	if err != nil {
		return "", fmt.Errorf("draw %s: %w", d.Name, err)
	}
	if message, failed := strings.CutPrefix(svg, "error: "); failed {
		return "", fmt.Errorf("draw %s: Mermaid says: %s", d.Name, message)
	}
	svg = strings.ReplaceAll(svg, "<br>", "<br/>")
	if size := viewBox.FindStringSubmatch(svg); size != nil && !strings.Contains(svg[:strings.Index(svg, ">")], ` height="`) {
		svg = strings.Replace(svg, "<svg ", fmt.Sprintf(`<svg height="%s" `, size[2]), 1)
	}
	return svg, nil
}
