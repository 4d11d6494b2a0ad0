package handbook

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/chromedp/chromedp"
)

// The version of Mermaid that draws. npm puts it into .tools.
const mermaidVersion = "12.3.0"

// drawnAs changes when all diagrams are to be drawn anew: with another version of
// Mermaid, or another way to use it.
const drawnAs = "mermaid " + mermaidVersion + ", 4"

// drawing draws a source and removes the symbols and rules of style that it does not use.
// Text is drawn as SVG, because pictures cannot show HTML everywhere, and identifiers
// are the same in every run. Pages in dark colours invert the picture.
const drawing = `(async source => {
	mermaid.initialize({
		startOnLoad: false, securityLevel: 'strict', deterministicIds: true, deterministicIDSeed: 'cutroom', htmlLabels: false,
		flowchart: { htmlLabels: false, useMaxWidth: false, wrappingWidth: 320 }, sequence: { useMaxWidth: false }, state: { useMaxWidth: false },
		theme: 'base', themeVariables: {
			fontFamily: 'system-ui, sans-serif', fontSize: '15px', background: '#ffffff', textColor: '#16181d', lineColor: '#4a5160',
			primaryColor: '#e8eefc', primaryTextColor: '#16181d', primaryBorderColor: '#3d63b8', secondaryColor: '#f3f0e6', tertiaryColor: '#f6f7f9',
			noteBkgColor: '#fff4d6', noteTextColor: '#16181d', noteBorderColor: '#b98900', edgeLabelBackground: '#ffffff',
		},
	})
	document.body.innerHTML = (await mermaid.render('d', source)).svg
	const svg = document.querySelector('svg'), style = svg.querySelector('style')
	for (const part of svg.querySelectorAll('defs > [id]')) if (!RegExp('#' + part.id + '[")]').test(svg.outerHTML)) part.remove()
	const used = rule => rule.selectorText && svg.parentNode.querySelector(rule.selectorText)
	style.textContent = [...style.sheet.cssRules].filter(used).map(rule => rule.cssText).join('\n')
	svg.setAttribute('height', svg.viewBox.baseVal.height)
	return new XMLSerializer().serializeToString(svg)
})`

// Draw draws the diagrams whose committed drawings are not theirs, and removes drawings
// that no page has. When there are any to draw it installs Mermaid with npm, once, and
// needs Chromium.
func Draw(ctx context.Context, root string, diagrams []Diagram) error {
	var wanted []string
	for _, d := range diagrams {
		wanted = append(wanted, filepath.Base(d.File))
	}
	stale := slices.DeleteFunc(slices.Clone(diagrams), func(d Diagram) bool { return d.Check(root) == nil })
	if len(stale) > 0 {
		if err := drawAll(ctx, root, stale); err != nil {
			return fmt.Errorf("draw diagrams: %w", err)
		}
	}
	drawings, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(Folder), "*-[0-9].svg"))
	if err != nil {
		return fmt.Errorf("look for old drawings: %w", err)
	}
	for _, file := range drawings {
		if !slices.Contains(wanted, filepath.Base(file)) {
			if err := os.Remove(file); err != nil {
				return fmt.Errorf("remove an old drawing: %w", err)
			}
		}
	}
	return nil
}

// drawAll draws them in a Chromium with an empty page that has Mermaid.
func drawAll(ctx context.Context, root string, diagrams []Diagram) error {
	mermaid, err := library(ctx, root)
	if err != nil {
		return err
	}
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900))
	if program := os.Getenv("CUTROOM_TEST_BROWSER"); program != "" {
		options = append(options, chromedp.ExecPath(program))
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	allocator, closeBrowser := chromedp.NewExecAllocator(limited, options...)
	defer closeBrowser()
	tab, closeTab := chromedp.NewContext(allocator)
	defer closeTab()
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil {
		return fmt.Errorf("start Chromium: %w", err)
	}
	if _, err := chromedp.Run(tab, chromedp.Evaluate[any](mermaid+"\n;null")); err != nil {
		return fmt.Errorf("load Mermaid: %w", err)
	}
	for _, d := range diagrams {
		source, err := json.Marshal(d.Source)
		if err != nil {
			return err
		}
		svg, err := chromedp.Run(tab, chromedp.Evaluate[string](drawing+"("+string(source)+")", chromedp.EvalAwaitPromise))
		if err != nil {
			return fmt.Errorf("%s: %w", d.File, err)
		}
		svg += "\n"
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(d.File)), []byte(d.mark(svg)+svg), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// library returns Mermaid as a script of one file. npm checks what it downloads.
func library(ctx context.Context, root string) (string, error) {
	folder := filepath.Join(root, ".tools", "mermaid-"+mermaidVersion)
	const script = "package/dist/mermaid.min.js"
	if _, err := os.Stat(filepath.Join(folder, script)); err != nil {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return "", err
		}
		unpack := exec.CommandContext(ctx, "sh", "-ec", `tar -xzf "$(npm pack --silent "mermaid@$0")" "$1"`, mermaidVersion, script)
		unpack.Dir, unpack.Stderr = folder, os.Stderr
		if err := unpack.Run(); err != nil {
			return "", fmt.Errorf("install Mermaid: %w", err)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, script))
	return string(text), err
}
