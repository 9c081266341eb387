package ui

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/ui"
	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

const (
	networkNodes = `
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-network"}, data: {cidr: "${schema.spec.cidr}"}}
    - id: subnet
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: "${schema.metadata.name}"}, spec: {cidr: "${settings.data.cidr}"}}
    - id: routes
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-routes"}, data: {subnet: "${subnet.status.id}"}}
`
	teamNodes = `
    - id: network
      template: {apiVersion: $GROUP/v1alpha1, kind: Network, metadata: {name: "${schema.metadata.name}"}}
    - id: owners
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-owners"}, data: {owner: "${schema.spec.owner}"}}
    - id: queues
      forEach: [{index: "${lists.range(30)}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-queue-${string(index)}"}, data: {owner: "${owners.data.owner}"}}
    - id: login
      template: {apiVersion: v1, kind: Secret, metadata: {name: "${schema.metadata.name}-login"}, stringData: {password: hunter2}}
  rollout: {waves: [{percent: 10}, {percent: 50}, {percent: 100}]}
`
	teamFields = `spec: {owner: 'string | required=true description="who is called at night"', size: 'integer | default=3 minimum=1 maximum=9', tier: 'string | enum="bronze,silver,gold" default="bronze"'}`
	// unowned is a kind of managed resources that no definition composes.
	unowned = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.$GROUP}
spec:
  group: $GROUP
  scope: Namespaced
  names: {kind: Bucket, plural: buckets, categories: [managed]}
  versions: [{name: v1alpha1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	function = `
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: $ID-function}
spec: {package: "registry.example.com/function:v1"}
`
)

// TestThePageOnCall: a cluster in which several things are wrong; the page begins with the worst, and leads to each cause.
func TestThePageOnCall(t *testing.T) {
	s := suite.NewSerial(t)
	s.Group, s.NS = "acme.example.com", "shop" // the documentation has pictures of this test
	s.Apply(t, "\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
	b := newBrowser(t)
	cluster, err := ui.NewCluster(s.Config, func(context.Context) ([]page.Watch, []page.Queue, error) { return nil, nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	_, server, address := serve(t, cluster)
	s.Apply(t, suite.SubnetCRD)
	s.Apply(t, unowned)
	s.Apply(t, suite.Graph("Network", `spec: {cidr: 'string | default="10.0.0.0/16"'}, status: {subnet: "${subnet.status.id}"}`, networkNodes))
	s.AwaitDefinitions(t, "network")
	s.Apply(t, suite.Graph("Team", teamFields, teamNodes))
	s.Apply(t, suite.Graph("Broken", `spec: {size: integer}`, "\n    - id: a\n      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: \"${schema.spec.sise}\"}}\n"))
	s.Apply(t, function)
	s.AwaitDefinitions(t, "team")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Team\nmetadata: {name: payments, namespace: $NS}\nspec: {owner: anna}\n---\napiVersion: $GROUP/v1alpha1\nkind: Network\nmetadata: {name: old, namespace: $NS}\n---\n"+
		"apiVersion: $GROUP/v1alpha1\nkind: Bucket\nmetadata: {name: archive, namespace: $NS}\n")
	s.SetStatus(t, s.Kind("Bucket"), s.NS, "archive", map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": "Creating", "message": "the quota of buckets is used up"}}})
	s.Await(t, configMap, s.NS, "old-network", suite.IsPresent)
	s.Patch(t, configMap, s.NS, "old-network", `{"metadata":{"finalizers":["example.com/guard"]}}`)
	s.Delete(t, s.Kind("Network"), s.NS, "old")

	b.run(t, chromedp.Navigate(address))
	b.await(t, row("old")+"?.innerText.includes('held by finalizer example.com/guard') && "+row("payments")+" && "+row("archive")+"?.innerText.includes('the quota of buckets is used up')")
	b.await(t, row(s.Name("broken"))+" === document.querySelector('tbody tr')") // the worst is the first
	b.await(t, "document.querySelectorAll('tbody tr.bad').length === 2")
	b.examine(t, "oncall-health")
	b.do(t, "document.getElementById('search').focus()")
	b.press(t, "bucket."+s.Group)
	b.await(t, "document.querySelectorAll('tbody tr').length === 1 && "+row("archive"))
	b.do(t, "document.getElementById('main').focus()")
	b.goTo(t, "#/section?name=managed")
	b.await(t, row("archive")+"?.innerText.includes('Creating')")
	b.goTo(t, "#/section?name=packages")
	b.await(t, row(s.Name("function")))

	b.goTo(t, "#/object?"+url.Values{"group": {s.Group}, "kind": {"Team"}, "namespace": {s.NS}, "name": {"payments"}}.Encode())
	b.await(t, "document.querySelector('.cause-main')?.textContent.includes('waits for subnet.status.id') && !!document.querySelector('.node[data-id=\"/network/routes/\"][aria-pressed=\"true\"]')")
	b.await(t, "document.body.innerText.includes('queues: 24 more') && document.getElementById('details-title').textContent === 'routes'")
	b.await(t, "/of 37 resources are not ready/.test(document.querySelector('.summary').textContent)") // the instance, 4 nodes of one object, 30 queues, and 2 of the network that exist or wait
	b.check(t, fits)
	b.examine(t, "oncall-instance")
	shown := terminal(t, s, "why", "team", "payments", "-n", s.NS)
	if !strings.Contains(strings.Join(strings.Fields(shown), " "), "routes of Network shop/payments waits for subnet.status.id, which Subnet shop/payments does not have, although it is ready") {
		t.Errorf("the cause in a terminal is another one:\n%s", shown)
	}
	pictureOf(t, "oncall-instance-wide", shown)
	b.do(t, "document.querySelector('.node[data-id=\"/owners/\"]').click()")
	b.await(t, "document.querySelectorAll('.above .flow').length === 7 && document.getElementById('details-title').textContent === 'owners'")
	b.screenshot(t, "oncall-flows")

	b.goTo(t, "#/definition?"+url.Values{"group": {"kro.run"}, "kind": {"ResourceGraphDefinition"}, "name": {s.Name("team")}}.Encode())
	b.await(t, row("payments")+" && document.querySelectorAll('.graph .node').length === 5")
	b.await(t, "[...document.querySelectorAll('.schema tr')].some(r => r.innerText.includes('spec.owner') && r.innerText.includes('required') && r.innerText.includes('who is called at night'))")
	b.examine(t, "oncall-definition")
	b.requests.check(t, server.URL)

	s.Patch(t, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, s.NS, "old-network", `{"metadata":{"finalizers":null}}`)
}
