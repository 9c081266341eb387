package ui

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/ui"
	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

const shop = `
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-settings"}, data: {value: ours}}
    - id: subnet
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: x}, spec: {cidr: "${settings.data.value}"}}
    - id: web
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {subnet: "${subnet.status.id}"}}
    - id: credentials
      template: {apiVersion: v1, kind: Secret, metadata: {name: credentials}, stringData: {password: hunter2}}
`

var configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

func TestThePageShowsAnInstanceAsItHappens(t *testing.T) {
	s := suite.New(t)
	b := newBrowser(t)
	cluster, err := ui.NewCluster(s.Config, func(context.Context) ([]page.Watch, []page.Queue, error) { return nil, nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	handler, server, address := serve(t, cluster)
	s.Apply(t, suite.SubnetCRD)
	s.Apply(t, suite.Graph("Shop", `spec: {replicas: "integer | default=2"}`, shop))
	s.AwaitDefinitions(t, "shop")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Shop\nmetadata: {name: main, namespace: $NS}\n")

	b.run(t, chromedp.Navigate(address))
	definition := quote(s.Name("shop"))
	b.await(t, "[...document.querySelectorAll('tbody th a')].some(a => a.textContent === "+definition+" && a.closest('tr').innerText.includes('1'))")
	b.picture(t, "definitions")
	b.goTo(t, "#/definition?"+url.Values{"group": {"kro.run"}, "kind": {"ResourceGraphDefinition"}, "name": {s.Name("shop")}}.Encode())
	b.await(t, "[...document.querySelectorAll('tbody th a')].some(a => a.textContent === 'main') && document.body.innerText.includes('1 in all, 1 not ready')")
	b.picture(t, "definition")

	b.goTo(t, "#/object?"+url.Values{"group": {s.Group}, "kind": {"Shop"}, "namespace": {s.NS}, "name": {"main"}}.Encode())
	state := func(node, tone string) string {
		return "!!document.querySelector(`g[data-id=\"" + node + "\"].node." + tone + "`)"
	}
	b.await(t, state("/web/", "progress")+" && document.querySelector('g[data-id=\"/web/\"]').textContent.includes('waits for subnet.status.id')")
	b.await(t, "/ [0-9]+ of [0-9]+ resources are not ready \\([0-9]+ exists?\\)/.test(document.querySelector('.summary').textContent)")
	b.picture(t, "unready")

	s.SetSubnet(t, "subnet-1")
	b.await(t, state("/web/", "good")+" || "+state("/web/", "neutral"))
	b.await(t, state("/", "good"))

	// The keyboard leads along the edges, and Enter shows details.
	b.do(t, "document.querySelector('g.node[tabindex=\"0\"]').focus()")
	b.press(t, kb.ArrowRight+kb.Enter)
	focused := evaluate[string](t, b, "document.activeElement.getAttribute('aria-label')")
	if title := evaluate[string](t, b, "document.getElementById('details-title').textContent"); !strings.HasPrefix(focused, title+",") || title == "Shop" {
		t.Errorf("the focus is on %q, and the details are those of %q", focused, title)
	}
	b.picture(t, "ready")

	// A field that somebody else takes over is corrected, and the writes of both are shown.
	s.PatchAs(t, "kubectl-edit", configMap, s.NS, "main-settings", `{"metadata":{"annotations":{"note":"<img src=x onerror=alert(1)>"}}}`)
	b.do(t, "document.querySelector('g[data-id=\"/settings/\"]').dispatchEvent(new MouseEvent('click'))")
	b.await(t, "document.querySelector('aside').innerText.includes('kubectl-edit')")

	s.Patch(t, configMap, s.NS, "web", `{"metadata":{"finalizers":["example.com/guard"]}}`)
	s.Delete(t, s.Kind("Shop"), s.NS, "main")
	b.await(t, "!!document.querySelector('.cause-main')?.textContent.includes('held by finalizer example.com/guard')")
	b.await(t, state("/web/", "bad"))
	b.do(t, "document.querySelector('g[data-id=\"/web/\"]').dispatchEvent(new MouseEvent('click'))")
	b.picture(t, "blocked")
	s.Patch(t, configMap, s.NS, "web", `{"metadata":{"finalizers":null}}`)
	b.await(t, "document.body.innerText.includes('It is gone.')")

	b.goTo(t, "#/object?"+url.Values{"group": {s.Group}, "kind": {"Shop"}, "namespace": {s.NS}, "name": {"never"}}.Encode())
	b.await(t, "document.querySelector('main').innerText.includes('There is no such object.')")
	if links := evaluate[int](t, b, "document.querySelectorAll('main a[href=\"#/\"]').length"); links != 2 {
		t.Errorf("%d links lead to the definitions, not that above and that below the message", links)
	}
	b.picture(t, "missing")

	if text := evaluate[string](t, b, "document.documentElement.outerHTML"); strings.Contains(text, "hunter2") {
		t.Error("the page has the data of a Secret")
	}
	b.requests.check(t, server.URL)
	b.run(t, chromedp.Navigate("about:blank"))
	awaitNoStreams(t, handler)
}
