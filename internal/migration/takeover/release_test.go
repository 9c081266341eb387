package takeover_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/migration/takeover"
)

func TestReleased(t *testing.T) {
	cases := map[string]struct {
		reason    string
		engine    managedfields.Engine
		has, want string
		graph     string // the manager of its Graph
	}{
		"A child of a composite": {
			"Espalier's labels and annotations are removed, those of Crossplane and users stay", managedfields.Crossplane,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a,
 labels: {crossplane.io/composite: shop, applyset.kubernetes.io/part-of: x, own: own},
 annotations: {crossplane.io/composition-resource-name: a, espalier.dev/applied: x, espalier.dev/depends-on: "", internal.kro.run/apply-order: "1", espalier.dev/protect: "yes"},
 ownerReferences: [{apiVersion: example.org/v1, kind: App, name: shop, uid: u, controller: true}, {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: apps.example.org, uid: v}]}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a,
 labels: {crossplane.io/composite: shop, own: own},
 annotations: {crossplane.io/composition-resource-name: a, espalier.dev/protect: "yes"},
 ownerReferences: [{apiVersion: example.org/v1, kind: App, name: shop, uid: u, controller: true}]}}`, "",
		},
		"The Secret of a claim": {
			"its controller is the only link to the claim", managedfields.Crossplane,
			`{apiVersion: v1, kind: Secret, type: connection.crossplane.io/v1alpha1, metadata: {name: a,
 labels: {kro.run/node-id: connection, applyset.kubernetes.io/part-of: x, crossplane.io/claim-name: c, crossplane.io/claim-namespace: team},
 annotations: {espalier.dev/applied: x}}}`,
			`{apiVersion: v1, kind: Secret, type: connection.crossplane.io/v1alpha1, metadata: {name: a}}`, "",
		},
		"An owner reference that another client set": {
			"an object that Espalier does not compose keeps it", managedfields.Crossplane,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, ownerReferences: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: b, uid: v}]}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, ownerReferences: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: b, uid: v}]}}`, "",
		},
		"A claim that a graph composes": {
			"labels and annotations of the graph stay", managedfields.Crossplane,
			`{apiVersion: example.org/v1, kind: Claim, metadata: {name: a,
 labels: {kro.run/owned: "true", kro.run/node-id: db, applyset.kubernetes.io/part-of: x, applyset.kubernetes.io/id: other},
 annotations: {espalier.dev/applied: x, internal.kro.run/apply-order: "1", applyset.kubernetes.io/tooling: espalier/1}}}`,
			`{apiVersion: example.org/v1, kind: Claim, metadata: {name: a,
 labels: {kro.run/owned: "true", kro.run/node-id: db, applyset.kubernetes.io/part-of: x},
 annotations: {espalier.dev/applied: x, internal.kro.run/apply-order: "1"}}}`, "",
		},
		"An instance of kro": {
			"the inventory stays, its digest goes", managedfields.KRO,
			`{apiVersion: example.org/v1, kind: App, metadata: {name: a,
 labels: {applyset.kubernetes.io/id: x, kro.run/owned: "true"},
 annotations: {applyset.kubernetes.io/contains-group-kinds: ConfigMap, internal.kro.run/applyset-inventory-hash: abc, espalier.dev/deletion-defaults: x}}}`,
			`{apiVersion: example.org/v1, kind: App, metadata: {name: a,
 labels: {applyset.kubernetes.io/id: x, kro.run/owned: "true"},
 annotations: {applyset.kubernetes.io/contains-group-kinds: ConfigMap}}}`, "",
		},
		"An instance that kro wrote last": {
			"its digest is kro's own", managedfields.KRO,
			`{apiVersion: example.org/v1, kind: App, metadata: {name: a, annotations: {internal.kro.run/applyset-inventory-hash: "sha256:abc"}}}`,
			`{apiVersion: example.org/v1, kind: App, metadata: {name: a, annotations: {internal.kro.run/applyset-inventory-hash: "sha256:abc"}}}`, "",
		},
		"A child of an instance of kro": {
			"Espalier's owner references are removed, since kro sets none", managedfields.KRO,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a,
 labels: {kro.run/instance-kind: App, kro.run/instance-name: shop},
 annotations: {espalier.dev/applied: x},
 ownerReferences: [{apiVersion: example.org/v1, kind: App, name: shop, uid: u}, {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: apps.example.org, uid: v}, {apiVersion: v1, kind: Node, name: node, uid: w}]}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a,
 labels: {kro.run/instance-kind: App, kro.run/instance-name: shop},
 ownerReferences: [{apiVersion: v1, kind: Node, name: node, uid: w}]}}`, "",
		},
		"A Graph": {
			"kro keeps no ApplySet for it", managedfields.KRO,
			`{apiVersion: kro.run/v1alpha1, kind: Graph, metadata: {name: a, finalizers: [kro.run/graph-finalizer],
 labels: {applyset.kubernetes.io/id: x, kro.run/owned: "true", kro.run/kro-version: v, own: own},
 annotations: {applyset.kubernetes.io/contains-group-kinds: ConfigMap, applyset.kubernetes.io/tooling: kro/v, internal.kro.run/applyset-inventory-hash: x}}}`,
			`{apiVersion: kro.run/v1alpha1, kind: Graph, metadata: {name: a, finalizers: [kro.run/graph-finalizer], labels: {own: own}}}`, "",
		},
		"A single object of a Graph": {
			"kro says only on items of which Graph they are", managedfields.KRO,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {kro.run/instance-id: u, kro.run/node-id: web}}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {kro.run/node-id: web}}}`, "kro-graphengine.tmpl.0123456789ab",
		},
		"An item of a Graph": {
			"kro refuses one of an ApplySet", managedfields.KRO,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a,
 labels: {applyset.kubernetes.io/part-of: x, kro.run/owned: "true", kro.run/instance-kind: Graph, kro.run/instance-id: u, kro.run/node-id: web, kro.run/collection-index: "0", kro.run/collection-size: "1", own: own},
 annotations: {espalier.dev/applied: x, espalier.dev/signature: x, internal.kro.run/node-path: web, internal.kro.run/apply-order: "1"}}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a,
 labels: {kro.run/instance-id: u, kro.run/node-id: web, kro.run/collection-index: "0", kro.run/collection-size: "1", own: own},
 annotations: {internal.kro.run/node-path: web, internal.kro.run/apply-order: "1"}}}`, "kro-graphengine.tmpl.0123456789ab",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := parsed(t, tc.has)
			before := o.DeepCopy()
			got, changed := takeover.Released(o, tc.engine, tc.graph)
			if diff := cmp.Diff(before, o); diff != "" {
				t.Errorf("Released modified its argument:\n%s", diff)
			}
			want := parsed(t, tc.want)
			bare := func(o *unstructured.Unstructured) map[string]any { o.SetManagedFields(nil); return o.Object }
			if diff := cmp.Diff(bare(want), bare(got)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if changed != (tc.has != tc.want) {
				t.Errorf("changed is %t", changed)
			}
			if _, again := takeover.Released(got, tc.engine, tc.graph); again {
				t.Error("a second call changes the object again")
			}
		})
	}
}
