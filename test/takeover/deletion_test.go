package takeover

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/takeover/live"
)

const audit = "foreign.example.org/audit"

// Crossplane has removed its finalizer and left the composed resources to the garbage collector;
// another finalizer keeps the composite.
func TestADeletionThatCrossplaneStartedKeepsItsPolicy(t *testing.T) {
	s := suite.New(t)
	blocked := s.Await(t, app, "team-c", "going", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is gone")
		}
		blockers, _, _ := unstructured.NestedSlice(o.Object, "status", "deletion", "blockers")
		if len(blockers) == 0 {
			return errors.New("names no blocker")
		}
		return nil
	})
	if message := testkit.ConditionMessage(blocked, "Ready"); !strings.Contains(message, audit) {
		t.Errorf("the message of Ready is %s", message)
	}
	for _, part := range []string{"Deployment team-c/going-b08a7c999f1a", "ConfigMap team-c/going-d0426bc7d755", "Service team-c/going"} {
		was := before[part]
		if err := live.IsSameObject(was, s.Get(t, was.GroupVersionKind(), was.GetNamespace(), was.GetName())); err != nil {
			t.Errorf("%s %v", part, err)
		}
	}
	release(t, s, app, "team-c", "going")
	s.AwaitGone(t, app, "team-c", "going")
	s.AwaitGone(t, suite.ConfigMap, "team-c", "going-d0426bc7d755")
}

// A claim waits for its composite, which is deleted in the foreground; its Secret is deleted with
// the claim and not before.
func TestAClaimDeletionThatCrossplaneStartedKeepsItsPolicy(t *testing.T) {
	s := suite.New(t)
	instance := schema.GroupVersionKind{Group: "fake.example.org", Version: "v1beta1", Kind: "Instance"}
	s.Await(t, database, "team-b", "leaving", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is gone")
		}
		if !strings.Contains(testkit.ConditionMessage(o, "Ready"), audit) {
			return errors.New("doesn't name what keeps it: " + testkit.ConditionMessage(o, "Ready"))
		}
		return nil
	})
	was := before["Secret team-b/leaving-conn"]
	if err := live.IsSameObject(was, s.Get(t, suite.Secret, "team-b", "leaving-conn")); err != nil {
		t.Errorf("its Secret %v", err)
	}
	release(t, s, instance, "", "leaving-fppwt-1d288ca54e42")
	s.AwaitGone(t, database, "team-b", "leaving")
	s.AwaitGone(t, suite.Secret, "team-b", "leaving-conn")
}

// release removes the finalizer of another client from an object.
func release(t *testing.T, s suite.Suite, kind schema.GroupVersionKind, namespace, name string) {
	t.Helper()
	finalizers := s.Get(t, kind, namespace, name).GetFinalizers()
	i := slices.Index(finalizers, audit)
	if i < 0 {
		t.Fatalf("%s %s has the finalizers %v", kind.Kind, name, finalizers)
	}
	patch := fmt.Appendf(nil, `[{"op":"remove","path":"/metadata/finalizers/%d"}]`, i)
	if _, err := s.Resource(t, kind, namespace).Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
