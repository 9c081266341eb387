package cluster

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestErrorsOfTheSigningKeyNameARemedy has a Secret that is not in the namespace of the lease.
func TestErrorsOfTheSigningKeyNameARemedy(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "espalier-signing-key", errors.New("no role"))
	err := forbiddenSigningKey("former", forbidden)
	for _, want := range []string{"former/espalier-signing-key", "no role", bindingsCRD, "espalier.dev/signing-key", "grant get on the Secret there to the controllers' account only"} {
		if !strings.Contains(err.Error(), want) || !apierrors.IsForbidden(err) {
			t.Errorf("%q isn't in: %v", want, err)
		}
	}
	if err := lostSigningKey("former"); !strings.Contains(err.Error(), "needs adopt: IfUnowned") {
		t.Error(err)
	}
}
