package managedfields_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/managedfields"
)

func TestComposedObjectsAreAppliedByTheDigestOfTheirComposite(t *testing.T) {
	app := schema.GroupKind{Group: "platform.example.org", Kind: "App"}
	const want = "apiextensions.crossplane.io/composed/e9b30d92e4cbf0f7169fb8cf385820791a5c5275f2e94bf529cbf5b9b3d794e1"
	if got := managedfields.ComposedManager(app, "shop"); got != want { // as Crossplane 2.4 has recorded it
		t.Errorf("got %s", got)
	}
}

// What was transferred is given back: each field has the managers that it had, of which
// Crossplane's and kro's own are told by what they write.
func TestRestore(t *testing.T) {
	const (
		shared = `"f:metadata":{"f:annotations":{"f:applyset.kubernetes.io/additional-namespaces":{},"f:applyset.kubernetes.io/tooling":{}},"f:labels":{"f:applyset.kubernetes.io/id":{}}}`
		apply  = metav1.ManagedFieldsOperationApply
		update = metav1.ManagedFieldsOperationUpdate
	)
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "v1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	controlled := func(o *unstructured.Unstructured) {
		yes := true
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "platform.example.org/v1", Kind: "App", Name: "shop", Controller: &yes}})
	}
	ofStringData := func(o *unstructured.Unstructured) {
		o.Object["kind"] = "Secret"
		o.SetAnnotations(map[string]string{"espalier.dev/string-data": "true"})
	}
	cases := map[string]struct {
		reason string
		engine managedfields.Engine
		object func(*unstructured.Unstructured)
		has    []metav1.ManagedFieldsEntry
		want   []metav1.ManagedFieldsEntry
	}{
		"A composed object": {
			"its composite applies it", managedfields.Crossplane, controlled,
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset", apply, "", `{"f:data":{}}`), entry("kubelet", update, "", `{"f:x":{}}`)},
			[]metav1.ManagedFieldsEntry{entry("kubelet", update, "", `{"f:x":{}}`), entry(managedfields.ComposedManager(schema.GroupKind{Group: "platform.example.org", Kind: "App"}, "shop"), apply, "", `{"f:data":{}}`)},
		},
		"The composite of a claim": {
			"the claim applies it", managedfields.Crossplane,
			func(o *unstructured.Unstructured) {
				o.Object["spec"] = map[string]any{"claimRef": map[string]any{"apiVersion": "example.org/v1", "kind": "Claim", "name": "x"}}
			},
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset", apply, "", `{"f:spec":{"f:size":{}}}`)},
			[]metav1.ManagedFieldsEntry{entry("apiextensions.crossplane.io/claim", apply, "", `{"f:spec":{"f:size":{}}}`)},
		},
		"A claim that a graph composes": {
			"the graph's engine goes on to apply it", managedfields.Crossplane,
			func(o *unstructured.Unstructured) {
				o.SetLabels(map[string]string{"kro.run/owned": "true", "kro.run/node-id": "database"})
			},
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset", apply, "", `{"f:spec":{"f:size":{}}}`)},
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset", apply, "", `{"f:spec":{"f:size":{}}}`)},
		},
		"A Secret with connection details": {
			"Crossplane updates it", managedfields.Crossplane,
			func(o *unstructured.Unstructured) {
				controlled(o)
				o.Object["kind"], o.Object["type"] = "Secret", "connection.crossplane.io/v1alpha1"
			},
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset", apply, "", `{"f:data":{}}`), entry("kro.run/applyset-parent", update, "", `{"f:type":{}}`)},
			[]metav1.ManagedFieldsEntry{entry("crossplane", update, "", `{"f:data":{},"f:type":{}}`)},
		},
		"A Secret of stringData": {
			"its composite applies stringData again", managedfields.Crossplane, func(o *unstructured.Unstructured) { controlled(o); ofStringData(o) },
			[]metav1.ManagedFieldsEntry{entry("kubelet", update, "", `{"f:data":{"f:b":{}}}`), entry("kro.run/applyset", apply, "", `{"f:data":{"f:a":{}},"f:type":{}}`)},
			[]metav1.ManagedFieldsEntry{entry("kubelet", update, "", `{"f:data":{"f:b":{}}}`), entry(managedfields.ComposedManager(schema.GroupKind{Group: "platform.example.org", Kind: "App"}, "shop"), apply, "", `{"f:stringData":{"f:a":{}},"f:type":{}}`)},
		},
		"A Secret of data": {
			"nothing says that it is of stringData", managedfields.Crossplane,
			func(o *unstructured.Unstructured) { controlled(o); o.Object["kind"] = "Secret" },
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset", apply, "", `{"f:data":{"f:a":{}}}`)},
			[]metav1.ManagedFieldsEntry{entry(managedfields.ComposedManager(schema.GroupKind{Group: "platform.example.org", Kind: "App"}, "shop"), apply, "", `{"f:data":{"f:a":{}}}`)},
		},
		"A Secret of a graph's stringData": {
			"kro applies it by the same name", managedfields.KRO, ofStringData,
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset", apply, "", `{"f:data":{"f:a":{}}}`)},
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset", apply, "", `{"f:stringData":{"f:a":{}}}`)},
		},
		"A Secret of a graph's stringData that stays": {
			"only Crossplane's objects are released", managedfields.Crossplane,
			func(o *unstructured.Unstructured) {
				ofStringData(o)
				o.SetLabels(map[string]string{"kro.run/owned": "true", "kro.run/node-id": "secret"})
			},
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset", apply, "", `{"f:data":{"f:a":{}}}`)},
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset", apply, "", `{"f:data":{"f:a":{}}}`)},
		},
		"A composite": {
			"it applies its references, and updates the rest", managedfields.Crossplane,
			func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"composite.apiextensions.crossplane.io"}) },
			[]metav1.ManagedFieldsEntry{
				entry("kro.run/applyset-parent", update, "", `{"f:spec":{"f:compositionRef":{},"f:resourceRefs":{}}}`),
				entry("kro.run/status", update, "status", `{"f:status":{"f:address":{},"f:conditions":{}}}`),
			},
			[]metav1.ManagedFieldsEntry{
				entry("apiextensions.crossplane.io/composite", apply, "", `{"f:spec":{"f:resourceRefs":{}}}`),
				entry("crossplane", update, "", `{"f:spec":{"f:compositionRef":{}}}`),
				entry("crossplane", update, "status", `{"f:status":{"f:conditions":{}}}`),
				entry("apiextensions.crossplane.io/composite", apply, "status", `{"f:status":{"f:address":{}}}`),
			},
		},
		"A definition": {
			"the entry that is there gets the fields, wherever it is in the list", managedfields.Crossplane, func(*unstructured.Unstructured) {},
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset-parent", apply, "", `{"f:spec":{"f:versions":{}}}`), entry("crossplane", update, "", `{"f:spec":{"f:group":{}}}`)},
			[]metav1.ManagedFieldsEntry{entry("crossplane", update, "", `{"f:spec":{"f:group":{},"f:versions":{}}}`)},
		},
		"An instance of kro": {
			"its labeller has what isn't of the inventory, and both have the rest", managedfields.KRO,
			func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"applyset.kubernetes.io/id": "x"}) },
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset-parent", apply, "",
				`{"f:metadata":{"f:annotations":{"f:applyset.kubernetes.io/additional-namespaces":{},"f:applyset.kubernetes.io/contains-group-kinds":{},"f:applyset.kubernetes.io/tooling":{}},"f:finalizers":{"v:\"kro.run/finalizer\"":{}},"f:labels":{"f:applyset.kubernetes.io/id":{},"f:kro.run/owned":{}}}}`)},
			[]metav1.ManagedFieldsEntry{
				entry("kro.run/applyset-parent", apply, "", `{"f:metadata":{"f:annotations":{"f:applyset.kubernetes.io/additional-namespaces":{},"f:applyset.kubernetes.io/contains-group-kinds":{},"f:applyset.kubernetes.io/tooling":{}},"f:labels":{"f:applyset.kubernetes.io/id":{}}}}`),
				entry("kro.run/labeller", apply, "", `{"f:metadata":{"f:annotations":{"f:applyset.kubernetes.io/additional-namespaces":{},"f:applyset.kubernetes.io/tooling":{}},"f:finalizers":{"v:\"kro.run/finalizer\"":{}},"f:labels":{"f:applyset.kubernetes.io/id":{},"f:kro.run/owned":{}}}}`),
			},
		},
		"An instance of kro that has a labeller": {
			"it is as kro left it", managedfields.KRO,
			func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"applyset.kubernetes.io/id": "x"}) },
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset-parent", apply, "", `{`+shared+`}`), entry("kro", update, "status", `{"f:status":{}}`)},
			[]metav1.ManagedFieldsEntry{entry("kro.run/applyset-parent", apply, "", `{`+shared+`}`), entry("kro", update, "status", `{"f:status":{}}`)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Thing"}}
			tc.object(o)
			o.SetManagedFields(tc.has)
			entries, changed := managedfields.Restore(o, tc.engine, "")
			if diff := cmp.Diff(tc.want, entries); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if wanted := cmp.Diff(tc.has, tc.want) != ""; changed != wanted {
				t.Errorf("%s: changed is %t", tc.reason, changed)
			}
			o.SetManagedFields(entries)
			if again, changed := managedfields.Restore(o, tc.engine, ""); changed {
				t.Errorf("there is more to restore: %v", again)
			}
		})
	}
}

// TestAGraphTakesItsFieldsBack: kro applies the objects of each of its Graphs as a manager of the Graph's.
func TestAGraphTakesItsFieldsBack(t *testing.T) {
	const graph = "kro-graphengine.tmpl.0123456789ab"
	entry := func(manager string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:data":{}}`)}}
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{entry("kubectl"), entry(graph)})
	taken, changed := managedfields.Selector(managedfields.IsForeign).Transfer(o)
	if diff := cmp.Diff([]metav1.ManagedFieldsEntry{entry("kubectl"), entry("kro.run/applyset")}, taken); diff != "" || !changed {
		t.Errorf("taken over: changed %t, -want +got:\n%s", changed, diff)
	}
	if _, changed := managedfields.Selector(managedfields.IsFormer).Transfer(o); changed {
		t.Error("a Graph that another Graph stamps transfers the fields of that")
	}
	o.SetManagedFields(taken)
	back, changed := managedfields.Restore(o, managedfields.KRO, graph)
	if diff := cmp.Diff([]metav1.ManagedFieldsEntry{entry("kubectl"), entry(graph)}, back); diff != "" || !changed {
		t.Errorf("given back: changed %t, -want +got:\n%s", changed, diff)
	}
}
