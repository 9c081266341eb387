package deletion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// awaitKindGone waits until the API server has deleted the CustomResourceDefinition of the leaves.
// Five workers of the API server do that, each of which waits up to a minute for objects that are
// not deleted yet: kinds of other tests may delay it.
func awaitKindGone(t *testing.T, s suite.Suite) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go testkit.TouchCRD(ctx, s.Resource(t, suite.CRD, ""), leafCRD(s))
	testkit.PollFor(t, 5*time.Minute, "the CustomResourceDefinition of the leaves is deleted", func() bool { return s.Get(t, suite.CRD, "", leafCRD(s)) == nil })
}

func leafCRD(s suite.Suite) string { return "leafs.leaf." + s.Group }

func kindCRD(s suite.Suite, kind string) string { return strings.ToLower(kind) + "s." + s.Group }

// awaitBlocked waits until every layer reports the blocker.
func awaitBlocked(t *testing.T, s suite.Suite, object string, reason report.Reason, words ...string) {
	t.Helper()
	for _, kind := range layers {
		s.Await(t, s.Kind(kind), s.NS, "x", isBlocked(object, reason, words...))
	}
}

// awaitNestGone waits until no layer has an instance left.
func awaitNestGone(t *testing.T, s suite.Suite) {
	t.Helper()
	for _, kind := range slices.Backward(layers) {
		awaitGone(t, s, s.Kind(kind), "x")
	}
}

// deleteNest deletes the top instance, waits until all objects of the nest are deleted, and checks
// the revisions of the layers.
func deleteNest(t *testing.T, s suite.Suite, watched *revisionChecker) {
	t.Helper()
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	awaitNestGone(t, s)
	awaitGone(t, s, leaf(s), "x-leaf")
	awaitGone(t, s, leaf(s), "x-below")
	watched.check(t)
}

// nestUIDs returns the UIDs of all objects of the nest.
func nestUIDs(t *testing.T, s suite.Suite) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, gvk := range append(kindsOf(s, layers...), leaf(s)) {
		list := s.List(t, gvk, s.NS, "")
		for _, o := range list {
			out[o.GetName()+" "+gvk.Kind] = o.GetUID()
		}
	}
	return out
}

func isTerminating(o *unstructured.Unstructured) error {
	if o == nil || o.GetDeletionTimestamp() == nil {
		return errors.New("is not being deleted")
	}
	return nil
}

// isRecreated checks that an object exists and is not the former one of its name.
func isRecreated(former *unstructured.Unstructured) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil || o.GetUID() == former.GetUID() {
			return errors.New("has not been recreated")
		}
		return nil
	}
}

func hasLabel(key, value string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil || o.GetLabels()[key] != value {
			return fmt.Errorf("label %s is not %s", key, value)
		}
		return nil
	}
}

// isWaiting checks that Ready has the reason and that its message contains the word.
func isWaiting(reason, word string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ConditionReason(o, "Ready") != reason || !strings.Contains(testkit.ConditionMessage(o, "Ready"), word) {
			return fmt.Errorf("Ready does not have the reason %s with %q", reason, word)
		}
		return nil
	}
}

// countsInstances checks that a terminating definition reports how many instances remain.
func countsInstances(n int) func(*unstructured.Unstructured) error {
	text := fmt.Sprintf("%d instance", n)
	return func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ConditionReason(o, "Ready") != "InstancesRemain" || !strings.HasPrefix(testkit.ConditionMessage(o, "Ready"), text) {
			return fmt.Errorf("does not report %s", text)
		}
		return nil
	}
}

// isNotInError checks that the state of an instance is not ERROR.
func isNotInError(o *unstructured.Unstructured) error {
	if report.Read(o).State == "ERROR" {
		return fmt.Errorf("is in state ERROR: %s", testkit.ConditionMessage(o, "Ready"))
	}
	return nil
}
