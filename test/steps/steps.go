// Package steps holds definitions, instances of them, and the steps that tests of crashes and
// of costs share.
package steps

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// Step acts on the objects of a namespace, or waits for a state of them.
type Step func(t *testing.T, w *testkit.Cluster, ns string)

// All performs steps in order.
func All(all ...Step) Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) {
		for _, step := range all {
			step(t, w, ns)
		}
	}
}

// Run starts the controllers and returns a function that stops them.
func Run(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	return RunWith(t, server.Options{Config: config})
}

// RunWith is Run with options.
func RunWith(t *testing.T, options server.Options) (stop func()) {
	t.Helper()
	c := suite.Start(t, options)
	return func() { _ = c.Stop() } // the controllers return an error after a crash
}

// Apply applies a text with $NS replaced by the namespace.
func Apply(text string) Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) {
		w.Apply(t, strings.ReplaceAll(text, "$NS", ns))
	}
}

// Delete deletes the object x of a kind.
func Delete(gvk schema.GroupVersionKind, policy metav1.DeletionPropagation) Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) {
		t.Helper()
		w.DeleteWith(t, gvk, ns, "x", policy)
	}
}

// Patch merges a patch into an object, as the field manager "a user".
func Patch(gvk schema.GroupVersionKind, name, patch string) Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) {
		t.Helper()
		w.Patch(t, gvk, ns, name, patch)
	}
}

// AwaitReady waits until the object x of a kind is ready and its status has a value.
func AwaitReady(gvk schema.GroupVersionKind, value string) Step {
	field := "value"
	if gvk.Kind == "Chain" {
		field = "shown"
	}
	return func(t *testing.T, w *testkit.Cluster, ns string) {
		w.Await(t, gvk, ns, "x", func(o *unstructured.Unstructured) error {
			if err := testkit.IsReady(o); err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedString(o.Object, "status", field); got != value {
				return fmt.Errorf("status.%s is %q, not %q", field, got, value)
			}
			return nil
		})
	}
}

// AwaitGone waits until the object x of a kind is gone.
func AwaitGone(gvk schema.GroupVersionKind) Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) { w.AwaitGone(t, gvk, ns, "x") }
}

// AwaitAbsent waits until an object is gone.
func AwaitAbsent(gvk schema.GroupVersionKind, name string) Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) { w.AwaitGone(t, gvk, ns, name) }
}

// AwaitBlocker waits until the object x reports another as the blocker of its deletion.
func AwaitBlocker(gvk schema.GroupVersionKind, object string, reason report.Reason) Step {
	return awaitBlocker(gvk, object, reason, func(o *unstructured.Unstructured) []report.Blocker {
		if d := report.ReadDeletion(o); d != nil {
			return d.Blockers
		}
		return nil
	})
}

// AwaitPruneBlocker waits until the object x reports another as the blocker of a prune.
func AwaitPruneBlocker(gvk schema.GroupVersionKind, object string, reason report.Reason) Step {
	return awaitBlocker(gvk, object, reason, report.ReadPruning)
}

func awaitBlocker(gvk schema.GroupVersionKind, object string, reason report.Reason, of func(*unstructured.Unstructured) []report.Blocker) Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) {
		t.Helper()
		w.Await(t, gvk, ns, "x", func(o *unstructured.Unstructured) error {
			if o == nil {
				return errors.New("is gone")
			}
			for _, b := range of(o) {
				if deepest := b.RootCause(); deepest.Object.Name == object && deepest.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("does not report %s %s", object, reason)
		})
	}
}

// InOtherNamespace reports whether a request's path is in the namespace of another test, which
// may still be terminating.
func InOtherNamespace(request string, own ...string) bool {
	_, rest, namespaced := strings.Cut(request, "/namespaces/test-")
	namespace, _, _ := strings.Cut(rest, "/")
	return namespaced && !slices.Contains(own, "test-"+namespace)
}
