// Package ui shows the page of `espalier ui` in Chromium, with a cluster of its own values and with a real API server.
//
// ESPALIER_TEST_SCREENSHOTS is a directory for pictures of the pages, for people to look at.
package ui

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) { os.Exit(suite.Main(m, server.Options{}, nil)) }

// browser is Chromium with one page.
type browser struct {
	ctx context.Context
	// foreign are requests to anywhere but the page's server, and problems are messages of the console.
	requests *recorder
}

// newBrowser starts Chromium. Where none is installed, the test is skipped.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("Chromium is not installed: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1440, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("ignore-certificate-errors", true)) // those of a server of the test
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 3*testkit.Timeout)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx, requests: &recorder{}}
	b.run(t, chromedp.EmulateViewport(1440, 900))
	if err := chromedp.Listen(ctx, b.requests.event); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *browser) run(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		t.Fatalf("%v\nthe page: %s", err, b.text())
	}
}

// text is the text of the page, for messages.
func (b *browser) text() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 2*time.Second)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return out
}

// await waits until an expression of the page is true.
func (b *browser) await(t *testing.T, expression string) {
	t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingTimeout(10*time.Second))); err != nil {
		t.Fatalf("%s: %v\nthe page: %s\nits complaints: %s", expression, err, b.text(), b.requests.complaints())
	}
}

// evaluate returns the value of an expression of the page.
func evaluate[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	out, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v\nthe page: %s", expression, err, b.text())
	}
	return out
}

// do runs statements in the page.
func (b *browser) do(t *testing.T, statements string) {
	t.Helper()
	evaluate[bool](t, b, "(() => { "+statements+"; return true })()")
}

// press presses keys.
func (b *browser) press(t *testing.T, keys string) {
	t.Helper()
	b.run(t, chromedp.KeyEvent(keys))
}

// goTo opens a page by its address after the #.
func (b *browser) goTo(t *testing.T, hash string) {
	t.Helper()
	b.do(t, "location.hash = "+quote(hash))
}

// sizes are those of the windows that pages are examined in.
var sizes = map[string][2]int64{"wide": {1440, 900}, "narrow": {390, 844}}

// examine runs axe on the page at both sizes, in light and in dark colors, and takes a screenshot of each.
func (b *browser) examine(t *testing.T, name string) {
	t.Helper()
	b.do(t, axe())
	for size, s := range sizes {
		b.run(t, chromedp.EmulateViewport(s[0], s[1]))
		if over := evaluate[int](t, b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("%s, %s: the page is %d pixels wider than the window", name, size, over)
		}
		for _, scheme := range []string{"light", "dark"} {
			media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
			if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
				t.Fatal(err)
			}
			b.do(t, "for (const a of document.getAnimations()) a.finish()")
			for _, problem := range violations(t, b) {
				t.Errorf("%s, %s, %s: %s", name, size, scheme, problem)
			}
			b.screenshot(t, name+"-"+size+"-"+scheme)
		}
	}
	b.run(t, chromedp.EmulateViewport(1440, 900))
}

// axe is the program of axe-core, as hack/page-vendor.sh has fetched it.
var axe = sync.OnceValue(func() string {
	packed, err := os.Open("testdata/axe.min.js.gz")
	if err != nil {
		panic(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		panic(err)
	}
	return string(text)
})

// violations are what axe finds.
func violations(t *testing.T, b *browser) []string {
	t.Helper()
	b.do(t, `window.found = null; axe.run(document, {resultTypes: ["violations"]}).then((r) => { window.found = r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.html.slice(0, 200)).slice(0, 3).join(" ")) })`)
	b.await(t, "window.found !== null")
	return evaluate[[]string](t, b, "window.found")
}

// screenshot takes a screenshot, if there is a directory for it.
func (b *browser) screenshot(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("ESPALIER_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	raw, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		raw, err = reduce(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// reduce reduces a picture to its 256 most frequent colors: a page has few, and the picture a third of the bytes.
func reduce(raw []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	counts := map[color.RGBA]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			counts[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var palette color.Palette
	for _, c := range colors[:min(len(colors), 256)] {
		palette = append(palette, c)
	}
	out := image.NewPaletted(full.Bounds(), palette)
	draw.Draw(out, out.Bounds(), full, image.Point{}, draw.Src)
	var b bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out)
	return b.Bytes(), err
}
