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
	b.await(t, row("main")+"?.innerText.includes('waits for subnet.status.id')")
	b.examine(t, "health")
	b.goTo(t, "#/definitions")
	b.await(t, row(s.Name("shop"))+"?.innerText.includes('1')")
	b.examine(t, "definitions")
	b.goTo(t, "#/definition?"+url.Values{"group": {"kro.run"}, "kind": {"ResourceGraphDefinition"}, "name": {s.Name("shop")}}.Encode())
	b.await(t, row("main")+" && document.body.innerText.includes('1 in all, 1 not ready')")
	b.await(t, "[...document.querySelectorAll('.schema tr')].some(r => r.innerText.includes('spec.replicas') && r.innerText.includes('integer') && r.innerText.includes('2'))")
	b.await(t, "document.querySelectorAll('.graph .node').length === 5 && document.querySelectorAll('.flow').length > 0")
	b.examine(t, "definition")

	b.goTo(t, "#/object?"+url.Values{"group": {s.Group}, "kind": {"Shop"}, "namespace": {s.NS}, "name": {"main"}}.Encode())
	state := func(node, tone string) string {
		return "!!document.querySelector(`.node[data-id=\"" + node + "\"]." + tone + "`)"
	}
	click := func(node string) { b.do(t, "document.querySelector(`.node[data-id=\""+node+"\"]`).click()") }
	b.await(t, state("/web/", "progress")+" && document.querySelector('.node[data-id=\"/web/\"]').textContent.includes('waits for subnet.status.id')")
	b.await(t, "/ [0-9]+ of [0-9]+ resources are not ready \\([0-9]+ exists?\\)/.test(document.querySelector('.summary').textContent)")
	b.check(t, fits)
	b.examine(t, "unready")

	s.SetSubnet(t, "subnet-1")
	b.await(t, state("/web/", "good")+" || "+state("/web/", "neutral"))
	b.await(t, state("/", "good"))

	// The keyboard leads from box to box, and Enter shows details with the flows of data.
	b.do(t, "document.querySelector('.node[tabindex=\"0\"]').focus()")
	b.press(t, kb.Home+kb.ArrowRight+kb.Enter)
	b.await(t, "document.getElementById('details-title').textContent === document.activeElement.querySelector('b').textContent && document.activeElement.dataset.id !== '/'")
	click("/settings/")
	b.await(t, "document.querySelectorAll('.above .flow').length === 1")

	// The origin of a field is that of espalier why.
	click("/web/")
	b.await(t, "document.getElementById('details-title').textContent === 'web'")
	b.do(t, "for (const d of document.querySelectorAll('.details details')) d.open = true; document.querySelector('.origin[aria-label$=\"origin of data.subnet\"]').click()")
	b.await(t, "document.querySelector('.origin-of')?.innerText.includes('${subnet.status.id}') && document.querySelector('.origin-of').innerText.includes('subnet-1')")
	b.examine(t, "origin")
	click("/credentials/")
	b.await(t, "document.querySelector('.yaml')?.textContent.includes('password: (hidden)')")

	// A field that another manager takes over is corrected, and the writes of both are shown.
	s.PatchAs(t, "kubectl-edit", configMap, s.NS, "main-settings", `{"metadata":{"annotations":{"note":"<img src=x onerror=alert(1)>"}}}`)
	click("/settings/")
	b.await(t, "document.querySelector('aside').innerText.includes('kubectl-edit')")

	s.Patch(t, configMap, s.NS, "web", `{"metadata":{"finalizers":["example.com/guard"]}}`)
	s.Delete(t, s.Kind("Shop"), s.NS, "main")
	b.await(t, "!!document.querySelector('.cause-main')?.textContent.includes('held by finalizer example.com/guard')")
	b.await(t, state("/web/", "bad"))
	b.do(t, "[...document.querySelectorAll('.why button')].find(x => x.textContent === 'Go to the cause').click()")
	b.await(t, "document.getElementById('details-title').textContent === 'web'")
	click("/")
	b.await(t, "document.querySelector('aside').innerText.includes('DeletionBlocked')") // an event
	b.examine(t, "blocked")
	b.run(t, chromedp.EmulateViewport(390, 844))
	b.await(t, "[...document.querySelectorAll('.outline .entry.bad')].filter(e => e.checkVisibility() && e.innerText.includes('deleting')).length === 2 && !document.querySelector('.graph').checkVisibility()")
	b.run(t, chromedp.EmulateViewport(1440, 900))
	s.Patch(t, configMap, s.NS, "web", `{"metadata":{"finalizers":null}}`)
	b.await(t, "document.body.innerText.includes('It is gone.')")

	b.goTo(t, "#/object?"+url.Values{"group": {s.Group}, "kind": {"Shop"}, "namespace": {s.NS}, "name": {"never"}}.Encode())
	b.await(t, "document.querySelector('main').innerText.includes('There is no such object.')")
	b.examine(t, "missing")

	if text := evaluate[string](t, b, "document.documentElement.outerHTML"); strings.Contains(text, "hunter2") {
		t.Error("the page has the data of a Secret")
	}
	b.requests.check(t, server.URL)
	b.run(t, chromedp.Navigate("about:blank"))
	awaitNoStreams(t, handler)
}

// row is the row of a table with a link of a name.
func row(name string) string {
	return "[...document.querySelectorAll('tbody th a')].find(a => a.textContent === " + quote(name) + ")?.closest('tr')"
}

// fits lists what is wrong with the picture of a graph: boxes outside of the window, and lines that run beneath boxes.
const fits = `(() => {
  const out = [], canvas = document.querySelector(".canvas").getBoundingClientRect();
  const boxes = [...document.querySelectorAll(".node")].map((n) => [n.dataset.id, n.getBoundingClientRect()]);
  for (const [id, r] of boxes) if (r.left < canvas.left || r.right > canvas.right || r.top < canvas.top || r.bottom > canvas.bottom) out.push(id + " is outside");
  for (const line of document.querySelectorAll(".line")) {
    const length = line.getTotalLength(), to = line.getScreenCTM();
    for (let at = 2; at < length - 2; at += 2) {
      const p = line.getPointAtLength(at).matrixTransform(to);
      for (const [id, r] of boxes) if (p.x > r.left + 1 && p.x < r.right - 1 && p.y > r.top + 1 && p.y < r.bottom - 1) { out.push("a line runs beneath " + id); at = length; break; }
    }
  }
  if (!document.querySelector(".line")) out.push("there are no lines");
  return out;
})()`

// check checks that an expression lists nothing.
func (b *browser) check(t *testing.T, expression string) {
	t.Helper()
	for _, problem := range evaluate[[]string](t, b, expression) {
		t.Error(problem)
	}
}
