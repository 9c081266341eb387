package operation_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

const archivedToken, archivedRequest = "archived-token", "archived-request"

// TestAnImportedOperationIsResolvedByObservation restores Bindings with an operation in flight,
// as an import does. No call has the token or the request of the archive.
func TestAnImportedOperationIsResolvedByObservation(t *testing.T) {
	named := external.Caps{Marked: true}
	findable := external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true}
	token := external.Caps{Naming: external.ProviderAssigned, Marked: true, TokenTTL: time.Hour}
	both := external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true, TokenTTL: time.Hour, Settle: 5 * time.Second}
	ours := &external.Mark{ID: "m1", Owner: "Thing prod/a@old"}
	theirs := &external.Mark{ID: "m2", Owner: "Thing other/b@here"}
	aThing := func(ref string, mark *external.Mark, request string) *thing {
		return &thing{ref: external.Ref(ref), mark: mark, request: request}
	}
	cases := map[string]struct {
		reason   string
		caps     external.Caps
		binding  binding.BindingSpec
		there    []*thing
		deleting bool
		want     string // the reason of Synced
		ref      string
		creates  int
		left     int // external resources at the end
	}{
		"a creation by name that had an effect is bound": {
			reason: "the name shows it", caps: named,
			binding: binding.BindingSpec{Key: binding.BindingKey{Name: "a"}, Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create"}},
			there:   []*thing{aThing("a", ours, "v1")}, want: resource.ReconcileSuccess, ref: "a", left: 1,
		},
		"a creation by name that had none begins again from the spec": {
			reason: "an API has at most one resource of a name", caps: named,
			binding: binding.BindingSpec{Key: binding.BindingKey{Name: "a"}, Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create"}},
			want:    resource.ReconcileSuccess, ref: "a", creates: 1, left: 1,
		},
		"a creation by name that somebody else has taken is a conflict": {
			reason: "the mark shows another owner", caps: named,
			binding: binding.BindingSpec{Key: binding.BindingKey{Name: "a"}, Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create"}},
			there:   []*thing{aThing("a", theirs, "v0")}, want: resource.Conflict, left: 1,
		},
		"a creation is found by its mark": {
			reason: "the token is still valid, and is not sent", caps: both,
			binding: binding.BindingSpec{Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create"}},
			there:   []*thing{aThing("id-7", ours, "v1")}, want: resource.ReconcileSuccess, ref: "id-7", left: 1,
		},
		"a creation that no mark shows begins again from the spec": {
			reason: "a search after the settle time proves that it had no effect", caps: findable,
			binding: binding.BindingSpec{Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create"}},
			want:    resource.ReconcileSuccess, ref: "id-1", creates: 1, left: 1,
		},
		"a creation that only its token could resolve waits for a person": {
			reason: "the token and the request are the archive's", caps: token,
			binding: binding.BindingSpec{Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create"}},
			want:    resource.CreateUnresolved,
		},
		"a creation that names another's resource waits for a person": {
			reason: "an archive can name any identity", caps: token,
			binding: binding.BindingSpec{Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create", Ref: "id-8"}},
			there:   []*thing{aThing("id-8", theirs, "v0")}, want: resource.CreateUnresolved, left: 1,
		},
		"a creation that the API had accepted is not polled": {
			reason: "the archive would determine which operation is polled", caps: token,
			binding: binding.BindingSpec{Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create", Resume: "op/id-8"}},
			there:   []*thing{aThing("id-8", theirs, "v0")}, want: resource.CreateUnresolved, left: 1,
		},
		"a creation that the API had accepted is found by its mark": {
			reason: "it has our mark", caps: findable,
			binding: binding.BindingSpec{Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create", Resume: "op/id-8"}},
			there:   []*thing{aThing("id-8", ours, "v1")}, want: resource.ReconcileSuccess, ref: "id-8", left: 1,
		},
		"a creation that the API had accepted, and that no mark shows, waits for a person": {
			reason: "the resource may become visible later, and a second one would be created", caps: findable,
			binding: binding.BindingSpec{Phase: binding.BindingCreating, Operation: &binding.BindingOperation{Verb: "Create", Resume: "op/id-8"}},
			want:    resource.CreateUnresolved,
		},
		"an update is computed from the spec": {
			reason: "the archive's request is not sent", caps: named,
			binding: binding.BindingSpec{Key: binding.BindingKey{Name: "a"}, Ref: "a", Phase: binding.BindingUpdating, Operation: &binding.BindingOperation{Verb: "Update"}},
			there:   []*thing{aThing("a", ours, "v0")}, want: resource.ReconcileSuccess, ref: "a", left: 1,
		},
		"a deletion of what is not being deleted is not made": {
			reason: "the managed resource is wanted", caps: named,
			binding: binding.BindingSpec{Key: binding.BindingKey{Name: "a"}, Ref: "a", Phase: binding.BindingDeleting, Operation: &binding.BindingOperation{Verb: "Delete"}},
			there:   []*thing{aThing("a", ours, "v1")}, want: resource.ReconcileSuccess, ref: "a", left: 1,
		},
		"a deletion of what is being deleted is a new one": {
			reason: "the managed resource is being deleted here", caps: named,
			binding:  binding.BindingSpec{Key: binding.BindingKey{Name: "a"}, Ref: "a", Phase: binding.BindingDeleting, Operation: &binding.BindingOperation{Verb: "Delete"}},
			there:    []*thing{aThing("a", ours, "v1")},
			deleting: true, ref: "a",
		},
		"a deletion of what is gone ends": {
			reason: "it has had its effect", caps: named,
			binding:  binding.BindingSpec{Key: binding.BindingKey{Name: "a"}, Ref: "a", Phase: binding.BindingDeleting, Operation: &binding.BindingOperation{Verb: "Delete"}},
			deleting: true, ref: "a",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newSimulation(tc.caps, 0, policies("OCUD"))
			l.resource.HasFinalizer, l.resource.Deleting = true, tc.deleting
			l.cloud.things = tc.there
			b := tc.binding
			b.Key.Scope, b.Key.Type, b.Mark, b.Attempts = "here", "thing", "m1", 3
			b.Operation.Attempt, b.Operation.Token, b.Operation.Request = 3, archivedToken, []byte(archivedRequest)
			b.Operation.StartedAt, b.Operation.Imported = metav1.NewMicroTime(start.Add(-time.Minute)), true
			b.Owner = l.resource.Owner
			l.stored = &b
			l.next = func(s operation.State) operation.Step {
				step := operation.Next(s)
				if step.Do == operation.Poll && s.Binding.Operation.Imported {
					t.Error("the operation of the archive is polled")
				}
				if step.Do == operation.Begin && (step.Intent.Token == archivedToken || string(step.Intent.Request) == archivedRequest) {
					t.Errorf("the call of the archive is made: %+v", step.Intent)
				}
				return step
			}
			for range 6 { // what the API shows late
				if err := l.settle(); err != nil {
					t.Fatal(err, l.log)
				}
				l.elapse(10 * time.Second)
			}
			if l.gone != tc.deleting || !tc.deleting && l.last.Synced.Reason != tc.want {
				t.Errorf("%s: the last condition is %+v, gone: %t\n%v", tc.reason, l.last.Synced, l.gone, l.log)
			}
			if l.stored != nil && (l.stored.Ref != tc.ref || l.cloud.creations != tc.creates || len(l.cloud.alive()) != tc.left) {
				t.Errorf("%s: bound to %q after %d creations, and %d resources exist\n%v", tc.reason, l.stored.Ref, l.cloud.creations, len(l.cloud.alive()), l.log)
			}
		})
	}
}
