package takeover

import (
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
