package operation_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestAMarkOfAnotherNamespaceNamesNobody has an external resource with another managed resource's mark: when it would be
// adopted, when it is bound, and when it would be deleted. A tenant is not told the names of objects of others.
func TestAMarkOfAnotherNamespaceNamesNobody(t *testing.T) {
	thing := schema.GroupKind{Group: "x", Kind: "Thing"}
	const protected = "protected"
	const anonymous = "carries the mark of another managed resource"
	cases := map[string]struct{ namespace, owner, want string }{
		"of the same namespace":                        {"prod", operation.MarkOwner(thing, "prod", "b", "here"), "carries the mark of Thing.x/prod/b@here"},
		"of another namespace":                         {"prod", operation.MarkOwner(thing, "other", "b", "here"), anonymous},
		"cluster-scoped":                               {"prod", operation.MarkOwner(thing, "", "b", "here"), anonymous},
		"of a namespace of this name elsewhere":        {"prod", operation.MarkOwner(thing, "prod", "b", "there"), anonymous},
		"written by somebody else":                     {"prod", "who/prod/knows", anonymous},
		"found by a cluster-scoped resource":           {"", operation.MarkOwner(thing, "other", "b", "here"), "carries the mark of Thing.x/other/b@here"},
		"with the namespace in front of its name":      {"prod", "prod/other/b@here", anonymous},
		"of no managed resource, as the provider says": {"prod", protected, "carries the mark of the configuration, which connects as it"},
	}
	states := map[string]struct {
		change func(*operation.State)
		said   func(operation.Step) string
	}{
		"not bound yet": {func(s *operation.State) {}, conflictOf},
		"bound":         {func(s *operation.State) { s.Binding.Phase, s.Binding.Ref = binding.BindingBound, "a" }, conflictOf},
		"deleted": {
			func(s *operation.State) {
				s.Binding.Phase, s.Binding.Ref, s.Resource.Deleting = binding.BindingBound, "a", true
			},
			func(step operation.Step) string { return step.Event.Message },
		},
	}
	for name, tc := range cases {
		for when, state := range states {
			t.Run(name+", "+when, func(t *testing.T) {
				s := operation.State{
					Resource: operation.Resource{
						Owner:        binding.BindingOwner{APIVersion: "x/v1", Kind: "Thing", Namespace: tc.namespace, Name: "a"},
						HasFinalizer: true, DeletesExternal: true, ExternalName: "a",
					},
					Now: start, MarkOwner: operation.MarkOwner(thing, tc.namespace, "a", "here"), Caps: external.Caps{Marked: true},
					DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"}, DesiredKeyAnnotation: "a",
					Observed: &external.Observation{Presence: external.Present, Ref: "a", Mark: &external.Mark{ID: "x", Owner: tc.owner}, UpToDate: external.No},
					Binding:  &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingReserved},
				}
				state.change(&s)
				if tc.owner == protected {
					s.Observed.Mark.Holder = "the configuration, which connects as it"
				}
				step := operation.Next(s)
				said := state.said(step)
				if !strings.Contains(said, tc.want) {
					t.Errorf("%s %+v %+v does not say %q", step.Do, step.Synced, step.Event, tc.want)
				}
				const todo = "; it is not changed. If that object is gone, or has left it behind, remove the mark"
				if isConflict := step.Synced.Reason == resource.Conflict; strings.Contains(said, todo) != (isConflict && tc.owner != protected) {
					t.Errorf("what to do about %q", said)
				}
			})
		}
	}
}

func conflictOf(step operation.Step) string {
	if step.Synced.Reason != resource.Conflict {
		return ""
	}
	return step.Synced.Message
}
