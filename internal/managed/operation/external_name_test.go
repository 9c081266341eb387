package operation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestTheAnnotationIsFollowedUntilAResourceIsBound changes the external-name annotation of a managed resource whose
// identity the API assigns. A resource exists whose identity is id-7.
func TestTheAnnotationIsFollowedUntilAResourceIsBound(t *testing.T) {
	const none = ""
	name := func(ref string) func(*simulation) { return func(l *simulation) { l.resource.ExternalName = ref } }
	vanish := func(l *simulation) {
		for _, t := range l.cloud.things {
			t.deleted, t.goneAt = l.now, l.now
		}
	}
	refused := func(n int) func(*simulation) { return func(l *simulation) { l.cloud.busy = n } }
	both := func(changes ...func(*simulation)) func(*simulation) {
		return func(l *simulation) {
			for _, change := range changes {
				change(l)
			}
		}
	}
	cases := map[string]struct {
		reason   string
		policies string
		changes  []func(*simulation)
		message  string // of Synced at the end
		ref      string
		creates  int
	}{
		"a resource that is only observed has no name": {
			reason: "the message says what to do", policies: "O", changes: []func(*simulation){name(none)},
			message: "no external resource is named, and spec.managementPolicies does not allow creating one. Set the annotation crossplane.io/external-name to the identity of an existing one",
		},
		"a resource that is only observed is named later": {
			reason: "nothing else can be meant", policies: "O", changes: []func(*simulation){name(none), name("id-7")}, ref: "id-7",
		},
		"a resource is named while its creation is refused": {
			reason: "the name is a way out", policies: "*", changes: []func(*simulation){refused(1000), name("id-7")}, ref: "id-7",
		},
		"a resource is named that does not exist": {
			reason: "the message says what to do", policies: "*", changes: []func(*simulation){name("id-9")},
			message: "the external resource id-9 does not exist, and cannot be created with this identity, because the external API assigns identities. Correct the annotation crossplane.io/external-name, or remove it to have a new one created",
		},
		"a wrong name is corrected": {
			reason: "nothing is bound yet", policies: "*", changes: []func(*simulation){name("id-9"), name("id-7")}, ref: "id-7",
		},
		"a wrong name is removed": {
			reason: "none is named any longer", policies: "*", changes: []func(*simulation){name("id-9"), name(none)}, ref: "id-2", creates: 1,
		},
		"an adopted resource is deleted": {
			reason: "its identity cannot be had again", policies: "*", changes: []func(*simulation){name("id-7"), vanish}, ref: "id-7",
			message: "the external resource id-7 does not exist, and cannot be created with this identity, because the external API assigns identities. Correct the annotation crossplane.io/external-name, or remove it to have a new one created",
		},
		"an adopted resource is deleted, and its name removed": {
			reason: "a new one is wanted", policies: "*", changes: []func(*simulation){name("id-7"), vanish, name(none)}, ref: "id-2", creates: 1,
		},
		"a created resource is deleted": {
			reason: "the annotation names the one that is gone", policies: "*", changes: []func(*simulation){name(none), vanish}, ref: "id-3", creates: 2,
		},
		"a created resource is deleted, and its creation is refused at first": {
			reason: "the annotation names the one that is gone", policies: "*", changes: []func(*simulation){name(none), both(vanish, refused(3))}, ref: "id-3", creates: 2,
		},
		"a created resource is deleted, and another is named": {
			reason: "it is adopted as before the creation", policies: "*",
			changes: []func(*simulation){name(none), both(vanish, there("id-8"), name("id-8"))}, ref: "id-8", creates: 1,
		},
	}
	for class, caps := range map[string]external.Caps{
		"with tokens":   {Naming: external.ProviderAssigned, TokenTTL: time.Hour},
		"with a search": {Naming: external.ProviderAssigned, Marked: true, Findable: true},
	} {
		for what, tc := range cases {
			t.Run(what+", "+class, func(t *testing.T) {
				l := newSimulation(caps, 0, policies(tc.policies))
				there("id-7")(l)
				for _, change := range tc.changes {
					change(l)
					for range 4 {
						if err := l.settle(); err != nil && l.cloud.busy == 0 {
							t.Fatal(err, l.log)
						}
						l.elapse(30 * time.Second)
					}
				}
				reason := resource.ReconcileSuccess
				if tc.message != "" {
					reason = resource.ReconcileError
				}
				if l.last.Synced.Reason != reason || l.last.Synced.Message != tc.message {
					t.Errorf("%s: the last condition is %+v", tc.reason, l.last.Synced)
				}
				if l.stored.Ref != tc.ref || l.cloud.creations != tc.creates {
					t.Errorf("%s: bound to %q after %d creations\n%s", tc.reason, l.stored.Ref, l.cloud.creations, strings.Join(l.log, "\n"))
				}
				if len(l.cloud.violations) > 0 {
					t.Error(l.cloud.violations)
				}
			})
		}
	}
}

// there adds an external resource that nobody manages.
func there(ref string) func(*simulation) {
	return func(l *simulation) {
		l.cloud.things = append(l.cloud.things, &thing{ref: external.Ref(ref), created: start.Add(-time.Hour), request: l.want})
	}
}

// TestAnInvalidSetOfPoliciesNeedsAUser: nothing else ends it.
func TestAnInvalidSetOfPoliciesNeedsAUser(t *testing.T) {
	for _, set := range []resource.Policies{
		{resource.ActionCreate}, {resource.ActionAll, resource.ActionObserve}, {resource.ActionObserve, resource.ActionUpdate, resource.ActionDelete}, {"Recreate"},
	} {
		step := operation.Next(operation.State{Resource: operation.Resource{Policies: set}})
		if step.Do != operation.Finish || !step.NeedsAction || step.After != 0 || step.Err != nil || !strings.HasPrefix(step.Synced.Message, "spec.managementPolicies: ") {
			t.Errorf("%v: %+v", set, step)
		}
	}
}
