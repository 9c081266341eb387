package operation_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// simulation has a managed resource, its stored binding and an external API, and carries out steps
// as the controller does. It can crash in a given step.
type simulation struct {
	cloud    *cloud
	caps     external.Caps
	resource operation.Resource
	want     string
	gone     bool // the managed resource
	stored   *binding.BindingSpec
	reserved map[external.Ref]bool
	now      time.Time
	random   int

	// steps is the number of steps so far. The process crashes in the step with the number crash;
	// call says what happens to a call in that step.
	steps, crash int
	call         callFate
	// throttle is how many calls are rejected after the crash.
	throttle int
	// next decides; TestEachViolatedInvariantIsDetected replaces it.
	next func(operation.State) operation.Step
	// failedObserve is the number of the observation that fails, from 1; 0 for none.
	failedObserve, observes int
	// reservedBy is another owner's binding of the key.
	reservedBy *binding.BindingSpec
	// delayed are calls that arrive after the crash.
	delayed []lateCall
	log     []string
	last    operation.Step
}

// callFate is what happens to a call during which the process crashes.
type callFate string

const (
	arrives      callFate = "the call arrives"
	neverArrives callFate = "the call never arrives"
	arrivesLate  callFate = "the call arrives late"
	throttled    callFate = "the call arrives, and the next ones are throttled"
)

// late is how long after the crash a late call arrives. It is less than Caps.Settle, where that is
// not 0.
const late = 2 * time.Second

// elapse advances the time. Late calls arrive meanwhile.
func (l *simulation) elapse(d time.Duration) {
	until := l.now.Add(d)
	for _, c := range l.delayed {
		if c.at.After(until) {
			l.now = until
			return // it is the only one
		}
		l.now = c.at
		l.cloud.begin(c.intent)
	}
	l.delayed, l.now = nil, until
}

// lateCall is a call that arrives after the process that made it has crashed.
type lateCall struct {
	at     time.Time
	intent external.Intent
}

var start = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)

func newSimulation(caps external.Caps, async time.Duration, policies resource.Policies) *simulation {
	l := &simulation{caps: caps, now: start, want: "v1", reserved: map[external.Ref]bool{}, next: operation.Next}
	l.cloud = &cloud{caps: caps, now: func() time.Time { return l.now }, tokens: map[string]*thing{}, async: async}
	l.resource = operation.Resource{
		Owner:      binding.BindingOwner{APIVersion: "x/v1", Kind: "Thing", Namespace: "prod", Name: "a", UID: "uid-a"},
		Generation: 1, Policies: policies, DeletesExternal: resource.Deletes(policies, ""), PollInterval: time.Minute,
	}
	return l
}

type crashed struct{}

// reconcile is one reconcile of the controller. It reports whether the process crashed.
func (l *simulation) reconcile() (died bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crashed); !ok {
				panic(p)
			}
			died = true
		}
	}()
	l.random++
	s := operation.State{Caps: l.caps, MarkOwner: "Thing prod/a", Random: fmt.Sprintf("r%d", l.random), Requests: map[external.Verb]external.Request{}}
	s.DesiredKey, s.DesiredKeyAnnotation = external.Key{Scope: "here", Type: "thing"}, l.resource.ExternalName
	if l.caps.Naming == external.CallerAssigned {
		s.DesiredKey.Name = "a"
		if l.resource.ExternalName != "" {
			s.DesiredKey.Name = l.resource.ExternalName
		}
	}
	for range 100 {
		s.Resource, s.Binding, s.Now = l.resource, l.stored.DeepCopy(), l.now
		step := l.next(s)
		l.log = append(l.log, fmt.Sprintf("%s %s", l.now.Format("05.000"), describe(step)))
		if step.Do == operation.Finish {
			l.last = step
			return false
		}
		l.do(&s, step)
		if l.gone {
			return false
		}
	}
	panic("the reconcile does not end:\n" + strings.Join(l.log[len(l.log)-10:], "\n"))
}

func describe(s operation.Step) string {
	text := string(s.Do)
	switch {
	case s.Binding != nil:
		text += " " + string(s.Binding.Phase)
	case s.Intent != nil:
		text += fmt.Sprintf(" %s %d", s.Intent.Verb, s.Intent.Attempt)
	case s.Do == operation.Finish:
		text += fmt.Sprintf(" %s %s %s after %s", s.Synced.Status, s.Synced.Reason, s.Synced.Message, s.After)
	}
	return text
}

// dies counts a step, and reports whether the process crashes in it.
func (l *simulation) dies() bool {
	l.steps++
	return l.crash > 0 && l.steps == l.crash
}

func (l *simulation) do(s *operation.State, step operation.Step) {
	dies := l.dies()
	if dies && step.Do == operation.Begin && l.call != arrives {
		l.crashDuringCall(*step.Intent)
	}
	switch step.Do {
	case operation.AddFinalizer:
		l.resource.HasFinalizer = true
	case operation.RemoveFinalizer:
		l.checkRelease()
		l.resource.HasFinalizer = false
		l.gone = l.resource.Deleting
	case operation.CreateBinding:
		if l.reservedBy != nil {
			s.ReservedBy = l.reservedBy
			break
		}
		s.SetBinding(step.Binding.DeepCopy())
		l.stored = step.Binding.DeepCopy()
	case operation.UpdateBinding:
		l.checkReplacement(s, step)
		s.SetBinding(step.Binding.DeepCopy())
		l.stored = step.Binding.DeepCopy()
	case operation.DeleteBinding:
		l.stored = nil
	case operation.Observe:
		if l.observes++; l.observes == l.failedObserve {
			s.Observed, s.ObserveErr = nil, errors.New("the external API is unavailable")
			break
		}
		look := l.cloud.observe(step.Ref, l.want)
		s.Observed, s.ObserveErr = &look, nil
	case operation.FindByMark:
		s.FoundByMark, s.SearchedByMark = l.cloud.find(external.Mark{ID: l.stored.Mark}), true
	case operation.FindByOwner:
		s.FoundByOwner, s.SearchedByOwner = l.cloud.find(external.Mark{Owner: s.MarkOwner}), true
	case operation.Prepare:
		s.Requests[step.Verb] = external.Request(l.want)
	case operation.Begin:
		l.checkStored(*step.Intent)
		s.SetAnswer(l.cloud.begin(*step.Intent), nil)
	case operation.Poll:
		s.SetPollAnswer(l.cloud.poll(l.stored.Operation.Resume), nil)
	case operation.ReserveIdentity:
		l.reserved[step.Ref], s.IdentityReserved = true, true
	case operation.LateInitialize:
		s.LateInitialized = true
	case operation.SetExternalName:
		l.resource.ExternalName, s.ExternalNameSet = string(step.Ref), true
	case operation.PublishConnection:
		s.ConnectionPublished = true
	case operation.Finish:
	}
	if dies {
		panic(crashed{})
	}
}

// crashDuringCall crashes with a call in flight, which may still arrive.
func (l *simulation) crashDuringCall(i external.Intent) {
	l.checkStored(i)
	if l.call == arrivesLate {
		l.delayed = append(l.delayed, lateCall{l.now.Add(late), i})
	}
	panic(crashed{})
}

// checkStored checks that the call that is made was stored before.
func (l *simulation) checkStored(i external.Intent) {
	if l.reservedBy != nil {
		l.violate("a call was made, although another owner has reserved the key")
	}
	if l.stored == nil {
		l.violate("%s %d was called without a stored binding", i.Verb, i.Attempt)
		return
	}
	op := l.stored.Operation
	if op == nil || op.Token != i.Token || op.Verb != string(i.Verb) || op.Attempt != i.Attempt || string(op.Request) != string(i.Request) {
		l.violate("%s %d was called and is not stored", i.Verb, i.Attempt)
	}
}

func (l *simulation) violate(format string, args ...any) {
	l.cloud.violations = append(l.cloud.violations, fmt.Sprintf(format, args...))
}

// checkReplacement checks that a stored binding may be replaced.
func (l *simulation) checkReplacement(s *operation.State, step operation.Step) {
	was, next := l.stored, step.Binding
	if was.Ref != "" && next.Ref != was.Ref && (next.Ref != "" || step.Event.Reason == "") {
		l.violate("the identity was changed to %q from %q without an event", next.Ref, was.Ref)
	}
	if was.Operation == nil {
		return
	}
	known := s.Answer != nil || s.Observed != nil || s.SearchedByMark
	switch {
	case next.Operation == nil && !known:
		l.violate("%s %d was closed while its outcome was unknown", was.Operation.Verb, was.Operation.Attempt)
	case next.Operation != nil && next.Operation.Attempt != was.Operation.Attempt && !s.SearchedByMark:
		l.violate("%s %d was replaced by %s %d while it was open", was.Operation.Verb, was.Operation.Attempt, next.Operation.Verb, next.Operation.Attempt)
	case next.Operation != nil && next.Operation.Token != was.Operation.Token && next.Operation.Attempt <= was.Operation.Attempt:
		l.violate("the number of attempt %d was used twice", next.Operation.Attempt)
	}
}

// checkRelease checks that the finalizer may be removed.
func (l *simulation) checkRelease() {
	b := l.stored
	if b != nil && b.Attempts > 0 && b.Phase != binding.BindingTombstone && b.Phase != binding.BindingReleased {
		l.violate("the finalizer was removed while the binding is %s", b.Phase)
	}
}

// settle reconciles and advances the time until there is nothing more to do.
func (l *simulation) settle() error {
	for range 200 {
		if l.gone {
			return nil
		}
		if l.reconcile() {
			l.cloud.busy = l.throttle
			l.crash = 0 // the next process knows only what is stored
			continue
		}
		if l.gone {
			return nil
		}
		switch {
		case l.last.Synced.Reason == resource.Conflict:
			return nil // it waits for a user
		case l.last.Err != nil, l.last.After > 0 && l.last.After < time.Minute:
			l.elapse(max(l.last.After, time.Second))
		default:
			return nil
		}
	}
	return fmt.Errorf("it does not settle")
}
