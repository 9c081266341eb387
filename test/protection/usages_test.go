package protection

import (
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

const two = `
apiVersion: v1
kind: ConfigMap
metadata: {name: used, namespace: $NS, labels: {role: primary}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: using, namespace: $NS, labels: {role: client}}
`

// TestAUsageLabelsTheUsedObject follows the life of a Usage that a user makes by hand.
func TestAUsageLabelsTheUsedObject(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, two+`
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: using}}
`)
	u := awaitReady(t, s, "uses")
	if got := u.GetAnnotations()["crossplane.io/usage-details"]; got != "ConfigMap/using uses ConfigMap/used" {
		t.Errorf("its details: %q", got)
	}
	if !slices.Contains(u.GetFinalizers(), "usage.apiextensions.crossplane.io") {
		t.Errorf("its finalizers: %v", u.GetFinalizers())
	}
	using := s.Get(t, suite.ConfigMap, s.NS, "using")
	if owners := u.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != using.GetUID() {
		t.Errorf("its owners: %v", owners)
	}
	s.Await(t, suite.ConfigMap, s.NS, "used", isMarked(true))
	// Another client removes the label: it is restored.
	s.Patch(t, suite.ConfigMap, s.NS, "used", `{"metadata":{"labels":{"crossplane.io/in-use":null}}}`)
	s.Await(t, suite.ConfigMap, s.NS, "used", isMarked(true))
	// The usage is deleted with the using object, and the label with the usage.
	s.Delete(t, suite.ConfigMap, s.NS, "using")
	s.AwaitGone(t, usageKind, s.NS, "uses")
	s.Await(t, suite.ConfigMap, s.NS, "used", isMarked(false))
}

func TestTheLastUsageRemovesTheInUseLabel(t *testing.T) {
	s := suite.New(t)
	const of = `
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: NAME, namespace: $NS}
spec: {reason: because, of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}}
`
	text := two
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		text += replace(of, "NAME", name)
	}
	s.Apply(t, text)
	for _, name := range names {
		if got := awaitReady(t, s, name).GetAnnotations()["crossplane.io/usage-details"]; got != "because" {
			t.Errorf("its details: %q", got)
		}
	}
	s.Delete(t, usageKind, s.NS, "a")
	s.AwaitGone(t, usageKind, s.NS, "a")
	s.Await(t, suite.ConfigMap, s.NS, "used", isMarked(true))
	for _, name := range names[1:] { // concurrently
		s.Delete(t, usageKind, s.NS, name)
	}
	s.Await(t, suite.ConfigMap, s.NS, "used", isMarked(false))
	for _, name := range names {
		s.AwaitGone(t, usageKind, s.NS, name)
	}
}

// TestSelectorsAreResolvedOnce checks that the selected name stays in the spec, even if another
// object matches later, and that an object that is created later is found.
func TestSelectorsAreResolvedOnce(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceSelector: {matchLabels: {role: primary}}}
  by: {apiVersion: v1, kind: ConfigMap, resourceSelector: {matchLabels: {role: client}}}
`)
	s.Await(t, usageKind, s.NS, "uses", readyIs("False", "Unavailable", "spec.of.resourceSelector matches no ConfigMap"))
	s.Apply(t, two)
	u := awaitReady(t, s, "uses")
	for party, want := range map[string]string{"of": "used", "by": "using"} {
		if got, _, _ := unstructured.NestedString(u.Object, "spec", party, "resourceRef", "name"); got != want {
			t.Errorf("spec.%s.resourceRef.name is %q", party, got)
		}
	}
	s.Await(t, suite.ConfigMap, s.NS, "used", isMarked(true))
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: another, namespace: $NS, labels: {role: primary}}\n")
	s.Patch(t, usageKind, s.NS, "uses", `{"metadata":{"labels":{"look":"again"}}}`)
	s.Await(t, suite.ConfigMap, s.NS, "another", isMarked(false))
	if got, _, _ := unstructured.NestedString(s.Get(t, usageKind, s.NS, "uses").Object, "spec", "of", "resourceRef", "name"); got != "used" {
		t.Errorf("then spec.of.resourceRef.name is %q", got)
	}
}

func TestASelectorCanAskForTheSameController(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, two)
	owner := s.Get(t, suite.ConfigMap, s.NS, "using")
	controller := true
	owned := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o.SetNamespace(s.NS)
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "using", UID: owner.GetUID(), Controller: &controller}})
		return o
	}
	stranger, sibling := configMap("a-stranger"), owned(configMap("sibling"))
	stranger.SetNamespace(s.NS)
	u := owned(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "uses"},
		"spec": map[string]any{"reason": "because", "of": map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"resourceSelector": map[string]any{"matchControllerRef": true, "matchLabels": map[string]any{"role": "part"}},
		}},
	}})
	u.SetGroupVersionKind(usageKind)
	for _, o := range []*unstructured.Unstructured{stranger, sibling, u} {
		if _, err := s.TryApply(t, o); err != nil {
			t.Fatal(err)
		}
	}
	awaitReady(t, s, "uses")
	s.Await(t, suite.ConfigMap, s.NS, "sibling", isMarked(true))
	s.Await(t, suite.ConfigMap, s.NS, "a-stranger", isMarked(false))
}

func configMap(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(suite.ConfigMap)
	o.SetName(name)
	o.SetLabels(map[string]string{"role": "part"})
	return o
}

// TestAUsageProtectsNothingOutsideOfItsNamespace expects a condition that says what to do. Attacks
// by such Usages are in test/security.
func TestAUsageProtectsNothingOutsideOfItsNamespace(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, two+`
---
apiVersion: v1
kind: ConfigMap
metadata: {name: $ID-used, namespace: default}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: $ID-used, namespace: default}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: using}}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses-namespace, namespace: $NS}
spec: {reason: because, of: {apiVersion: v1, kind: Namespace, resourceRef: {name: $NS}}}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: used-by-namespace, namespace: $NS}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}
  by: {apiVersion: v1, kind: Namespace, resourceRef: {name: $NS}}
`)
	s.Await(t, usageKind, s.NS, "uses", readyIs("False", "OutsideNamespace", "spec.of is in namespace default", "create a Usage in that namespace"))
	s.Await(t, usageKind, s.NS, "uses-namespace", readyIs("False", "OutsideNamespace", "spec.of has the kind Namespace, which is cluster-scoped", "create a ClusterUsage"))
	s.Await(t, usageKind, s.NS, "used-by-namespace", readyIs("False", "OutsideNamespace", "spec.by has the kind Namespace, which is cluster-scoped"))
	s.Await(t, suite.ConfigMap, "default", s.Name("used"), isMarked(false))
	s.Await(t, namespaceKind, "", s.NS, isMarked(false))
	s.Await(t, suite.ConfigMap, s.NS, "used", isMarked(true))
	for _, name := range []string{"uses", "uses-namespace", "used-by-namespace"} {
		s.Delete(t, usageKind, s.NS, name)
		s.AwaitGone(t, usageKind, s.NS, name)
	}
	s.Await(t, suite.ConfigMap, s.NS, "used", isMarked(false))
	s.Delete(t, suite.ConfigMap, "default", s.Name("used"))
}

// TestTheLabelOfAFormerReleaseIsRemoved has a Usage with a finalizer, which former releases added
// before they labelled an object of another namespace.
func TestTheLabelOfAFormerReleaseIsRemoved(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: $ID-used, namespace: default, labels: {crossplane.io/in-use: "true"}}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS, finalizers: [usage.apiextensions.crossplane.io]}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: $ID-used, namespace: default}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: using}}
`)
	s.Await(t, suite.ConfigMap, "default", s.Name("used"), isMarked(false))
	u := s.Await(t, usageKind, s.NS, "uses", readyIs("False", "OutsideNamespace"))
	if len(u.GetFinalizers()) > 0 {
		t.Errorf("its finalizers: %v", u.GetFinalizers())
	}
	s.Delete(t, suite.ConfigMap, "default", s.Name("used"))
}

// TestAUsageOfAnotherNamespaceNeedsAUser expects that a Usage of an object in another namespace
// is refused without spec.by: a reason alone would let anyone protect objects of others.
func TestAUsageOfAnotherNamespaceNeedsAUser(t *testing.T) {
	s := suite.New(t)
	for field, of := range map[string]string{
		"resourceRef":      "resourceRef: {name: used, namespace: default}",
		"resourceSelector": "resourceSelector: {matchLabels: {a: b}, namespace: default}",
	} {
		usage := testkit.Parse(t, s.Expand(`
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: uses, namespace: $NS}
spec: {reason: because, of: {apiVersion: v1, kind: ConfigMap, `+of+`}}`))[0]
		if _, err := s.TryApply(t, usage); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `"spec.by" must be specified with "spec.of.`+field+`.namespace"`) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestAClusterUsageIsOfClusterScopedObjects(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: protection.crossplane.io/v1beta1
kind: ClusterUsage
metadata: {name: $ID-uses}
spec:
  reason: Production never goes away.
  of: {apiVersion: v1, kind: Namespace, resourceRef: {name: $NS}}
`)
	s.Await(t, clusterUsageKind, "", s.Name("uses"), readyIs("True", "Available"))
	s.Await(t, namespaceKind, "", s.NS, isMarked(true))
	s.Delete(t, clusterUsageKind, "", s.Name("uses"))
	s.AwaitGone(t, clusterUsageKind, "", s.Name("uses"))
	s.Await(t, namespaceKind, "", s.NS, isMarked(false))
}

// TestTheLegacyUsageKindIsServed creates a Usage of apiextensions.crossplane.io.
func TestTheLegacyUsageKindIsServed(t *testing.T) {
	s := suite.New(t)
	role := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	s.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-used, labels: {test: $ID}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-using}
---
apiVersion: apiextensions.crossplane.io/v1alpha1
kind: Usage
metadata: {name: $ID-uses}
spec:
  of: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, resourceSelector: {matchLabels: {test: $ID}}}
  by: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, resourceRef: {name: $ID-using}}
`)
	usage := schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1alpha1", Kind: "Usage"}
	s.Await(t, usage, "", s.Name("uses"), readyIs("True", "Available"))
	s.Await(t, role, "", s.Name("used"), isMarked(true))
	s.Delete(t, role, "", s.Name("using"))
	s.AwaitGone(t, usage, "", s.Name("uses"))
	s.Await(t, role, "", s.Name("used"), isMarked(false))
	s.Delete(t, role, "", s.Name("used"))
}
