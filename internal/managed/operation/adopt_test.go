package operation_test

import (
	"strings"
	"testing"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestAnExternalNameAdoptsAfterAConflict sets the annotation that the message of the conflict names, when the key is
// already reserved.
func TestAnExternalNameAdoptsAfterAConflict(t *testing.T) {
	cases := map[string]struct {
		change func(*operation.State)
		want   operation.Do
		synced string
	}{
		"without the annotation": {
			func(s *operation.State) { s.Resource.ExternalName, s.DesiredKeyAnnotation = "", "" }, operation.Finish, resource.Conflict,
		},
		"with the annotation": {func(*operation.State) {}, operation.UpdateBinding, ""},
		"with another name": {
			func(s *operation.State) {
				s.Resource.ExternalName, s.DesiredKeyAnnotation, s.DesiredKey.Name = "b", "b", "b"
			}, operation.Finish, resource.Conflict,
		},
		"with a name that the key does not have yet": {
			func(s *operation.State) { s.Resource.ExternalName = "b" }, operation.Finish, resource.Conflict,
		},
		"with the mark of another owner": {
			func(s *operation.State) { s.Observed.Mark = &external.Mark{ID: "x", Owner: "other"} }, operation.Finish, resource.Conflict,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, ExternalName: "a", DeletesExternal: true}, Now: start, MarkOwner: "me",
				DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"}, DesiredKeyAnnotation: "a", Caps: external.Caps{Marked: true},
				Observed: &external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.Yes},
				Binding:  &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingReserved},
			}
			tc.change(&s)
			step := operation.Next(s)
			if step.Do != tc.want || step.Synced.Reason != tc.synced {
				t.Fatalf("the next step is %s %+v", step.Do, step.Synced)
			}
			if name == "with another name" && !strings.Contains(step.Synced.Message, `names "b", but "a" is reserved`) {
				t.Errorf("the message is %q", step.Synced.Message)
			}
			if step.Do != operation.UpdateBinding {
				return
			}
			if !step.Binding.Explicit {
				t.Fatalf("the Binding is %+v", step.Binding)
			}
			s.Binding = step.Binding
			if step := operation.Next(s); step.Binding == nil || step.Binding.Phase != binding.BindingBound || step.Binding.Ref != "a" {
				t.Errorf("want a bound Binding, got %s %+v", step.Do, step.Binding)
			}
		})
	}
}
