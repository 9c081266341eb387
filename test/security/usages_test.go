package security

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var (
	usageKind   = schema.GroupVersionKind{Group: "protection.crossplane.io", Version: "v1beta1", Kind: "Usage"}
	clusterRole = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
)

func isInUse(o *unstructured.Unstructured) bool {
	return o != nil && o.GetLabels()["crossplane.io/in-use"] != ""
}

// TestAUsageStaysInItsNamespace has a tenant protect, and learn the names of, objects of another
// namespace and of the cluster.
func TestAUsageStaysInItsNamespace(t *testing.T) {
	s := suite.New(t)
	tenant := user(t, s, "tenant", s.NS, `[{apiGroups: [protection.crossplane.io], resources: ["*"], verbs: [create, delete, get, patch, update]}]`)
	other := testkit.Namespace(t, s.Config)
	for _, o := range testkit.Parse(t, s.Expand(`
apiVersion: v1
kind: ConfigMap
metadata: {name: theirs, labels: {test: $ID}}
`)) {
		o.SetNamespace(other)
		if _, err := s.TryApply(t, o); err != nil {
			t.Fatal(err)
		}
	}
	s.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-theirs, labels: {test: $ID}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: mine, namespace: $NS}
`)
	const byMine = "by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: mine}}"
	attacks := map[string]string{
		"by-name":             byMine + ", of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: theirs, namespace: " + other + "}}",
		"by-label":            byMine + ", of: {apiVersion: v1, kind: ConfigMap, resourceSelector: {matchLabels: {test: $ID}, namespace: " + other + "}}",
		"cluster-by-name":     "reason: because, of: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, resourceRef: {name: $ID-theirs}}",
		"cluster-by-label":    "reason: because, of: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, resourceSelector: {matchLabels: {test: $ID}}}",
		"cluster-with-a-user": byMine + ", of: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, resourceRef: {name: $ID-theirs, namespace: " + other + "}}",
		"user-by-label": "of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: mine}}, " +
			"by: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, resourceSelector: {matchLabels: {test: $ID}}}",
	}
	for name, spec := range attacks {
		err := apply(t, s, tenant, "apiVersion: protection.crossplane.io/v1beta1\nkind: Usage\nmetadata: {name: "+name+", namespace: $NS}\nspec: {replayDeletion: true, "+spec+"}\n")
		if err != nil {
			t.Fatal(name, err)
		}
	}
	for name := range attacks {
		u := s.Await(t, usageKind, s.NS, name, suite.HasCondition("Ready", "False", "OutsideNamespace"))
		for _, party := range []string{"of", "by"} {
			_, selects, _ := unstructured.NestedMap(u.Object, "spec", party, "resourceSelector")
			if got, _, _ := unstructured.NestedString(u.Object, "spec", party, "resourceRef", "name"); selects && got != "" {
				t.Errorf("%s: the tenant has learned the name %s", name, got)
			}
		}
		if len(u.GetOwnerReferences()) > 0 {
			t.Errorf("%s: the tenant has learned the UID %s", name, u.GetOwnerReferences()[0].UID)
		}
	}
	// A change of an accepted Usage is no way either.
	const changing = "apiVersion: protection.crossplane.io/v1beta1\nkind: Usage\nmetadata: {name: changing, namespace: $NS}\nspec: {" + byMine + ", of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: mine"
	if err := apply(t, s, tenant, changing+"}}}\n"); err != nil {
		t.Fatal(err)
	}
	s.Await(t, usageKind, s.NS, "changing", suite.HasCondition("Ready", "True", "Available"))
	if err := apply(t, s, tenant, changing[:len(changing)-len("mine")]+"theirs, namespace: "+other+"}}}\n"); err != nil {
		t.Fatal(err)
	}
	s.Await(t, usageKind, s.NS, "changing", suite.HasCondition("Ready", "False", "OutsideNamespace"))

	if isInUse(s.Get(t, suite.ConfigMap, other, "theirs")) || isInUse(s.Get(t, clusterRole, "", s.Name("theirs"))) {
		t.Error("an object that the tenant may not even read is labelled")
	}
}

// TestAnAnnotationDeletesNothing has a tenant who may change a ConfigMap, and not delete it, claim
// that somebody's deletion of it was refused.
func TestAnAnnotationDeletesNothing(t *testing.T) {
	s := suite.New(t)
	tenant := user(t, s, "tenant", s.NS, `[{apiGroups: [protection.crossplane.io], resources: ["*"], verbs: [create, delete, get, patch, update]},
    {apiGroups: [""], resources: [configmaps], verbs: [get, patch]}, {apiGroups: [espalier.dev], resources: ["*"], verbs: ["*"]}]`)
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, namespace: $NS}\n")
	err := apply(t, s, tenant, `
apiVersion: v1
kind: ConfigMap
metadata: {name: kept, namespace: $NS, annotations: {usage.crossplane.io/deletion-attempt-with-policy: Background}}
---
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: replays, namespace: $NS}
spec: {reason: because, replayDeletion: true, of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: kept}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, usageKind, s.NS, "replays", suite.HasCondition("Ready", "True", "Available"))
	kept := s.Get(t, suite.ConfigMap, s.NS, "kept")
	// Whoever may write everything in a namespace may not write the records.
	if err := apply(t, s, tenant, `
apiVersion: espalier.dev/v1alpha1
kind: RefusedDeletion
metadata: {name: $ID}
spec:
  object: {apiVersion: v1, kind: ConfigMap, namespace: $NS, name: kept, uid: `+string(kept.GetUID())+`}
  propagationPolicy: Background
  user: {username: admin, groups: [system:masters]}
`); err == nil {
		t.Error("the tenant has recorded a refused deletion")
	}
	tenant.Delete(t, usageKind, s.NS, "replays")
	s.Await(t, usageKind, s.NS, "replays", func(o *unstructured.Unstructured) error {
		if o != nil {
			return errors.New("the usage still exists")
		}
		return nil
	})
	if o := s.Get(t, suite.ConfigMap, s.NS, "kept"); o == nil || o.GetDeletionTimestamp() != nil {
		t.Error("the controllers have deleted what the tenant may not delete")
	}
}

// TestAUsageShowsNoOtherObject has a tenant create Usages with the labels of children, and see by how
// they are deleted whether the objects that these name exist in another namespace.
func TestAUsageShowsNoOtherObject(t *testing.T) {
	s := suite.New(t)
	tenant := user(t, s, "tenant", s.NS, `[{apiGroups: [protection.crossplane.io], resources: ["*"], verbs: [create, delete, get, patch, update]}]`)
	other := testkit.Namespace(t, s.Config)
	for _, o := range testkit.Parse(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: theirs}\n") {
		o.SetNamespace(other)
		if _, err := s.TryApply(t, o); err != nil {
			t.Fatal(err)
		}
	}
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of, namespace: $NS}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: by, namespace: $NS}\n")
	for _, guess := range []string{"theirs", "missing"} {
		key := object.Key{Kind: "Secret", Namespace: other, Name: guess}
		if err := apply(t, s, tenant, `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata:
  name: `+guess+`
  namespace: $NS
  labels:
    applyset.kubernetes.io/part-of: `+inventory.ApplySetID(key)+`
    kro.run/instance-group: ""
    kro.run/instance-version: v1
    kro.run/instance-kind: Secret
    kro.run/instance-namespace: `+other+`
    kro.run/instance-name: `+guess+`
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: of}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: by}}
`); err != nil {
			t.Fatal(err)
		}
		s.Await(t, usageKind, s.NS, guess, suite.HasCondition("Ready", "True", "Available"))
		tenant.Delete(t, usageKind, s.NS, guess)
		s.Await(t, usageKind, s.NS, guess, func(o *unstructured.Unstructured) error {
			if o != nil {
				return errors.New("the usage still exists")
			}
			return nil
		})
	}
}
