package churn

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// rights are all that controllers need to serve the healthy kinds, and to write
// the forbidden ones without reading them.
const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-controllers}
rules:
  - {apiGroups: [kro.run, internal.kro.run, espalier.dev, apiextensions.crossplane.io, pkg.crossplane.io, protection.crossplane.io, $GROUP, leaf.$GROUP, apiextensions.k8s.io, apiregistration.k8s.io, rbac.authorization.k8s.io, ""], resources: ["*"], verbs: ["*"]}
  - {apiGroups: [barred.$GROUP], resources: ["*"], verbs: [get, create, patch, delete]}
  - {nonResourceURLs: ["*"], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-controllers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-controllers}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: $ID-user}]
`

const lacking = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-lacking}
rules: [{apiGroups: [barred.$GROUP], resources: [eksclusters], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-lacking}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-lacking}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: $ID-user}]
`

const barredKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: eksclusters.barred.$GROUP}
spec:
  group: barred.$GROUP
  scope: Namespaced
  names: {kind: EksCluster, listKind: EksClusterList, plural: eksclusters, singular: ekscluster}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// mixed composes a kind that may not be listed beside one that may.
const mixed = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-mixed}
spec:
  schema: {apiVersion: v1alpha1, kind: Mixed, group: $GROUP, spec: {value: string | default=one}}
  resources:
    - id: cluster
      template: {apiVersion: barred.$GROUP/v1, kind: EksCluster, metadata: {name: "${schema.metadata.name}"}, spec: {a: b}}
    - id: note
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-mixed"}, data: {value: "${schema.spec.value}"}}
`

// TestAKindThatMayNotBeListedHoldsUpNothingElse gives the controllers all rights
// but to list one kind, measures how healthy instances fare beside it, and then
// grants it.
func TestAKindThatMayNotBeListedHoldsUpNothingElse(t *testing.T) {
	config := testkit.Exclusive(t)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{client, testkit.Group(t), testkit.Namespace(t, config)}
	ctx := t.Context()
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	grant := func(yaml string) {
		t.Helper()
		for _, o := range testkit.Parse(t, p.text(yaml)) {
			resource := map[string]string{"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}[o.GetKind()]
			_, err := client.Resource(rbac.WithResource(resource)).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test"})
			must(t, "grant", err)
		}
	}
	grant(rights)
	config.Impersonate.UserName = p.text("$ID-user")
	c := run(t, config)
	t.Cleanup(func() { p.clear(t) })

	must(t, "healthy instances", p.born(ctx, t, "a"))
	must(t, "a kind", p.apply(ctx, t, client.Resource(crds), barredKind))
	p.latencies(ctx, t, 50) // warm
	alone := p.latencies(ctx, t, 200)

	must(t, "a definition", p.apply(ctx, t, client.Resource(definitions), mixed))
	must(t, "a definition", await(ctx, client.Resource(definitions), p.text("$ID-mixed"), testkit.IsReady))
	mixes := client.Resource(schema.GroupVersionResource{Group: p.group, Version: "v1alpha1", Resource: "mixeds"}).Namespace(p.ns)
	for i := range 20 {
		must(t, "an instance", p.apply(ctx, t, mixes, fmt.Sprintf("apiVersion: $GROUP/v1alpha1\nkind: Mixed\nmetadata: {name: m%d, namespace: $NS}\n", i)))
	}
	for i := range 20 {
		name := fmt.Sprint("m", i)
		must(t, "the node that can", await(ctx, p.notes(), name+"-mixed", exists))
		must(t, "what is lacking", await(ctx, mixes, name, reason("Forbidden", "list eksclusters.barred."+p.group)))
	}
	beside := p.latencies(ctx, t, 200)
	testkit.Say(t, "churn: from a change to an instance's status, alone: median %s, p90 %s; beside 20 instances of a kind that may not be listed: median %s, p90 %s",
		short(alone[100]), short(alone[180]), short(beside[100]), short(beside[180]))
	if limit := 3*alone[100]/2 + 2*time.Millisecond; beside[100] > limit {
		t.Errorf("the median is %s beside a kind that may not be listed, and %s without", beside[100], alone[100])
	}

	grant(lacking)
	granted := time.Now()
	for i := range 20 {
		must(t, "healed by the role", await(ctx, mixes, fmt.Sprint("m", i), testkit.IsReady))
	}
	healed := time.Since(granted)
	testkit.Say(t, "churn: all healed %s after the role came", short(healed))
	if healed > 5*time.Second {
		t.Errorf("the role was noticed after %s: by a back-off", healed)
	}
	must(t, "what kept an eye on roles is over", c.until(ctx, func() error {
		for _, s := range c.Hub.Stats() {
			if s.Kind.Group == rbac.Group && s.Subscribers > 0 {
				return fmt.Errorf("%s is watched", s.Kind.Kind)
			}
		}
		return nil
	}))
}

// latencies changes the leaf of the instance a and measures until the instance
// shows it, sorted.
func (p *place) latencies(ctx context.Context, t *testing.T, n int) []time.Duration {
	t.Helper()
	events, err := p.vpcs().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	out := make([]time.Duration, 0, n)
	for i := range n {
		id := fmt.Sprintf("%d of %d at %d", i, n, time.Now().UnixNano())
		began := time.Now()
		if _, err := p.subnets().Patch(ctx, "a", types.MergePatchType, []byte(fmt.Sprintf(`{"status":{"id":%q}}`, id)), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		late := time.NewTimer(testkit.Patience)
		for shown := ""; shown != id; {
			select {
			case event := <-events.ResultChan():
				if o, ok := event.Object.(*unstructured.Unstructured); ok {
					shown, _, _ = unstructured.NestedString(o.Object, "status", "subnet")
				}
			case <-late.C:
				t.Fatalf("the instance doesn't show %q", id)
			}
		}
		late.Stop()
		out = append(out, time.Since(began))
	}
	slices.Sort(out)
	return out
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
