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
	role          = v1alpha1.GroupVersion.WithKind("Role")
	xrd           = v1.GroupVersion.WithKind(v1.DefinitionKind)
	composition   = v1.GroupVersion.WithKind(v1.CompositionKind)
	revision      = v1.GroupVersion.WithKind(v1.CompositionRevisionKind)
	function      = pkgv1.GroupVersion.WithKind(pkgv1.FunctionKind)
	environment   = v1beta1.GroupVersion.WithKind(v1beta1.EnvironmentConfigKind)
	graphRevision = schema.GroupVersionKind{Group: "internal.kro.run", Version: "v1alpha1", Kind: "GraphRevision"}
	inUse         = protection.GroupVersion.WithKind(protection.UsageKind)

	managedOfMarket = []schema.GroupVersionKind{bucket, network, role}
)

// market defines shops, which are claimed, and have a bucket, a role that needs the address of the
// bucket, and a counter, which is a composite with a network; and stalls, which are namespaced
// composites with a bucket.
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
` + suite.PatchAndTransform(`
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
`) + suite.AutoReady + "---" +
	suite.Composition("counter", "Counter", suite.PatchAndTransform(`
      - name: network
        base: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Network}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.cidr, toFieldPath: spec.forProvider.cidr}
        - {type: ToCompositeFieldPath, fromFieldPath: status.atProvider.id, toFieldPath: status.id}
`)+suite.AutoReady)

// stalls is the composition of stalls, whose second revision turns versioning on.
var stalls = `
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-stall, labels: {team: a}}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: Stall}
  mode: Pipeline
  pipeline:
` + suite.PatchAndTransform(`
      - name: bucket
        base: {apiVersion: sandbox.espalier.dev/v1alpha1, kind: Bucket, spec: {forProvider: {versioning: false}}}
        patches:
        - {type: ToCompositeFieldPath, fromFieldPath: status.atProvider.url, toFieldPath: status.url}
`) + suite.AutoReady

// marketInstances are a shop and two stalls, one of which has manual updates of its revision, and a
// Usage.
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

// newMarketPlane returns a plane with a market, and with stopped controllers.
func newMarketPlane(t *testing.T, fakeCloud *cloud.Cloud) plane {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	p := newPlane(t, config).withNames(testkit.Namespace(t, config), testkit.Group(t))
	stop := p.run(t, fakeCloud)
	p.apply(t, market)
	p.apply(t, stalls)
	p.apply(t, marketInstances)
	p.awaitMarket(t)
	first := field(p.Get(t, p.kind("Stall"), p.ns, "stays"), "spec", "crossplane", "compositionRevisionRef", "name")
	p.apply(t, strings.Replace(stalls, "versioning: false", "versioning: true", 1))
	p.Await(t, p.kind("Stall"), p.ns, "follows", func(o *unstructured.Unstructured) error {
		if now := field(o, "spec", "crossplane", "compositionRevisionRef", "name"); now == first {
			return errors.New("has the first revision still")
		}
		return nil
	})
	p.awaitMarket(t)
	stop()
	return p
}

// awaitMarket waits until the market is ready, and each part is controlled by its composite.
func (p plane) awaitMarket(t *testing.T) {
	t.Helper()
	shop := p.AwaitReady(t, p.kind("Shop"), p.ns, "shop")
	composite := p.AwaitReady(t, p.kind("XShop"), "", field(shop, "spec", "resourceRef", "name"))
	counter := p.awaitPart(t, composite, p.kind("Counter"))
	p.AwaitReady(t, counter.GroupVersionKind(), p.ns, counter.GetName())
	parts := []*unstructured.Unstructured{p.awaitPart(t, composite, bucket), p.awaitPart(t, composite, role), p.awaitPart(t, counter, network)}
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
			return fmt.Errorf("Ready of the Usage has the reason %q", got)
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
		return fmt.Errorf("refers to no %s yet", gvk.Kind)
	})
	return p.awaitOwned(t, gvk, p.ns, name, of)
}

// awaitOwned waits until an object is controlled by another, by its UID.
func (p plane) awaitOwned(t *testing.T, gvk schema.GroupVersionKind, namespace, name string, by *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	return p.Await(t, gvk, namespace, name, func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		if owner := metav1.GetControllerOf(o); owner == nil || owner.UID != by.GetUID() {
			return fmt.Errorf("its controller is %v, not %s with UID %s", owner, by.GetName(), by.GetUID())
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
	add := func(gvk schema.GroupVersionKind, namespace string, value func(*unstructured.Unstructured) string) {
		for name, o := range p.list(t, gvk, namespace) {
			out[gvk.Kind+" "+name] = value(o)
		}
	}
	spec := func(o *unstructured.Unstructured) string { return fmt.Sprint(o.Object["spec"]) }
	for _, gvk := range slices.Concat(managedOfMarket, []schema.GroupVersionKind{p.kind("Shop"), p.kind("Counter"), p.kind("Stall"), inUse}) {
		add(gvk, p.ns, spec)
	}
	add(p.kind("XShop"), "", spec)
	for _, gvk := range []schema.GroupVersionKind{composition, revision, xrd, function} {
		add(gvk, "", spec)
	}
	add(environment, "", func(o *unstructured.Unstructured) string { return fmt.Sprint(o.Object["data"]) })
	return out
}

// loseMarket deletes the market's objects and nothing in the cloud, as the loss of a cluster
// does. A Hold suspends the controllers meanwhile.
func (p plane) loseMarket(t *testing.T) {
	t.Helper()
	p.createHold(t, "close")
	p.awaitSuspended(t, "close")
	p.eraseMarket(t)
	for _, name := range []string{"xshops.", "counters.", "stalls."} {
		p.Delete(t, xrd, "", name+p.group)
		p.AwaitGone(t, xrd, "", name+p.group)
	}
	p.Delete(t, hold, "", "close")
}

// eraseMarket deletes the instances of the market, and its compositions.
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

// deleteMarket deletes the market as its users do, and checks that the cloud is empty then.
func (p plane) deleteMarket(t *testing.T, fakeCloud *cloud.Cloud) {
	t.Helper()
	p.Delete(t, inUse, p.ns, "stays")
	p.AwaitGone(t, inUse, p.ns, "stays")
	p.Delete(t, p.kind("Shop"), p.ns, "shop")
	for _, name := range []string{"stays", "follows"} {
		p.Delete(t, p.kind("Stall"), p.ns, name)
		p.AwaitGone(t, p.kind("Stall"), p.ns, name)
	}
	p.AwaitGone(t, p.kind("Shop"), p.ns, "shop")
	if left := serials(fakeCloud); len(left) > 0 {
		t.Errorf("the cloud still has %v", left)
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
			return fmt.Errorf("the field is still %s", field(was, path...))
		}
		return nil
	}
}
