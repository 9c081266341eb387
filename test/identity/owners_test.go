package identity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// owners checks the owner references of an object, in order.
func owners(want ...string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return fmt.Errorf("does not exist")
		}
		var got []string
		for _, ref := range o.GetOwnerReferences() {
			text := ref.Kind + " " + ref.Name
			if ref.Controller != nil && *ref.Controller {
				text += ", its controller"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("refers to %q, not %q", got, want)
		}
		return nil
	}
}

func TestChildrenReferToTheirInstanceAsOwner(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Box)
	s.Apply(t, suite.BoxInstance)
	instance := s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	kind := "CustomResourceDefinition boxes." + s.Group
	child := s.Await(t, suite.ConfigMap, s.NS, "x-content", owners("Box x", kind))
	if ref := child.GetOwnerReferences()[0]; ref.UID != instance.GetUID() || ref.APIVersion != s.Group+"/v1alpha1" || ref.BlockOwnerDeletion != nil {
		t.Errorf("it refers to %v", ref)
	}

	t.Log("a removed owner reference is restored, and those of other clients stay")
	s.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: $NS}}")
	patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"theirs","uid":%q,"controller":true}]}}`, s.Get(t, suite.ConfigMap, s.NS, "theirs").GetUID())
	s.PatchAs(t, "operator", suite.ConfigMap, s.NS, "x-content", patch)
	s.Await(t, suite.ConfigMap, s.NS, "x-content", owners("ConfigMap theirs, its controller", "Box x", kind))
	s.Apply(t, suite.BoxInstance+"spec: {value: next}\n")
	s.Await(t, suite.ConfigMap, s.NS, "x-content", suite.All(suite.HasField("next", "data", "value"), owners("ConfigMap theirs, its controller", "Box x", kind)))

	t.Log("one instance may do without, at once")
	annotate(t, s, "Box", "x", "espalier.dev/owner-references", "None")
	bare := s.Await(t, suite.ConfigMap, s.NS, "x-content", owners("ConfigMap theirs, its controller"))

	t.Log("objects without references are not written for their sake, as after an upgrade")
	annotate(t, s, "Box", "x", "espalier.dev/owner-references", "")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: other, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Box"), s.NS, "other")
	annotate(t, s, "Box", "x", "kro.run/reconcile", "suspended") // when that is reported, what was before is done
	s.Await(t, s.Kind("Box"), s.NS, "x", suite.HasField("SUSPENDED", "status", "state"))
	annotate(t, s, "Box", "x", "kro.run/reconcile", "")
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	if now := s.Get(t, suite.ConfigMap, s.NS, "x-content"); now.GetResourceVersion() != bare.GetResourceVersion() {
		t.Errorf("it was written: %v", now.Object["metadata"])
	}
	t.Log("but get them when they are written anyway, also when they are corrected")
	edit(t, s, "x-content", "meddler", "theirs")
	s.Await(t, suite.ConfigMap, s.NS, "x-content", suite.All(suite.HasField("next", "data", "value"), owners("ConfigMap theirs, its controller", "Box x", kind)))
}

func TestADefinitionCanDisableOwnerReferences(t *testing.T) {
	s := suite.New(t)
	without := strings.Replace(suite.Box, "spec:\n", "spec:\n  ownerReferences: None\n", 1)
	s.Apply(t, without)
	s.Apply(t, suite.BoxInstance)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "x")
	s.Await(t, suite.ConfigMap, s.NS, "x-content", owners())
}

// TestOwnerReferencesAreSetIfTheScopesAllowThem has instances of either scope with children of
// either scope, in the namespace of the instance and in others.
func TestOwnerReferencesAreSetIfTheScopesAllowThem(t *testing.T) {
	definition := `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-$LOW}
spec:
  schema: {apiVersion: v1alpha1, kind: $KIND, group: $GROUP, scope: $SCOPE, spec: {home: string, away: string}}
  resources:
    - id: home
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-home", namespace: "${schema.spec.home}"}}
    - id: away
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-away", namespace: "${schema.spec.away}"}}
    - id: wide
      template: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "${schema.metadata.name}-wide"}, rules: []}
`
	role := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	for _, tc := range []struct {
		kind, scope, namespace string
		home, away, wide       bool
	}{
		{"Narrow", "Namespaced", "namespace: $NS, ", true, false, false},
		{"Wide", "Cluster", "", true, true, true},
	} {
		t.Run(tc.scope, func(t *testing.T) {
			s := suite.New(t)
			away := testkit.Namespace(t, s.Config)
			s.Apply(t, strings.NewReplacer("$KIND", tc.kind, "$SCOPE", tc.scope, "$LOW", strings.ToLower(tc.kind)).Replace(definition))
			s.Apply(t, "{apiVersion: $GROUP/v1alpha1, kind: "+tc.kind+", metadata: {"+tc.namespace+"name: $ID-x}, spec: {home: $NS, away: "+away+"}}")
			home := s.NS
			if tc.namespace == "" {
				home = ""
			}
			s.AwaitReady(t, s.Kind(tc.kind), home, s.Name("x"))
			ours := func(has bool) suite.Check {
				if !has {
					return owners()
				}
				return owners(tc.kind+" "+s.Name("x"), "CustomResourceDefinition "+strings.ToLower(tc.kind)+"s."+s.Group)
			}
			child := s.Await(t, suite.ConfigMap, s.NS, s.Name("x-home"), ours(tc.home))
			if namespace := child.GetLabels()["kro.run/instance-namespace"]; namespace != home {
				t.Errorf("it says that its instance is in namespace %q", namespace)
			}
			s.Await(t, suite.ConfigMap, away, s.Name("x-away"), ours(tc.away))
			s.Await(t, role, "", s.Name("x-wide"), ours(tc.wide))
			if err := s.Resource(t, s.Kind(tc.kind), home).Delete(t.Context(), s.Name("x"), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			s.AwaitGone(t, s.Kind(tc.kind), home, s.Name("x"))
			s.AwaitGone(t, suite.ConfigMap, s.NS, s.Name("x-home"))
			s.AwaitGone(t, suite.ConfigMap, away, s.Name("x-away"))
			s.AwaitGone(t, role, "", s.Name("x-wide"))
		})
	}
}
