package takeover

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// FunctionRevisions of Crossplane have the addresses of functions, with mutual TLS. No program
// listens there any more, and there are no certificates.
func TestBuiltInFunctionsReplacePackages(t *testing.T) {
	s := suite.New(t)
	s.Await(t, suite.ConfigMap, "team-a", "blog-bfa73d22ebcf", applied)
	s.Await(t, app, "team-a", "blog", settled)
}

// applied checks that a composite has applied an object.
func applied(o *unstructured.Unstructured) error {
	switch {
	case o == nil:
		return errors.New("is gone")
	case o.GetLabels()[v1alpha1.ApplySetPartOfLabel] == "":
		return errors.New("has not been applied")
	}
	return nil
}

// settled checks that an instance has an inventory and is ready.
func settled(o *unstructured.Unstructured) error {
	switch {
	case o == nil:
		return errors.New("is gone")
	case o.GetAnnotations()["applyset.kubernetes.io/tooling"] == "":
		return errors.New("has no annotation applyset.kubernetes.io/tooling")
	case testkit.ConditionStatus(o, "Synced") != "True":
		return errors.New("is not synced: " + testkit.ConditionMessage(o, "Synced"))
	case testkit.ConditionStatus(o, "Ready") != "True":
		return errors.New("is not ready: " + testkit.ConditionMessage(o, "Ready"))
	}
	return nil
}
