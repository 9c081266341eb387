package ui

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/ui"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// awaitNoStreams waits until all streams, and so all watches, have ended.
func awaitNoStreams(t *testing.T, handler *ui.Server) {
	t.Helper()
	for deadline := time.Now().Add(testkit.Timeout); handler.OpenStreams() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d streams are open after the viewer has left", handler.OpenStreams())
		}
	}
}

const evil = "<img src=x onerror=\"window.pwned=true\"><script>window.pwned=true</script>"

// fake is a cluster with instances of one kind.
type fake struct {
	mu      sync.Mutex
	all     []*unstructured.Unstructured
	changed chan struct{}
}

func newFake(count int) *fake {
	f := &fake{changed: make(chan struct{}, 1)}
	for i := range count {
		f.all = append(f.all, instanceOf(i, "True", "Ready", ""))
	}
	f.changed <- struct{}{}
	return f
}

func instanceOf(i int, ready, reason, message string) *unstructured.Unstructured {
	name := fmt.Sprintf("shop-%05d", i)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Shop",
		"metadata": map[string]any{"name": name, "namespace": "prod", "uid": name, "resourceVersion": reason + message, "generation": int64(1), "creationTimestamp": "2026-01-02T03:04:05Z", "labels": map[string]any{"applyset.kubernetes.io/id": name}},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": message, "observedGeneration": int64(1)}}},
	}}
}

func (f *fake) set(i int, ready, reason, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i] = instanceOf(i, ready, reason, message)
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fake) IsReachable() bool { return true }

func (f *fake) Instances(ctx context.Context, _ ui.Ref, states chan<- []*unstructured.Unstructured) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.changed:
		}
		f.mu.Lock()
		state := append([]*unstructured.Unstructured{}, f.all...)
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case states <- state:
		}
	}
}

var definition = &unstructured.Unstructured{Object: map[string]any{
	"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": map[string]any{"name": "shop", "generation": int64(1)},
	"status": map[string]any{"servingRevision": int64(2), "lastIssuedRevision": int64(3),
		"rollout":    map[string]any{"revision": int64(3), "phase": "Stopped", "wave": int64(1), "waves": int64(3), "total": int64(10), "updated": int64(4), "ready": int64(2), "message": evil, "startedAt": "2026-01-02T03:04:05Z"},
		"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": "Rejected", "message": evil, "observedGeneration": int64(1)}}},
}}

func (f *fake) Definitions(ctx context.Context, states chan<- ui.Definitions) error {
	states <- ui.Definitions{All: []page.DefinitionFacts{{Definition: definition, Kinds: kinds}}, Problems: []string{evil}}
	<-ctx.Done()
	return ctx.Err()
}

var kinds = []schema.GroupKind{{Group: "example.com", Kind: "Shop"}}

func (f *fake) Definition(ctx context.Context, _ ui.Ref, states chan<- ui.Definition) error {
	states <- ui.Definition{DefinitionFacts: page.DefinitionFacts{Definition: definition, Kinds: kinds}}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Tree(ctx context.Context, _ ui.Ref, states chan<- observe.ClusterState) error {
	root := instanceOf(0, "False", "Rejected", evil)
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"password": "aHVudGVyMg=="},
		"metadata": map[string]any{"name": evil, "namespace": "prod", "uid": "secret", "labels": map[string]any{"kro.run/node-id": evil}},
	}}
	states <- observe.ClusterState{Root: root, Roots: []*unstructured.Unstructured{root}, Children: map[string][]*unstructured.Unstructured{root.GetName(): {secret}}, Instances: map[types.UID][]*unstructured.Unstructured{}, Unreadable: []string{evil}}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Program(context.Context) ([]page.Watch, []page.Queue, error) {
	return []page.Watch{{Kind: "Shop", Group: "example.com", Version: "v1", Selection: "all", State: "Unavailable", Reason: "Forbidden", Message: evil, Unavailable: true}},
		[]page.Queue{{Kind: "Shop", Group: "example.com", Depth: 3}}, nil
}

const many = 10_000

func TestTenThousandInstances(t *testing.T) {
	b := newBrowser(t)
	f := newFake(many)
	handler, server, address := serve(t, f)
	b.run(t, chromedp.Navigate(address))
	b.await(t, "document.querySelectorAll('tbody tr').length === 1")
	b.goTo(t, "#/definition?group=kro.run&kind=ResourceGraphDefinition&name=shop")
	rows := "document.querySelectorAll('section[aria-label=\"Instances of Shop\"] tbody tr')"
	b.await(t, rows+".length === 50")
	b.await(t, "document.body.innerText.includes('10000 in all, 0 not ready')")

	// What becomes unready comes first, and only that row is new.
	b.do(t, "window.kept = "+rows+"[5]; window.long = 0; new PerformanceObserver(l => { for (const e of l.getEntries()) window.long = Math.max(window.long, e.duration) }).observe({type: 'longtask'})")
	f.set(7777, "False", "Rejected", evil)
	b.await(t, rows+"[0].innerText.includes('shop-07777') && "+rows+"[0].classList.contains('bad')")
	if !evaluate[bool](t, b, "document.contains(window.kept)") {
		t.Error("rows that have not changed were drawn again")
	}
	b.await(t, "document.getElementById('announce').textContent.includes('1 not ready')")
	b.picture(t, "many")

	b.do(t, "[...document.querySelectorAll('.pager button')].find(b => b.textContent === 'Last').click()")
	b.await(t, rows+"[49].innerText.includes('shop-09999')")
	b.do(t, "document.querySelector('input[type=search]').focus()")
	b.press(t, "shop-0123")
	b.await(t, rows+".length === 10")
	b.press(t, strings.Repeat(kb.Backspace, len("shop-0123")))
	b.do(t, "document.querySelector('input[type=checkbox]').click()")
	b.await(t, rows+".length === 1")
	t.Logf("the longest task of the page took %v ms", evaluate[float64](t, b, "window.long"))
	b.requests.check(t, server.URL)
	b.run(t, chromedp.Navigate("about:blank"))
	awaitNoStreams(t, handler)
}

func TestTextIsNeverMarkup(t *testing.T) {
	b := newBrowser(t)
	_, server, address := serve(t, newFake(1))
	b.run(t, chromedp.Navigate(address))
	for _, hash := range []string{"#/", "#/definition?group=kro.run&kind=ResourceGraphDefinition&name=shop", "#/object?group=example.com&kind=Shop&namespace=prod&name=shop-00000", "#/program"} {
		b.goTo(t, hash)
		b.await(t, "document.getElementById('main').textContent.includes('<img src=x')")
		if evaluate[bool](t, b, "!!window.pwned || document.querySelectorAll('main img, main script').length > 0") {
			t.Errorf("%s: text became markup", hash)
		}
		if html := evaluate[string](t, b, "document.documentElement.outerHTML"); len(html) == 0 {
			t.Errorf("%s: no page", hash)
		}
		for _, problem := range evaluate[[]string](t, b, accessibility) {
			t.Errorf("%s: %s", hash, problem)
		}
	}
	b.picture(t, "markup")
	b.requests.check(t, server.URL)
}

// longFake is a cluster with an instance that waits for an object with a long name and a long message.
type longFake struct{ *fake }

func (longFake) Tree(ctx context.Context, _ ui.Ref, states chan<- observe.ClusterState) error {
	root := instanceOf(0, "False", "NotReady", "waits")
	child := instanceOf(1, "False", "Broken", "gpj.\u202etxt "+strings.Repeat("x", 4096))
	child.SetKind("Widget")
	child.SetName(strings.Repeat("a", 253))
	child.SetLabels(map[string]string{"kro.run/node-id": "widget"})
	states <- observe.ClusterState{Root: root, Roots: []*unstructured.Unstructured{root}, Children: map[string][]*unstructured.Unstructured{root.GetName(): {child}}, Instances: map[types.UID][]*unstructured.Unstructured{}}
	<-ctx.Done()
	return ctx.Err()
}

func TestLongTextsStayOnThePage(t *testing.T) {
	b := newBrowser(t)
	_, _, address := serve(t, longFake{newFake(1)})
	b.run(t, chromedp.Navigate(address))
	b.goTo(t, "#/object?group=example.com&kind=Shop&namespace=prod&name=shop-00000")
	b.await(t, "!!document.querySelector('.chain')")
	for _, width := range []int64{1400, 400} {
		b.run(t, chromedp.EmulateViewport(width, 900))
		if over := evaluate[int](t, b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("at %d pixels, the page is %d wider", width, over)
		}
	}
	if !evaluate[bool](t, b, "document.body.innerText.includes('gpj.\\\\u202etxt') && !document.body.innerText.includes('\\u202e')") {
		t.Error("a text can change the direction of what follows")
	}
}

// accessibility lists what assistive technology could not use: each check is one that people would miss at once.
const accessibility = `(() => {
  const out = [];
  if (document.querySelectorAll("h1").length !== 1) out.push("there is not one h1");
  if (!document.querySelector("main") || !document.querySelector("header nav[aria-label]")) out.push("a landmark is missing");
  if (!document.documentElement.lang || !document.title) out.push("no language or no title");
  for (const e of document.querySelectorAll("button, a, input, g[role=button], progress"))
    if (!(e.textContent.trim() || e.getAttribute("aria-label") || (e.labels && e.labels.length))) out.push("no name: " + e.outerHTML);
  for (const t of document.querySelectorAll("table"))
    if (!t.querySelector("th[scope=col]") || [...t.querySelectorAll("tbody tr")].some((r) => !r.querySelector("th[scope=row]"))) out.push("a table without headers: " + t.outerHTML.slice(0, 200));
  const luminance = (c) => { const v = c.match(/[\d.]+/g).slice(0, 3).map((x) => { x /= 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$/.test(c) && c !== "transparent") return c; } return "rgb(255, 255, 255)"; };
  for (const e of document.querySelectorAll("main *, header *")) {
    if (e.namespaceURI !== "http://www.w3.org/1999/xhtml" || !e.checkVisibility() || e.disabled || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [luminance(getComputedStyle(e).color), luminance(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) out.push("too little contrast: " + e.outerHTML.slice(0, 200));
  }
  return out;
})()`
