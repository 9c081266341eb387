package ui

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// terminal runs a command of espalier, and returns what a terminal shows then.
func terminal(t *testing.T, s suite.Suite, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Main(t.Context(), append(args, "--kubeconfig", testkit.Kubeconfig(t, s.Config)), &out, &errs)
	if code != 0 && code != 5 { // what is not ready
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return "$ espalier " + strings.Join(args, " ") + "\n" + out.String()
}

// pictureOf takes the picture of the README, if there is a directory for it: a picture of the page that was taken before, and
// a terminal below it.
func pictureOf(t *testing.T, picture, terminal string) {
	t.Helper()
	dir := os.Getenv("ESPALIER_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	b := newBrowser(t)
	for scheme, colors := range map[string]string{"light": "background: #ffffff; color: #1f2328", "dark": "background: #0d1117; color: #e6edf3"} {
		document := filepath.Join(t.TempDir(), "readme.html")
		text := "<meta charset=utf-8><body style='margin: 0; " + colors + "'><img style='display: block; width: 1440px' src='file://" + filepath.Join(dir, picture+"-"+scheme+".png") + "'>" +
			"<pre style='margin: 0; padding: 28px 40px; border-top: 2px solid #768390; white-space: pre-wrap; font: 21px/1.4 DejaVu Sans Mono, monospace'>" + html.EscapeString(terminal) + "</pre></body>"
		if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b.run(t, chromedp.Navigate("file://"+document))
		b.run(t, chromedp.EmulateViewport(1440, evaluate[int64](t, b, "document.images[0].naturalHeight && document.body.offsetHeight")))
		b.screenshot(t, "readme-"+scheme)
	}
}
