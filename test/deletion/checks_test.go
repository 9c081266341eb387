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
// for that, each of which waits up to a minute for objects of a kind that don't go: those of
// other tests may hold it up for longer than anything of ours takes.
func awaitKindGone(t *testing.T, s suite.Suite) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go testkit.Nudge(ctx, s.Of(t, suite.CRD, ""), leafCRD(s))
	testkit.PollFor(t, 5*time.Minute, "the kind is gone", func() bool { return s.Get(t, suite.CRD, "", leafCRD(s)) == nil })
}

func leafCRD(s suite.Suite) string { return "leafs.leaf." + s.Group }

func kindCRD(s suite.Suite, kind string) string { return strings.ToLower(kind) + "s." + s.Group }

// awaitBlocked waits until every layer tells of the cause.
func awaitBlocked(t *testing.T, s suite.Suite, object string, reason report.Reason, words ...string) {
	t.Helper()
	for _, kind := range layers {
		s.Await(t, s.Kind(kind), s.NS, "x", blocked(object, reason, words...))
	}
}

// awaitNestGone waits until no layer has an instance left.
func awaitNestGone(t *testing.T, s suite.Suite) {
	t.Helper()
	for _, kind := range slices.Backward(layers) {
		awaitGone(t, s, s.Kind(kind), "x")
	}
}

// deleteNest deletes the top instance, waits until nothing is left of it, and checks what
// was seen of the layers meanwhile.
func deleteNest(t *testing.T, s suite.Suite, saw *witness) {
	t.Helper()
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	awaitNestGone(t, s)
	awaitGone(t, s, leaf(s), "x-leaf")
	awaitGone(t, s, leaf(s), "x-below")
	saw.check(t)
}

// uids are those of all objects of the nest.
func uids(t *testing.T, s suite.Suite) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, gvk := range append(kindsOf(s, layers...), leaf(s)) {
		list, err := s.Of(t, gvk, s.NS).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			out[o.GetName()+" "+gvk.Kind] = o.GetUID()
		}
	}
	return out
}

func there(o *unstructured.Unstructured) error {
	if o == nil {
		return errors.New("does not exist")
	}
	return nil
}

func leaving(o *unstructured.Unstructured) error {
	if o == nil || o.GetDeletionTimestamp() == nil {
		return errors.New("is not being deleted")
	}
	return nil
}

// another checks that an object is there that isn't the former one of its name.
func another(former *unstructured.Unstructured) func(*unstructured.Unstructured) error {
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

// waits checks that an instance isn't ready for a reason, in words that contain
// the given one.
func waits(reason, word string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ReasonOf(o, "Ready") != reason || !strings.Contains(testkit.Message(o, "Ready"), word) {
			return fmt.Errorf("does not wait because of %s %s", reason, word)
		}
		return nil
	}
}

// counts checks that a deleted definition tells how many instances it waits for.
func counts(n int) func(*unstructured.Unstructured) error {
	text := fmt.Sprintf("%d instance", n)
	return func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ReasonOf(o, "Ready") != "InstancesRemain" || !strings.HasPrefix(testkit.Message(o, "Ready"), text) {
			return fmt.Errorf("doesn't wait for %s", text)
		}
		return nil
	}
}

// neverError checks that an instance isn't in error and that no wait of it is one.
func neverError(o *unstructured.Unstructured) error {
	said := report.Read(o)
	if said.State == "ERROR" {
		return fmt.Errorf("is in state ERROR: %s", testkit.Message(o, "Ready"))
	}
	return nil
}
