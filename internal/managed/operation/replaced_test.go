package operation_test

import (
	"strings"
	"testing"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// replace has another client delete the external resource, and create another one of its name.
func replace(mark *external.Mark) func(*simulation) {
	return func(l *simulation) {
		for _, t := range l.cloud.alive() {
			t.deleted, t.goneAt = l.now, l.now
		}
		l.cloud.things = append(l.cloud.things, &thing{ref: "a", mark: mark, created: l.now, request: "theirs"})
	}
}

// TestAResourceThatOthersHaveCreatedAgainIsTheirs has an external API that shows which resource of a name it is. The
// resource of another client is neither changed nor deleted, unless the user says so.
func TestAResourceThatOthersHaveCreatedAgainIsTheirs(t *testing.T) {
	remove := func(l *simulation) { l.resource.Deleting = true }
	adopt := func(l *simulation) { l.resource.AdoptUnmarked = true }
	name := func(l *simulation) { l.resource.ExternalName = "a" }
	restore := func(l *simulation) { replace(&external.Mark{ID: l.stored.Mark, Owner: "Thing prod/a"})(l) }
	cases := map[string]struct {
		before  []func(*simulation)
		changes []func(*simulation)
		message string // of Synced at the end; empty if it is as it should be
		ready   string
		want    string // the request of the external resource at the end; empty if it is gone
		event   string
	}{
		"it is not changed": {
			changes: []func(*simulation){replace(nil)}, want: "theirs", event: "ExternalResourceReplaced",
			message: "the external resource a exists already and nothing shows that it belongs to this object; it is not changed. To adopt it, set the annotation espalier.dev/adopt to IfUnmarked", ready: resource.Unavailable,
		},
		"nor if the user has chosen the name": {
			before: []func(*simulation){name}, changes: []func(*simulation){replace(nil)}, want: "theirs", event: "ExternalResourceReplaced",
			message: "the external resource a exists already and nothing shows that it belongs to this object; it is not changed. To adopt it, set the annotation espalier.dev/adopt to IfUnmarked", ready: resource.Unavailable,
		},
		"nor with the mark of others": {
			changes: []func(*simulation){replace(&external.Mark{ID: "x", Owner: "Thing prod/b"})}, want: "theirs", ready: resource.Available,
			message: "the external resource a now carries the mark of another managed resource; it is not changed. If that object is gone, or has left it behind, remove the mark from the external resource",
		},
		"it is not deleted":                      {changes: []func(*simulation){replace(nil), remove}, want: "theirs", event: "ExternalResourceReplaced"},
		"nor if it appears while nobody looks":   {changes: []func(*simulation){func(l *simulation) { replace(nil)(l); remove(l) }}, want: "theirs", event: "ExternalResourceLeft"},
		"nor if the name was chosen":             {before: []func(*simulation){name}, changes: []func(*simulation){replace(nil), remove}, want: "theirs", event: "ExternalResourceReplaced"},
		"with the mark it was restored":          {changes: []func(*simulation){restore}, want: "v1"},
		"one that was restored is deleted":       {changes: []func(*simulation){restore, remove}},
		"the user adopts it":                     {changes: []func(*simulation){replace(nil), adopt}, want: "v1", event: "ExternalResourceReplaced"},
		"the user has said so before":            {before: []func(*simulation){adopt}, changes: []func(*simulation){replace(nil)}, want: "v1", event: "ExternalResourceReplaced"},
		"what was adopted is deleted":            {changes: []func(*simulation){replace(nil), adopt, remove}, event: "ExternalResourceReplaced"},
		"another one after that is theirs again": {changes: []func(*simulation){replace(nil), adopt, func(l *simulation) { l.resource.AdoptUnmarked = false }, replace(nil), remove}, want: "theirs", event: "ExternalResourceReplaced"},
	}
	for class, marked := range map[string]bool{"created with its mark": true, "marked later": false} {
		for what, tc := range cases {
			if !marked && strings.Contains(what+tc.message, "mark of") || !marked && strings.Contains(what, "restored") {
				continue // this API shows no marks
			}
			t.Run(what+", "+class, func(t *testing.T) {
				l := newSimulation(external.Caps{Naming: external.CallerAssigned, Marked: marked}, 0, policies("*"))
				l.cloud.incarnations = true
				events := map[string]bool{}
				l.next = func(s operation.State) operation.Step {
					step := operation.Next(s)
					events[step.Event.Reason] = true
					return step
				}
				for _, change := range append(append(tc.before, func(*simulation) {}), tc.changes...) {
					change(l)
					for range 4 {
						if err := l.settle(); err != nil {
							t.Fatal(err, l.log)
						}
						l.elapse(30 * time.Second)
					}
				}
				if !l.gone && (l.last.Synced.Message != tc.message || (l.last.Synced.Reason == resource.Conflict) != (tc.message != "")) {
					t.Errorf("the last condition is %+v", l.last.Synced)
				}
				if tc.ready != "" && l.last.Ready.Reason != "" && l.last.Ready.Reason != tc.ready {
					t.Errorf("it is %+v", l.last.Ready)
				}
				got := ""
				for _, t := range l.cloud.alive() {
					got += t.request
				}
				if got != tc.want {
					t.Errorf("the external resource is %q, want %q\n%s", got, tc.want, strings.Join(l.log, "\n"))
				}
				for _, reason := range []string{"ExternalResourceReplaced", "ExternalResourceLeft"} {
					if events[reason] != (reason == tc.event) {
						t.Errorf("event %s: %t", reason, events[reason])
					}
				}
				if len(l.cloud.violations) > 0 {
					t.Error(l.cloud.violations)
				}
			})
		}
	}
}

// TestACallIsNotRepeatedOnAResourceOfOthers has an update or a deletion whose answer was lost, and a resource of
// another client under the name.
func TestACallIsNotRepeatedOnAResourceOfOthers(t *testing.T) {
	seen := map[string]external.Observation{
		"which they have created again": {Presence: external.Present, Ref: "a", Incarnation: "2", UpToDate: external.No},
		"which they have marked":        {Presence: external.Present, Ref: "a", Incarnation: "1", UpToDate: external.No, Mark: &external.Mark{ID: "x", Owner: "Thing prod/b"}},
	}
	for _, verb := range []external.Verb{external.Update, external.Delete} {
		for what, observed := range seen {
			t.Run(string(verb)+" of one "+what, func(t *testing.T) {
				s := operation.State{
					Resource: operation.Resource{HasFinalizer: true, Deleting: verb == external.Delete, DeletesExternal: true, Policies: policies("*"), ExternalName: "a"}, Now: start,
					Caps: external.Caps{Marked: true}, DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"}, DesiredKeyAnnotation: "a", Observed: &observed,
					Binding: &binding.BindingSpec{
						Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Ref: "a", Incarnation: "1", Phase: binding.BindingUpdating,
						Operation: &binding.BindingOperation{Verb: string(verb)},
					},
				}
				step := operation.Next(s)
				if step.Do != operation.UpdateBinding || step.Binding.Operation != nil {
					t.Errorf("the next step is %s %+v", step.Do, step.Synced)
				}
			})
		}
	}
}

// TestAnotherResourceIsNotAdoptedByTheNameOfTheFormer has others delete the external resource, and create another one
// before it is created again. The annotation, which the controllers have written, does not name the other.
func TestAnotherResourceIsNotAdoptedByTheNameOfTheFormer(t *testing.T) {
	l := newSimulation(external.Caps{Naming: external.CallerAssigned, Marked: true}, 0, policies("*"))
	if err := l.settle(); err != nil {
		t.Fatal(err)
	}
	for _, t := range l.cloud.alive() {
		t.deleted, t.goneAt = l.now, l.now
	}
	l.next = func(s operation.State) operation.Step {
		step := operation.Next(s)
		if step.Do == operation.Begin && len(l.cloud.alive()) == 0 {
			replace(nil)(l)
		}
		return step
	}
	for range 4 {
		if err := l.settle(); err != nil {
			t.Fatal(err)
		}
		l.elapse(30 * time.Second)
	}
	if l.last.Synced.Reason != resource.Conflict || !strings.HasSuffix(l.last.Synced.Message, "set the annotation espalier.dev/adopt to IfUnmarked") || l.cloud.alive()[0].request != "theirs" {
		t.Errorf("%+v\n%s", l.last.Synced, strings.Join(l.log, "\n"))
	}
}
