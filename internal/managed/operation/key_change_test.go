package operation_test

import (
	"cmp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestAChangedKeyIsAConflict changes the configuration or the spec, so that the client is
// connected to another place: what exists there says nothing about the bound external resource.
func TestAChangedKeyIsAConflict(t *testing.T) {
	at := metav1.NewMicroTime(start)
	open := func(verb external.Verb) *binding.BindingOperation {
		return &binding.BindingOperation{Verb: string(verb), Attempt: 1, StartedAt: at}
	}
	cases := map[string]struct {
		deleting, keeps bool
		operation       *binding.BindingOperation
		key             external.Key
		released        bool
	}{
		"no deletion, in another scope":          {deleting: true, key: external.Key{Scope: "there", Type: "thing", Name: "a"}},
		"no deletion, of another name":           {deleting: true, key: external.Key{Scope: "here", Type: "thing", Name: "b"}},
		"no repeated creation":                   {operation: open(external.Create), key: external.Key{Scope: "there", Type: "thing", Name: "a"}},
		"no repeated update":                     {operation: open(external.Update), key: external.Key{Scope: "there", Type: "thing", Name: "a"}},
		"no repeated deletion":                   {deleting: true, operation: open(external.Delete), key: external.Key{Scope: "there", Type: "thing", Name: "a"}},
		"an orphaned resource is released":       {deleting: true, keeps: true, released: true, key: external.Key{Scope: "there", Type: "thing", Name: "a"}},
		"an unresolved creation is not released": {deleting: true, keeps: true, operation: open(external.Create), key: external.Key{Scope: "there", Type: "thing", Name: "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: !tc.keeps, Deleting: tc.deleting, ExternalName: "a"}, Now: start,
				DesiredKey: tc.key, DesiredKeyAnnotation: "a", Requests: map[external.Verb]external.Request{},
				Binding: &binding.BindingSpec{
					Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingBound, Ref: "a", Attempts: 1, Operation: tc.operation,
				},
			}
			step := operation.Next(s)
			if tc.released {
				if step.Do != operation.UpdateBinding || step.Binding.Phase != binding.BindingReleased {
					t.Errorf("the next step is %s", step.Do)
				}
				return
			}
			if step.Do != operation.Finish || step.Synced.Reason != resource.Conflict {
				t.Errorf("the next step is %s %+v", step.Do, step.Synced)
			}
		})
	}
}

// TestALostExternalNameIsRestored removes the external-name annotation of a resource that does
// not have the name of its object.
func TestALostExternalNameIsRestored(t *testing.T) {
	for _, deleting := range []bool{false, true} {
		s := operation.State{
			Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, Deleting: deleting}, Now: start, DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"},
			Binding: &binding.BindingSpec{
				Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "theirs"}, Mark: "m", Phase: binding.BindingBound, Ref: "theirs", Attempts: 1,
			},
		}
		if step := operation.Next(s); step.Do != operation.SetExternalName || step.Ref != "theirs" {
			t.Fatalf("deleting: %t: the next step is %s %+v", deleting, step.Do, step.Synced)
		}
		s.Resource.ExternalName, s.ExternalNameSet = "theirs", true
		if step := operation.Next(s); step.Do != operation.Finish || step.After == 0 || step.Synced.Reason != "" {
			t.Errorf("deleting: %t: the next step is %s %+v", deleting, step.Do, step.Synced)
		}
	}
}

// TestAClientOfAnotherNameIsNotUsedOnceTheNameIsRestored changes the external-name annotation of a bound resource. The
// client was connected for that name, so that its differences and its request are those of another resource.
func TestAClientOfAnotherNameIsNotUsedOnceTheNameIsRestored(t *testing.T) {
	cases := map[string]struct {
		reason     string
		naming     external.Naming
		annotation string
		want       operation.Do
	}{
		"the name was another one":                     {"the client has it", external.CallerAssigned, "other", operation.Finish},
		"the name was missing":                         {"the client has derived the bound one", external.CallerAssigned, "", operation.Prepare},
		"the annotation was another assigned identity": {"no request follows from it", external.ProviderAssigned, "other", operation.Prepare},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, ExternalName: tc.annotation}, Now: start,
				Caps: external.Caps{Naming: tc.naming}, DesiredKey: external.Key{Scope: "here", Type: "thing"}, DesiredKeyAnnotation: tc.annotation,
				Requests: map[external.Verb]external.Request{},
				Observed: &external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.No, Diff: "the name"},
				Binding:  &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing"}, Mark: "m", Phase: binding.BindingBound, Ref: "a", Attempts: 1},
			}
			if tc.naming == external.CallerAssigned {
				s.DesiredKey.Name, s.Binding.Key.Name = cmp.Or(tc.annotation, "a"), "a"
			}
			if step := operation.Next(s); step.Do != operation.SetExternalName || step.Ref != "a" {
				t.Fatalf("the next step is %s %+v", step.Do, step.Synced)
			}
			s.Resource.ExternalName, s.ExternalNameSet = "a", true
			step := operation.Next(s)
			if step.Do != tc.want || tc.want == operation.Finish && (step.After == 0 || step.Synced.Reason != "") {
				t.Errorf("%s: the next step is %s %+v", tc.reason, step.Do, step)
			}
		})
	}
}
