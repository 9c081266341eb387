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

func (f *fake) Sections() []string { return []string{ui.SectionPackages} }

func (f *fake) Objects(ctx context.Context, section string, states chan<- ui.Objects) error {
	state := ui.Objects{Definitions: []page.DefinitionFacts{{Definition: definition, Kinds: kinds}}, Others: f.all, Problems: []string{evil}}
	if section != "" {
		state.Definitions = nil
	}
	states <- state
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Events(ctx context.Context, _ ui.Ref, states chan<- []*unstructured.Unstructured) error {
	states <- []*unstructured.Unstructured{{Object: map[string]any{"kind": "Event", "metadata": map[string]any{"name": "e"}, "type": "Warning", "reason": "Failed", "message": evil, "lastTimestamp": "2026-01-02T03:04:05Z"}}}
	<-ctx.Done()
	return ctx.Err()
}

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
	b.await(t, "document.querySelectorAll('tbody tr').length === 1 && document.body.innerText.includes('1 of 10001 objects is not ready')")
	b.do(t, "document.getElementById('search').focus()")
	b.press(t, "shop-0999")
	b.await(t, "document.querySelectorAll('tbody tr').length === 10 && document.body.innerText.includes('10 objects match')")
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
	b.examine(t, "many")

	b.do(t, "[...document.querySelectorAll('.pager button')].find(b => b.textContent === 'Last').click()")
	b.await(t, rows+"[49].innerText.includes('shop-09999')")
	b.do(t, "document.querySelector('section input[type=search]').focus()")
	b.press(t, "shop-0123")
	b.await(t, rows+".length === 10")
	b.press(t, strings.Repeat(kb.Backspace, len("shop-0123")))
	b.do(t, "document.querySelector('section input[type=checkbox]').click()")
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
	for i, hash := range []string{"#/", "#/section?name=packages", "#/definitions", "#/definition?group=kro.run&kind=ResourceGraphDefinition&name=shop", "#/object?group=example.com&kind=Shop&namespace=prod&name=shop-00000", "#/program"} {
		b.goTo(t, hash)
		b.await(t, "document.getElementById('main').textContent.includes('<img src=x')")
		if evaluate[bool](t, b, "!!window.pwned || document.querySelectorAll('main img, main script').length > 0") {
			t.Errorf("%s: text became markup", hash)
		}
		b.examine(t, fmt.Sprint("markup-", i))
	}
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
	b.examine(t, "long")
	if !evaluate[bool](t, b, "document.body.innerText.includes('gpj.\\\\u202etxt') && !document.body.innerText.includes('\\u202e')") {
		t.Error("a text can change the direction of what follows")
	}
}
