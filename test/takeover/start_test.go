package takeover

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// An error in the log is for a user to act on: each is of a reconcile that failed. The condition
// Responsive is about the watches of Crossplane.
func TestAStartLogsNoErrorsAndRemovesStaleConditions(t *testing.T) {
	s := suite.New(t)
	for _, name := range []string{"blog", "shop"} {
		s.Await(t, app, "team-a", name, func(o *unstructured.Unstructured) error {
			if reason := testkit.ConditionReason(o, "Responsive"); reason != "" {
				return errors.New("still has the condition Responsive with the reason " + reason)
			}
			return settled(o)
		})
	}
	s.Await(t, database, "team-a", "orders", settled)
	failures.mu.Lock()
	defer failures.mu.Unlock()
	for _, text := range failures.all {
		t.Error(text)
	}
}
