// Package browser holds tests that use the pages as people do: in a real,
// headless Chromium, with the bundled hls.js.
package browser
