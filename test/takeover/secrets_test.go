package takeover

import (
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

// Crossplane finds the Secret of a claim only by its controller reference.
func TestAClaimKeepsItsConnectionSecret(t *testing.T) {
	s := suite.New(t)
	const namespace, name = "team-a", "orders-conn"
	was := before["Secret "+namespace+"/"+name]
	claimed := before["Database team-a/orders"]
	is := s.Await(t, suite.Secret, namespace, name, applied)
	if err := live.IsSameObject(was, is); err != nil {
		t.Error(err)
	}
	if !metav1.IsControlledBy(is, claimed) {
		t.Errorf("the owner references are %v", is.GetOwnerReferences())
	}
	s.Await(t, database, "team-a", "orders", settled)

	// What a provider writes from now on arrives.
	source := string(before["XDatabase /orders-vsvjc"].GetUID()) + "-instance"
	secret := base64.StdEncoding.EncodeToString([]byte("changed"))
	patch := fmt.Sprintf(`{"data":{"password":%q}}`, secret)
	s.Patch(t, suite.Secret, "crossplane-system", source, patch)
	s.Await(t, suite.Secret, namespace, name, func(o *unstructured.Unstructured) error {
		if got, _, _ := unstructured.NestedString(o.Object, "data", "password"); got != secret {
			return errors.New("has the password from before")
		}
		return nil
	})
	s.Await(t, database, "team-a", "orders", settled)
}

// checkNextApply applies the Secrets of stringData as their engine had: it finds its fields as it left them, so that
// nothing is written. It returns how many there are.
func checkNextApply(t *testing.T, w *testkit.Cluster, recorded map[string]*unstructured.Unstructured) (found int) {
	t.Helper()
	for key, was := range recorded {
		manager := ""
		for e := range ownership.Entries(was) {
			if was.GetKind() == "Secret" && e.HasField("stringData") {
				manager = e.Manager
			}
		}
		if manager == "" {
			continue
		}
		found++
		next := &unstructured.Unstructured{Object: map[string]any{"stringData": map[string]any{"note": "dummy"}}}
		next.SetGroupVersionKind(suite.Secret)
		next.SetName(was.GetName())
		next.SetGenerateName(was.GetGenerateName())
		next.SetNamespace(was.GetNamespace())
		next.SetLabels(was.GetLabels())
		next.SetAnnotations(was.GetAnnotations())
		next.SetOwnerReferences(was.GetOwnerReferences())
		is := w.Get(t, suite.Secret, was.GetNamespace(), was.GetName())
		applied, err := w.Resource(t, suite.Secret, was.GetNamespace()).Apply(t.Context(), was.GetName(), next, metav1.ApplyOptions{FieldManager: manager})
		if err != nil {
			t.Errorf("%s: %s applies it: %v", key, manager, err)
			continue
		}
		if diff := cmp.Diff(content(t, is, nil), content(t, applied, nil)); diff != "" || applied.GetResourceVersion() != is.GetResourceVersion() {
			t.Errorf("%s: the next apply of %s changes it: -before +after\n%s", key, manager, diff)
		}
	}
	return found
}
