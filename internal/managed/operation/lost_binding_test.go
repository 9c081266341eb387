package operation_test

import (
	"errors"
	"strings"
	"testing"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestALostBindingIsRebuiltBeforeAnythingIsCreated deletes the Binding of a managed resource,
// with and without its external-name annotation.
func TestALostBindingIsRebuiltBeforeAnythingIsCreated(t *testing.T) {
	for class, c := range classes {
		for _, annotated := range []bool{true, false} {
			if !annotated && !c.caps.Findable {
				continue // nothing could tell
			}
			name := class + map[bool]string{true: ", annotated", false: ", not annotated"}[annotated]
			t.Run(name, func(t *testing.T) {
				l := newSimulation(c.caps, c.async, policies("*"))
				if err := l.settle(); err != nil {
					t.Fatal(err)
				}
				l.elapse(c.caps.Settle)
				before := l.stored.Ref
				l.stored, l.reserved = nil, map[external.Ref]bool{}
				if !annotated {
					l.resource.ExternalName = ""
				}
				if err := l.settle(); err != nil {
					t.Fatal(err)
				}
				if l.cloud.creations != 1 || l.stored == nil || l.stored.Ref != before || l.last.Synced.Reason != resource.ReconcileSuccess {
					t.Errorf("there were %d creations, and %+v is bound:\n%s", l.cloud.creations, l.stored, strings.Join(l.log, "\n"))
				}
			})
		}
	}
}

func TestAForeignMarkIsNotTakenForALostBinding(t *testing.T) {
	for class, c := range classes {
		if !c.caps.Marked {
			continue
		}
		t.Run(class, func(t *testing.T) {
			l := newSimulation(c.caps, c.async, policies("*"))
			if err := l.settle(); err != nil {
				t.Fatal(err)
			}
			l.elapse(c.caps.Settle)
			l.stored = nil
			l.cloud.things[0].mark.ID, l.cloud.things[0].mark.Owner = "theirs", "Thing prod/b"
			if err := l.settle(); err != nil {
				t.Fatal(err)
			}
			if l.cloud.creations != 1 || l.last.Synced.Reason != resource.Conflict {
				t.Errorf("there were %d creations, and it rests because of %s: %s", l.cloud.creations, l.last.Synced.Reason, l.last.Synced.Message)
			}
		})
	}
}

// TestAFailedSearchBeforeACreationNamesWhatItIsFor has the external API refuse the first search for a
// new managed resource, whose Binding nobody has lost.
func TestAFailedSearchBeforeACreationNamesWhatItIsFor(t *testing.T) {
	step := operation.Next(operation.State{
		Resource: operation.Resource{HasFinalizer: true, Policies: policies("*")}, Now: start, MarkOwner: "us", DesiredKey: external.Key{Scope: "here", Type: "thing"},
		Caps: external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true}, ObserveErr: errors.New("access denied"),
		Binding: &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing"}, Mark: "m", Phase: binding.BindingReserved},
	})
	want := "search for an external resource of this object before one is created: access denied"
	if step.Synced.Message != want || step.Ready.Reason != resource.Creating {
		t.Errorf("got %q, %s, want %q", step.Synced.Message, step.Ready.Reason, want)
	}
}
