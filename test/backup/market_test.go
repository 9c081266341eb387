package backup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/apiextensions/v1beta1"
	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	protection "github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

var (
	role        = v1alpha1.GroupVersion.WithKind("Role")
	xrd         = v1.GroupVersion.WithKind(v1.DefinitionKind)
	composition = v1.GroupVersion.WithKind(v1.CompositionKind)
	revision    = v1.GroupVersion.WithKind(v1.CompositionRevisionKind)
	function    = pkgv1.GroupVersion.WithKind(pkgv1.FunctionKind)
	environment = v1beta1.GroupVersion.WithKind(v1beta1.EnvironmentConfigKind)
	inUse       = protection.GroupVersion.WithKind(protection.UsageKind)

	managedOfMarket = []schema.GroupVersionKind{bucket, network, role}
)

// market are shops, which are claimed, and have a bucket, a role that cannot be told before
// the bucket has its address, and a counter, which is a composite with a network; and
// stalls, which are composites of a namespace with a bucket.
var market = `
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata: {name: function-patch-and-transform}
spec: {package: "example.com/function-patch-and-transform:v1"}
---
apiVersion: apiextensions.crossplane.io/v1beta1
kind: EnvironmentConfig
metadata: {name: fairground}
data: {place: {size: 12, open: true}}
` + "---" +
	suite.XRD("v1", "XShop", "size: {type: string}", "url: {type: string}", "claimNames: {kind: Shop, plural: shops}") + "---" +
	suite.XRD("v2", "Counter", "cidr: {type: string}", "id: {type: string}", "scope: Namespaced") + "---" +
	suite.XRD("v2", "Stall", "", "url: {type: string}", "scope: Namespaced") + `---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-shop, annotations: {example.com/of: somebody}}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: XShop}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: bucket
        base: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket, spec: {forProvider: {versioning: false}}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.claimRef.namespace, toFieldPath: metadata.namespace}
        - {type: ToCompositeFieldPath, fromFieldPath: status.atProvider.url, toFieldPath: status.url}
      - name: writer
        base: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Role, spec: {forProvider: {trust: writers}}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.claimRef.namespace, toFieldPath: metadata.namespace}
        - {type: FromCompositeFieldPath, fromFieldPath: status.url, toFieldPath: "spec.forProvider.policies[0]", policy: {fromFieldPath: Required}}
      - name: counter
        base: {apiVersion: $GROUP/v1alpha1, kind: Counter, spec: {cidr: 10.0.0.0/16}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.claimRef.namespace, toFieldPath: metadata.namespace}
  - step: ready
    functionRef: {name: function-auto-ready}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-counter}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: Counter}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: network
        base: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Network}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.cidr, toFieldPath: spec.forProvider.cidr}
        - {type: ToCompositeFieldPath, fromFieldPath: status.atProvider.id, toFieldPath: status.id}
  - step: ready
    functionRef: {name: function-auto-ready}
`

// stalls is their composition, whose second state has the bucket keep what is overwritten.
const stalls = `
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-stall, labels: {team: a}}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: Stall}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: bucket
        base: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket, spec: {forProvider: {versioning: false}}}
        patches:
        - {type: ToCompositeFieldPath, fromFieldPath: status.atProvider.url, toFieldPath: status.url}
  - step: ready
    functionRef: {name: function-auto-ready}
`

// marketInstances are a shop and two stalls, one of which stays with its revision, and is in use.
const marketInstances = `
apiVersion: $GROUP/v1alpha1
kind: Shop
metadata: {name: shop, namespace: $NS, labels: {team: a}}
spec: {size: small}
---
apiVersion: $GROUP/v1alpha1
kind: Stall
metadata: {name: stays, namespace: $NS}
spec: {crossplane: {compositionUpdatePolicy: Manual}}
---
apiVersion: $GROUP/v1alpha1
kind: Stall
metadata: {name: follows, namespace: $NS}
spec: {}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: stays, namespace: $NS}
spec:
  reason: it is open
  of: {apiVersion: $GROUP/v1alpha1, kind: Stall, resourceRef: {name: stays}}
`

// newMarketPlane makes a plane with a market, and stops its controllers.
func newMarketPlane(t *testing.T, sky *cloud.Cloud) plane {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	p := newPlane(t, config).withNames(testkit.Namespace(t, config), testkit.Group(t))
	stop := p.run(t, sky)
	p.apply(t, market)
	p.apply(t, stalls)
	p.apply(t, marketInstances)
	p.awaitMarket(t)
	first := field(p.Get(t, p.kind("Stall"), p.ns, "stays"), "spec", "crossplane", "compositionRevisionRef", "name")
	p.apply(t, strings.Replace(stalls, "versioning: false", "versioning: true", 1))
	p.Await(t, p.kind("Stall"), p.ns, "follows", func(o *unstructured.Unstructured) error {
		if now := field(o, "spec", "crossplane", "compositionRevisionRef", "name"); now == first {
			return errors.New("it doesn't follow yet")
		}
		return nil
	})
	p.awaitMarket(t)
	stop()
	return p
}

// awaitMarket waits until the market is ready, and each part is controlled by the current
// incarnation of its composite.
func (p plane) awaitMarket(t *testing.T) {
	t.Helper()
	shop := p.AwaitReady(t, p.kind("Shop"), p.ns, "shop")
	whole := p.AwaitReady(t, p.kind("XShop"), "", field(shop, "spec", "resourceRef", "name"))
	counter := p.awaitPart(t, whole, p.kind("Counter"))
	p.AwaitReady(t, counter.GroupVersionKind(), p.ns, counter.GetName())
	parts := []*unstructured.Unstructured{p.awaitPart(t, whole, bucket), p.awaitPart(t, whole, role), p.awaitPart(t, counter, network)}
	for _, name := range []string{"stays", "follows"} {
		parts = append(parts, p.awaitPart(t, p.AwaitReady(t, p.kind("Stall"), p.ns, name), bucket))
	}
	for _, o := range parts {
		p.AwaitReady(t, o.GroupVersionKind(), p.ns, o.GetName())
	}
	for _, c := range p.list(t, composition, "") {
		for _, r := range p.list(t, revision, "") {
			if r.GetLabels()[v1.CompositionNameLabel] == c.GetName() {
				p.awaitOwned(t, revision, "", r.GetName(), c)
			}
		}
	}
	p.Await(t, inUse, p.ns, "stays", func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionReason(o, "Ready"); got != "Available" {
			return fmt.Errorf("the usage is %s", got)
		}
		return nil
	})
}

// awaitPart waits for the composed resource of a kind that the composite refers to, until it
// refers to the composite.
func (p plane) awaitPart(t *testing.T, of *unstructured.Unstructured, gvk schema.GroupVersionKind) *unstructured.Unstructured {
	t.Helper()
	name := ""
	p.Await(t, of.GroupVersionKind(), of.GetNamespace(), of.GetName(), func(o *unstructured.Unstructured) error {
		for _, at := range [][]string{{"spec", "resourceRefs"}, {"spec", "crossplane", "resourceRefs"}} {
			refs, _, _ := unstructured.NestedSlice(o.Object, at...)
			for _, ref := range refs {
				if ref, ok := ref.(map[string]any); ok && ref["kind"] == gvk.Kind {
					name, _ = ref["name"].(string)
					return nil
				}
			}
		}
		return fmt.Errorf("it has no %s yet", gvk.Kind)
	})
	return p.awaitOwned(t, gvk, p.ns, name, of)
}

// awaitOwned waits until an object is controlled by another, in its present incarnation.
func (p plane) awaitOwned(t *testing.T, gvk schema.GroupVersionKind, namespace, name string, by *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	return p.Await(t, gvk, namespace, name, func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("it isn't there")
		}
		if owner := metav1.GetControllerOf(o); owner == nil || owner.UID != by.GetUID() {
			return fmt.Errorf("it is controlled by %v, not by %s %s", owner, by.GetName(), by.GetUID())
		}
		return nil
	})
}

func field(o *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(o.Object, path...)
	return value
}

// inventory lists the market's objects by kind, with their relevant fields.
func (p plane) inventory(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	note := func(gvk schema.GroupVersionKind, namespace string, says func(*unstructured.Unstructured) string) {
		for name, o := range p.list(t, gvk, namespace) {
			out[gvk.Kind+" "+name] = says(o)
		}
	}
	spec := func(o *unstructured.Unstructured) string { return fmt.Sprint(o.Object["spec"]) }
	for _, gvk := range slices.Concat(managedOfMarket, []schema.GroupVersionKind{p.kind("Shop"), p.kind("Counter"), p.kind("Stall"), inUse}) {
		note(gvk, p.ns, spec)
	}
	note(p.kind("XShop"), "", spec)
	for _, gvk := range []schema.GroupVersionKind{composition, revision, xrd, function} {
		note(gvk, "", spec)
	}
	note(environment, "", func(o *unstructured.Unstructured) string { return fmt.Sprint(o.Object["data"]) })
	return out
}

// loseMarket deletes the market's objects and nothing in the cloud, as the loss of a cluster
// does. A Hold suspends running controllers meanwhile.
func (p plane) loseMarket(t *testing.T) {
	t.Helper()
	p.putHold(t, "close")
	p.awaitSuspended(t, "close")
	p.eraseMarket(t)
	for _, name := range []string{"xshops.", "counters.", "stalls."} {
		p.Delete(t, xrd, "", name+p.group)
		p.AwaitGone(t, xrd, "", name+p.group)
	}
	p.Delete(t, hold, "", "close")
}

// eraseMarket deletes what is in the market, and what it is composed by.
func (p plane) eraseMarket(t *testing.T) {
	t.Helper()
	for _, gvk := range slices.Concat([]schema.GroupVersionKind{inUse}, managedOfMarket, []schema.GroupVersionKind{p.kind("Counter"), p.kind("Stall")}) {
		for _, o := range p.list(t, gvk, p.ns) {
			p.erase(t, o)
		}
	}
	for _, o := range p.list(t, p.kind("XShop"), "") {
		p.erase(t, o)
	}
	for _, o := range p.list(t, p.kind("Shop"), p.ns) {
		p.erase(t, o)
	}
	for _, b := range p.bindings(t) {
		p.erase(t, b)
	}
	for _, gvk := range []schema.GroupVersionKind{revision, composition, function, environment} {
		for _, o := range p.list(t, gvk, "") {
			p.erase(t, o)
		}
	}
}

// deleteMarket deletes the market as its users do.
func (p plane) deleteMarket(t *testing.T, sky *cloud.Cloud) {
	t.Helper()
	p.Delete(t, inUse, p.ns, "stays")
	p.AwaitGone(t, inUse, p.ns, "stays")
	p.Delete(t, p.kind("Shop"), p.ns, "shop")
	for _, name := range []string{"stays", "follows"} {
		p.Delete(t, p.kind("Stall"), p.ns, name)
		p.AwaitGone(t, p.kind("Stall"), p.ns, name)
	}
	p.AwaitGone(t, p.kind("Shop"), p.ns, "shop")
	if left := serials(sky); len(left) > 0 {
		t.Errorf("left in the cloud: %v", left)
	}
	p.awaitNoBindings(t)
	for _, name := range []string{"xshops.", "counters.", "stalls."} {
		p.Delete(t, xrd, "", name+p.group)
		p.AwaitGone(t, xrd, "", name+p.group)
	}
	for _, o := range p.list(t, composition, "") {
		p.erase(t, o)
	}
	p.Delete(t, function, "", "function-patch-and-transform")
	p.Delete(t, environment, "", "fairground")
}

// fieldChanged checks that a field has another value than before.
func fieldChanged(was *unstructured.Unstructured, path ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if field(o, path...) == field(was, path...) {
			return fmt.Errorf("it is still %s", field(was, path...))
		}
		return nil
	}
}

// awaitRevision waits for the first revision of the stalls' composition.
func (p plane) awaitRevision(t *testing.T) {
	t.Helper()
	err := testkit.AwaitList(t.Context(), p.Resource(t, revision, ""), metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
		if len(objects) == 0 {
			return errors.New("there is no revision yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
