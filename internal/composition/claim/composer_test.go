package claim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/claim"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

// world is one with some objects, by kind, namespace and name.
type world struct {
	objects map[plan.Need]*unstructured.Unstructured
}

func (w *world) read(need plan.Need) plan.Lookup { return plan.Lookup{Object: w.objects[need]} }

func parse(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(raw)
	}
	if err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	return o
}

func definition() *v1.CompositeResourceDefinition {
	d := &v1.CompositeResourceDefinition{}
	d.Spec.Group, d.Spec.Scope = "example.com", v1.LegacyClusterScope
	d.Spec.Names.Kind, d.Spec.Names.Plural = "XStore", "xstores"
	d.Spec.Versions = []v1.DefinitionVersion{{Name: "v1", Served: true, Referenceable: true}}
	return d
}

// compose composes a claim that has a composite, if that isn't nil, in a world.
func compose(t *testing.T, of, composite *unstructured.Unstructured, w *world) plan.Desired {
	t.Helper()
	facts := plan.Facts{Instance: of, Owned: map[string][]*unstructured.Unstructured{}}
	if composite != nil {
		owner := inventory.OwnerOf(of, object.Definition{Dialect: object.ClaimDialect}, "")
		owner.Mark(composite, inventory.Place{Node: "composite"})
		facts.Owned["composite"] = []*unstructured.Unstructured{composite}
	}
	desired, err := instance.ComposeReading(t.Context(), &claim.Composer{Definition: definition(), Keys: signing.Keys()}, facts, w.read)
	if err != nil {
		t.Fatal(err)
	}
	return desired
}

func TestACompositeHasTheNameOfItsClaimAndMore(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("a", 60)
	for i, name := range []string{"x", "x", "z", long + "1", long + "2", "dotted." + strings.Repeat("b", 50) + "." + strings.Repeat("c", 50)} {
		of := parse("{apiVersion: example.com/v1, kind: Store, metadata: {namespace: a, name: " + name + "}}")
		of.SetUID(types.UID(fmt.Sprint("uid", i)))
		got := compose(t, of, nil, &world{}).Nodes[0].Object.GetName()
		if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 || len(got) > 63 {
			t.Errorf("%s: %s: %v", name, got, problems)
		}
		if !strings.HasPrefix(got, name[:min(len(name), 40)]) {
			t.Errorf("%s has the composite %s", name, got)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%s and %s have the composite %s", name, other, got)
		}
		seen[got] = name
		if again := compose(t, of.DeepCopy(), nil, &world{}).Nodes[0].Object.GetName(); again != got {
			t.Errorf("%s has the composite %s, and later %s", name, got, again)
		}
	}
	named := parse("{apiVersion: example.com/v1, kind: Store, metadata: {namespace: a, name: x, uid: u}, spec: {resourceRef: {apiVersion: example.com/v1, kind: XStore, name: mine}}}")
	if node := compose(t, named, nil, &world{}).Nodes[0]; node.Object.GetName() != "mine" || !node.AdoptClaimable {
		t.Errorf("it has the composite %s", node.Object.GetName())
	}
}

// TestWhatAClaimPassesOn is of metadata and spec.
func TestWhatAClaimPassesOn(t *testing.T) {
	of := parse(`
apiVersion: example.com/v1
kind: Store
metadata:
  namespace: a
  name: x
  uid: u
  labels: {team: a, app.kubernetes.io/name: shop, crossplane.io/composite: other, kro.run/owned: 'true', applyset.kubernetes.io/id: theirs}
  annotations: {note: hello, crossplane.io/external-name: outside, crossplane.io/paused: 'false', kubectl.kubernetes.io/last-applied-configuration: '{}', espalier.dev/deletion-policy: Orphan, espalier.dev/protect: ledger}
spec:
  size: small
  compositionRef: {name: mine}
  compositionUpdatePolicy: Automatic
  compositionRevisionRef: {name: mine-1}
  compositeDeletePolicy: Foreground
  resourceRef: {apiVersion: example.com/v1, kind: XStore, name: x-composite}
  writeConnectionSecretToRef: {name: details}
`)
	o := compose(t, of, nil, &world{}).Nodes[0].Object
	want := map[string]any{
		"labels":      map[string]string{"team": "a", "crossplane.io/composite": "x-composite"},
		"annotations": map[string]string{"note": "hello", "crossplane.io/external-name": "outside"},
		"spec": map[string]any{
			"size": "small", "compositionRef": map[string]any{"name": "mine"}, "compositionUpdatePolicy": "Automatic",
			"claimRef": map[string]any{"apiVersion": "example.com/v1", "kind": "Store", "namespace": "a", "name": "x"},
		},
	}
	got := map[string]any{"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "spec": o.Object["spec"]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWhatAClaimShows is of status, conditions and readiness.
func TestWhatAClaimShows(t *testing.T) {
	const head = "{apiVersion: example.com/v1, kind: XStore, metadata: {name: x-composite, generation: 3}, status: "
	of := func() *unstructured.Unstructured {
		return parse("{apiVersion: example.com/v1, kind: Store, metadata: {namespace: a, name: x, uid: u}, spec: {resourceRef: {apiVersion: example.com/v1, kind: XStore, name: x-composite}}}")
	}
	cases := map[string]struct {
		status     string
		ready      bool
		why        string
		shows      map[string]any
		conditions []string
	}{
		"nothing yet": {status: "{}}", why: "not been reconciled", shows: map[string]any{}},
		"what is of this generation": {
			status: "{address: here, conditions: [{type: Ready, status: 'True', reason: Available, observedGeneration: 3}]}}",
			ready:  true, shows: map[string]any{"address": "here"},
		},
		"what is of an older generation isn't ready": {
			status: "{address: here, conditions: [{type: Ready, status: 'True', reason: Available, observedGeneration: 2}]}}",
			why:    "generation 2, not 3", shows: map[string]any{"address": "here"},
		},
		"why it isn't ready": {
			status: "{conditions: [{type: Ready, status: 'False', reason: Creating, message: 'db: slowly', observedGeneration: 3}]}}",
			why:    "db: slowly", shows: map[string]any{},
		},
		"why it isn't synced, which is deeper": {
			status: "{conditions: [{type: Ready, status: 'False', reason: Creating, message: waits, observedGeneration: 3}, {type: Synced, status: 'False', reason: ReconcileError, message: broken}]}}",
			why:    "ReconcileError: broken", shows: map[string]any{},
		},
		"conditions that are for claims, and no others": {
			status: "{claimConditionTypes: [BackedUp, Ready], connectionDetails: {lastPublishedTime: '2026-01-01T00:00:00Z'}, conditions: [{type: Ready, status: 'True', observedGeneration: 3}, {type: BackedUp, status: 'True', reason: Done}, {type: Internal, status: 'True', reason: Done}]}}",
			ready:  true, conditions: []string{"BackedUp"},
			shows: map[string]any{"connectionDetails": map[string]any{"lastPublishedTime": "2026-01-01T00:00:00Z"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			desired := compose(t, of(), parse(head+tc.status), &world{})
			node := desired.Nodes[0]
			if node.Ready != tc.ready || !strings.Contains(node.Unready.Message, tc.why) {
				t.Errorf("ready: %t: %s", node.Ready, node.Unready.Message)
			}
			if diff := cmp.Diff(tc.shows, desired.Status); diff != "" {
				t.Errorf("status: -want +got:\n%s", diff)
			}
			var types []string
			for _, c := range desired.Conditions {
				types = append(types, c.Type)
			}
			if !slices.Equal(types, tc.conditions) {
				t.Errorf("conditions: %v", types)
			}
		})
	}
}

// TestAClaimGetsTheSecretOfItsCompositeOnly has a composite that says where its connection
// details are, which may not be its own.
func TestAClaimGetsTheSecretOfItsCompositeOnly(t *testing.T) {
	composite := parse("{apiVersion: example.com/v1, kind: XStore, metadata: {name: x-composite, uid: c}, spec: {writeConnectionSecretToRef: {namespace: there, name: details}}}")
	secret := func(owner *unstructured.Unstructured) *unstructured.Unstructured {
		o := parse("{apiVersion: v1, kind: Secret, metadata: {namespace: there, name: details}, data: {password: c2VjcmV0}}")
		if owner != nil {
			by := inventory.OwnerOf(owner, object.Definition{Dialect: object.CompositeDialect}, "")
			by.Recognizing(signing.Keys(), owner, time.Time{}).Mark(o, inventory.Place{Node: "details"})
		}
		return o
	}
	copied := secret(composite)
	copied.SetAnnotations(map[string]string{v1alpha1.SignatureAnnotation: "v1:k1:c:AAAA"})
	stranger := parse("{apiVersion: example.com/v1, kind: XStore, metadata: {name: stranger, uid: s}}")
	need := plan.Need{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: "there", Name: "details"}
	for name, tc := range map[string]struct {
		asks    bool
		there   *unstructured.Unstructured
		nodes   int
		refused plan.Reason
	}{
		"it asks for none":          {there: secret(composite), nodes: 1},
		"it is there":               {asks: true, there: secret(composite), nodes: 2},
		"it isn't there yet":        {asks: true, nodes: 1},
		"it is another composite's": {asks: true, there: secret(stranger), nodes: 2, refused: plan.NotOwned},
		"it has the metadata of its own, and no valid signature": {asks: true, there: copied, nodes: 2, refused: plan.NotOwned},
		"it is nobody's in particular":                           {asks: true, there: secret(nil), nodes: 2, refused: plan.NotOwned},
	} {
		t.Run(name, func(t *testing.T) {
			of := parse("{apiVersion: example.com/v1, kind: Store, metadata: {namespace: a, name: x, uid: u}, spec: {resourceRef: {apiVersion: example.com/v1, kind: XStore, name: x-composite}}}")
			if tc.asks {
				of.Object["spec"].(map[string]any)["writeConnectionSecretToRef"] = map[string]any{"name": "mine"}
			}
			w := &world{objects: map[plan.Need]*unstructured.Unstructured{}}
			if tc.there != nil {
				w.objects[need] = tc.there
			}
			nodes := compose(t, of, composite.DeepCopy(), w).Nodes
			if len(nodes) != tc.nodes {
				t.Fatalf("there are %d nodes", len(nodes))
			}
			if tc.nodes < 2 {
				return
			}
			got := nodes[1]
			if got.Refusal.Reason != tc.refused || !got.Sensitive || got.Object.GetNamespace() != "a" || got.Object.GetName() != "mine" {
				t.Errorf("it wants %v, refused: %+v", got.Object, got.Refusal)
			}
			if data, _, _ := unstructured.NestedString(got.Object.Object, "data", "password"); (data == "c2VjcmV0") != (tc.refused == "") {
				t.Errorf("its data are %v", got.Object.Object["data"])
			}
		})
	}
}

// TestTheAuthorSaysWhichCompositesAreClaimable reads the annotations of a definition and of
// composites.
func TestTheAuthorSaysWhichCompositesAreClaimable(t *testing.T) {
	named := parse("{apiVersion: example.com/v1, kind: Store, metadata: {namespace: a, name: x, uid: u}, spec: {resourceRef: {apiVersion: example.com/v1, kind: XStore, name: mine}}}")
	for value, want := range map[string]bool{"": false, "false": false, v1alpha1.ClaimableTrue: true} {
		d := definition()
		d.Annotations = map[string]string{v1alpha1.ClaimableAnnotation: value}
		desired, err := (&claim.Composer{Definition: d}).Compose(t.Context(), plan.Facts{Instance: named})
		if err != nil || desired.Nodes[0].AdoptUnowned != want {
			t.Errorf("a definition annotated with %q: any composite is claimable: %t, %v", value, !want, err)
		}
	}
	key := object.Key{Group: "example.com", Kind: "Store", Namespace: "a", Name: "x"}
	for value, want := range map[string]bool{"true": true, "a/x": true, "a/y": false, "b/x": false, "": false, "false": false} {
		composite := &unstructured.Unstructured{}
		composite.SetAnnotations(map[string]string{v1alpha1.ClaimableAnnotation: value})
		if inventory.IsClaimable(composite, key) != want {
			t.Errorf("annotated with %q, it is claimable: %t", value, !want)
		}
	}
}
