package deletion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// awaitKindGone waits until the API server has taken the lowest kind away. It has five workers
// for that, each of which waits up to a minute for objects of a kind that do not go: those of
// other tests may hold it up for longer than anything of ours takes.
func awaitKindGone(t *testing.T, s suite.Suite) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go testkit.TouchCRD(ctx, s.Resource(t, suite.CRD, ""), leafCRD(s))
	testkit.PollFor(t, 5*time.Minute, "the kind is gone", func() bool { return s.Get(t, suite.CRD, "", leafCRD(s)) == nil })
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

// deleteNest deletes the top instance, waits until nothing is left of it, and checks what the
// witness saw of the layers meanwhile.
func deleteNest(t *testing.T, s suite.Suite, saw *witness) {
	t.Helper()
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	awaitNestGone(t, s)
	awaitGone(t, s, leaf(s), "x-leaf")
	awaitGone(t, s, leaf(s), "x-below")
	saw.check(t)
}

// nestUIDs returns the UIDs of all objects of the nest.
func nestUIDs(t *testing.T, s suite.Suite) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, gvk := range append(kindsOf(s, layers...), leaf(s)) {
		list, err := s.Resource(t, gvk, s.NS).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			out[o.GetName()+" "+gvk.Kind] = o.GetUID()
		}
	}
	return out
}

func isPresent(o *unstructured.Unstructured) error {
	if o == nil {
		return errors.New("does not exist")
	}
	return nil
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
			return errors.New("has not been made anew")
		}
		return nil
	}
}

func labelled(key, value string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil || o.GetLabels()[key] != value {
			return fmt.Errorf("label %s is not %s", key, value)
		}
		return nil
	}
}

// isWaiting checks that an instance is not ready for a reason, in words that contain
// the given one.
func isWaiting(reason, word string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ConditionReason(o, "Ready") != reason || !strings.Contains(testkit.ConditionMessage(o, "Ready"), word) {
			return fmt.Errorf("does not wait because of %s %s", reason, word)
		}
		return nil
	}
}

// countsInstances checks that a deleted definition tells how many instances it waits for.
func countsInstances(n int) func(*unstructured.Unstructured) error {
	text := fmt.Sprintf("%d instance", n)
	return func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ConditionReason(o, "Ready") != "InstancesRemain" || !strings.HasPrefix(testkit.ConditionMessage(o, "Ready"), text) {
			return fmt.Errorf("doesn't wait for %s", text)
		}
		return nil
	}
}

// isNotInError checks that an instance and its waits are not errors.
func isNotInError(o *unstructured.Unstructured) error {
	said := report.Read(o)
	if said.State == "ERROR" {
		return fmt.Errorf("is in state ERROR: %s", testkit.ConditionMessage(o, "Ready"))
	}
	return nil
}
