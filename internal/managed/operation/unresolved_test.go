package operation_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// lost is the state of a creation without a response, in an API that assigns identities, and has
// neither tokens nor marks.
func lost() operation.State {
	at := metav1.NewMicroTime(start.Add(-time.Hour))
	return operation.State{
		Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true}, Caps: external.Caps{Naming: external.ProviderAssigned}, Now: start,
		DesiredKey: external.Key{Scope: "here", Type: "thing"}, MarkOwner: "us", Requests: map[external.Verb]external.Request{external.Create: nil},
		Binding: &binding.BindingSpec{
			Key: binding.BindingKey{Scope: "here", Type: "thing"}, Mark: "m", Phase: binding.BindingCreating, Attempts: 1,
			Operation:  &binding.BindingOperation{Verb: "Create", Attempt: 1, StartedAt: at},
			Unresolved: &binding.BindingUnresolved{Since: at, Message: "no search"},
		},
	}
}

// TestAWrongExternalNameDoesNotResolveACreation has a user name a resource that does not exist,
// or is another owner's, as the result of a creation with an unknown outcome.
func TestAWrongExternalNameDoesNotResolveACreation(t *testing.T) {
	looks := map[string]external.Observation{
		"absent":          {Presence: external.Absent},
		"another owner's": {Presence: external.Present, Ref: "id-9", Mark: &external.Mark{ID: "x", Owner: "them"}},
		"being deleted":   {Presence: external.Deleting, Ref: "id-9"},
	}
	for name, look := range looks {
		for _, deleting := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := lost()
				s.Resource.Deleting, s.Resource.ExternalName, s.Binding.Explicit, s.Observed = deleting, "id-9", true, &look
				for range 10 {
					step := operation.Next(s)
					switch {
					case step.Do == operation.Begin:
						t.Fatal("it is created once more")
					case step.Do == operation.UpdateBinding && step.Binding.Operation == nil:
						t.Fatalf("the creation is closed, and nothing was known of it: %s", step.Binding.Phase)
					case step.Do == operation.UpdateBinding:
						s.SetBinding(step.Binding)
						continue
					case step.Do != operation.Finish:
						t.Fatalf("the next step is %s", step.Do)
					}
					return
				}
				t.Fatal("it doesn't rest")
			})
		}
	}
}

// TestARetryRequestAppliesToLaterCreationsOnly has an annotation that was set before the creation
// began: it does not allow that creation to be repeated.
func TestARetryRequestAppliesToLaterCreationsOnly(t *testing.T) {
	s := lost()
	s.Resource.Retry = "1"
	s.Binding.Operation, s.Binding.Unresolved, s.Binding.Phase, s.Binding.AbsentBefore = nil, nil, binding.BindingReserved, &metav1.MicroTime{Time: start}
	begun := operation.Next(s)
	if begun.Do != operation.UpdateBinding || begun.Binding.Operation == nil {
		t.Fatalf("the next step is %s", begun.Do)
	}
	s.SetBinding(begun.Binding)
	s.NotBegun = false // the process has died
	s.Requests = map[external.Verb]external.Request{external.Create: nil}
	unresolved := operation.Next(s)
	if unresolved.Do != operation.UpdateBinding || unresolved.Binding.Unresolved == nil || unresolved.Binding.Attempts != begun.Binding.Attempts {
		t.Fatalf("it is not unresolved: %s %+v", unresolved.Do, unresolved.Binding)
	}
	s.SetBinding(unresolved.Binding)
	s.Resource.Retry = "2"
	if again := operation.Next(s); again.Do != operation.UpdateBinding || again.Binding.Attempts != begun.Binding.Attempts+1 {
		t.Errorf("it is not repeated on request: %s %s", again.Do, again.Synced.Reason)
	}
	if s.Resource.Retry = "1"; operation.Next(s).Synced.Reason != resource.CreateUnresolved {
		t.Error("it is not reported")
	}
}

// TestASecondResourceOfALateCallIsReported has the first call arrive after its token has expired,
// in an API that shows changes at once.
func TestASecondResourceOfALateCallIsReported(t *testing.T) {
	for n := 1; n < 12; n++ {
		l := newSimulation(external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true, TokenTTL: time.Second}, 0, policies("*"))
		l.crash, l.call = n, arrivesLate
		if died := l.reconcile(); !died {
			break
		}
		for range 3 {
			if err := l.settle(); err != nil {
				t.Error(err)
			}
			l.elapse(time.Minute)
		}
		if all := len(l.cloud.alive()); all > 1 && l.last.Synced.Reason != resource.Conflict {
			t.Errorf("after step %d there are %d, and it says %s", n, all, l.last.Synced.Reason)
		}
	}
}

// TestAnUnresolvedCreationNamesTheCommands has a message with both commands that resolve it.
func TestAnUnresolvedCreationNamesTheCommands(t *testing.T) {
	cases := map[string]struct {
		owner          binding.BindingOwner
		retry, retried string
		want           []string
	}{
		"of a namespace": {
			owner: binding.BindingOwner{APIVersion: "ec2.aws.espalier.dev/v1alpha1", Kind: "VPC", Namespace: "prod", Name: "app"},
			want: []string{
				"run: kubectl annotate VPC.ec2.aws.espalier.dev app -n prod crossplane.io/external-name=ID --overwrite;",
				"run: kubectl annotate VPC.ec2.aws.espalier.dev app -n prod espalier.dev/retry-create=1 --overwrite",
			},
		},
		"cluster-scoped, and repeated before": {
			owner: binding.BindingOwner{APIVersion: "example.org/v1", Kind: "ClusterThing", Name: "app"}, retry: "2", retried: "2",
			want: []string{"run: kubectl annotate ClusterThing.example.org app espalier.dev/retry-create=3 --overwrite"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := lost()
			s.Binding.Owner, s.Resource.Retry, s.Binding.Retried = tc.owner, tc.retry, tc.retried
			s.Binding.Unresolved.Message = "the external API cannot search for it: delete the key, or adopt it"
			step := operation.Next(s)
			for _, want := range append(tc.want, s.Binding.Unresolved.Message) {
				if !strings.Contains(step.Synced.Message, want) {
					t.Errorf("the message is %q, without %q", step.Synced.Message, want)
				}
			}
		})
	}
}

// TestAForgottenTokenIsNotRepeated crashes in each step of a creation, in an API where only the token shows its outcome,
// and continues when the token is forgotten.
func TestAForgottenTokenIsNotRepeated(t *testing.T) {
	unresolved := 0
	for _, call := range []callFate{arrives, neverArrives} {
		for n := 1; ; n++ {
			l := newSimulation(external.Caps{Naming: external.ProviderAssigned, TokenTTL: 24 * time.Hour}, 0, policies("*"))
			l.crash, l.call = n, call
			if !l.reconcile() {
				break
			}
			open := l.stored != nil && l.stored.Operation != nil
			l.crash = 0
			l.elapse(37 * time.Hour)
			calls := l.cloud.changes
			if err := l.settle(); err != nil {
				t.Fatal(err)
			}
			switch {
			case !open && l.last.Synced.Reason != resource.ReconcileSuccess:
				t.Errorf("after step %d, %s: without an open operation it is %+v", n, call, l.last)
			case open && (l.last.Synced.Reason != resource.CreateUnresolved || l.cloud.changes != calls):
				t.Errorf("after step %d, %s: it is called %d times, and says %+v", n, call, l.cloud.changes-calls, l.last)
			case open:
				unresolved++
				l.resource.Retry = "1"
				if err := l.settle(); err != nil || l.cloud.changes != calls+1 || l.last.Synced.Reason != resource.ReconcileSuccess {
					t.Errorf("after step %d, %s: a person's decision leads to %d calls and %+v: %v", n, call, l.cloud.changes-calls, l.last, err)
				}
			}
		}
	}
	if unresolved < 3 {
		t.Errorf("only %d crashes leave an unknown outcome", unresolved)
	}
}
