package security

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

const rackInstance = "apiVersion: $GROUP/v1alpha1\nkind: Rack\nmetadata: {name: rack, namespace: $NS}\nspec: {text: a}\n"

// TestLostMarksOfAChildAreWrittenAgain has a user remove and change what makes an object a child, in both
// dialects. internal/instance has the table of all marks.
func TestLostMarksOfAChildAreWrittenAgain(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, shelf+"---"+suite.XRD("v2", "Rack", "text: {type: string}", "")+"---"+suite.Composition("rack", "Rack", suite.PatchAndTransform(`
      - name: first
        base: {apiVersion: v1, kind: ConfigMap, metadata: {name: rack-first}}
        patches: [{fromFieldPath: spec.text, toFieldPath: data.text}]
        readinessChecks: [{type: None}]
`)))
	for _, tc := range []struct{ kind, name, child, instance string }{
		{"Shelf", "x", "x-first", shelfInstance},
		{"Rack", "rack", "rack-first", rackInstance},
	} {
		s.Apply(t, tc.instance)
		s.AwaitReady(t, s.Kind(tc.kind), s.NS, tc.name)
		before := s.Get(t, suite.ConfigMap, s.NS, tc.child)
		for _, change := range []string{
			`{"labels": {"applyset.kubernetes.io/part-of": null}}`,
			`{"labels": {"applyset.kubernetes.io/part-of": "other"}}`,
			`{"annotations": {"espalier.dev/signature": null}}`,
			`{"ownerReferences": null}`,
			`{"labels": {"kro.run/node-id": null}, "annotations": {"crossplane.io/composition-resource-name": null}}`,
			`{"labels": {"applyset.kubernetes.io/part-of": null}, "annotations": {"espalier.dev/signature": null}}`,
			`{"labels": {"applyset.kubernetes.io/part-of": null}, "ownerReferences": null}`,
			`{"annotations": {"espalier.dev/signature": "v1:k1:other:AAAA"}, "ownerReferences": null}`,
		} {
			s.Patch(t, suite.ConfigMap, s.NS, tc.child, `{"metadata": `+change+`}`)
			s.Await(t, suite.ConfigMap, s.NS, tc.child, func(o *unstructured.Unstructured) error {
				if diff := cmp.Diff(marks(before), marks(o)); diff != "" {
					return fmt.Errorf("after %s (-want +got):\n%s", change, diff)
				}
				return nil
			})
		}
		s.Patch(t, s.Kind(tc.kind), s.NS, tc.name, `{"spec": {"text": "b"}}`)
		s.Await(t, suite.ConfigMap, s.NS, tc.child, suite.HasField("b", "data", "text"))

		t.Log("the label is removed at the moment of the deletion")
		s.Patch(t, suite.ConfigMap, s.NS, tc.child, `{"metadata": {"labels": {"applyset.kubernetes.io/part-of": null}}}`)
		s.Delete(t, s.Kind(tc.kind), s.NS, tc.name)
		s.AwaitGone(t, s.Kind(tc.kind), s.NS, tc.name)
		s.AwaitGone(t, suite.ConfigMap, s.NS, tc.child)
		s.Apply(t, tc.instance)
		s.AwaitReady(t, s.Kind(tc.kind), s.NS, tc.name)
		s.Await(t, suite.ConfigMap, s.NS, tc.child, suite.HasField("a", "data", "text"))
	}
}

// marks are what other writers can take from a child.
func marks(o *unstructured.Unstructured) map[string]any {
	refs := map[string]metav1.OwnerReference{}
	for _, r := range o.GetOwnerReferences() {
		refs[string(r.UID)] = r
	}
	return map[string]any{"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "owners": refs}
}
