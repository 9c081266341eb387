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

// life is a managed resource, its stored binding and the cloud, and what carries
// steps out on them as the runtime does. It crashes where it is told to.
type life struct {
	cloud    *cloud
	caps     external.Caps
	resource operation.Resource
	want     string
	gone     bool // the managed resource
	stored   *binding.BindingSpec
	reserved map[external.Ref]bool
	now      time.Time
	random   int

	// steps counts what was carried out; in the crash-th the process dies, and with
	// it the answer of a call that it was making.
	steps, crash int
	call         fate
	// throttle is how many calls are refused after that.
	throttle int
	// next decides; a test of the tests puts something broken here.
	next func(operation.State) operation.Step
	// blind is in which look nothing can be seen, from 1; 0 for none.
	blind, looks int
	// takenBy is whose binding has the key already.
	takenBy *binding.BindingSpec
	// onTheWay are calls that arrive late.
	onTheWay []lateCall
	log      []string
	last     operation.Step
}

// fate is what becomes of a call during which the process dies.
type fate string

const (
	arrives      fate = "the call arrives"
	neverArrives fate = "the call never arrives"
	arrivesLate  fate = "the call arrives late"
	throttled    fate = "the call arrives, and the next ones are refused for now"
)

// late is how long a late call is on its way: not as long as the API takes to
// settle, where it does.
const late = 2 * time.Second

// elapse lets time go by, in which late calls arrive.
func (l *life) elapse(d time.Duration) {
	until := l.now.Add(d)
	for _, c := range l.onTheWay {
		if c.at.After(until) {
			l.now = until
			return // it is the only one
		}
		l.now = c.at
		l.cloud.begin(c.intent)
	}
	l.onTheWay, l.now = nil, until
}

// lateCall is a call that arrives after the process that made it has died.
type lateCall struct {
	at     time.Time
	intent external.Intent
}

var start = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)

func newLife(caps external.Caps, async time.Duration, policies resource.Policies) *life {
	l := &life{caps: caps, now: start, want: "v1", reserved: map[external.Ref]bool{}, next: operation.Next}
	l.cloud = &cloud{caps: caps, now: func() time.Time { return l.now }, tokens: map[string]*thing{}, async: async}
	l.resource = operation.Resource{
		Owner:      binding.BindingOwner{APIVersion: "x/v1", Kind: "Thing", Namespace: "prod", Name: "a", UID: "uid-a"},
		Generation: 1, Policies: policies, DeletesExternal: resource.Deletes(policies, ""), PollInterval: time.Minute,
	}
	return l
}

type crashed struct{}

// pass is one pass of the runtime, until it rests. It reports whether the process
// died in it.
func (l *life) pass() (died bool) {
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
	s.Key, s.KeyFrom = external.Key{Scope: "here", Type: "thing"}, l.resource.ExternalName
	if l.caps.Naming == external.CallerAssigned {
		s.Key.Name = "a"
		if l.resource.ExternalName != "" {
			s.Key.Name = l.resource.ExternalName
		}
	}
	for range 100 {
		s.Resource, s.Binding, s.Now = l.resource, l.stored.DeepCopy(), l.now
		step := l.next(s)
		l.log = append(l.log, fmt.Sprintf("%s %s", l.now.Format("05.000"), tell(step)))
		if step.Do == operation.Finish {
			l.last = step
			return false
		}
		l.do(&s, step)
		if l.gone {
			return false
		}
	}
	panic("it doesn't rest:\n" + strings.Join(l.log[len(l.log)-10:], "\n"))
}

func tell(s operation.Step) string {
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

// dies counts a step, and dies if it is the one.
func (l *life) dies() bool {
	l.steps++
	return l.crash > 0 && l.steps == l.crash
}

func (l *life) do(s *operation.State, step operation.Step) {
	dies := l.dies()
	if dies && step.Do == operation.Begin && l.call != arrives {
		l.dieCalling(*step.Intent)
	}
	switch step.Do {
	case operation.AddFinalizer:
		l.resource.HasFinalizer = true
	case operation.RemoveFinalizer:
		l.mayGo()
		l.resource.HasFinalizer = false
		l.gone = l.resource.Deleting
	case operation.CreateBinding:
		if l.takenBy != nil {
			s.ReservedBy = l.takenBy
			break
		}
		s.SetBinding(step.Binding.DeepCopy())
		l.stored = step.Binding.DeepCopy()
	case operation.UpdateBinding:
		l.mayReplace(s, step)
		s.SetBinding(step.Binding.DeepCopy())
		l.stored = step.Binding.DeepCopy()
	case operation.DeleteBinding:
		l.stored = nil
	case operation.Observe:
		if l.looks++; l.looks == l.blind {
			s.Observed, s.ObserveErr = nil, errors.New("nothing can be seen")
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
		l.mustBeStored(*step.Intent)
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

// dieCalling dies before a call has been made, which may be made all the same.
func (l *life) dieCalling(i external.Intent) {
	l.mustBeStored(i)
	if l.call == arrivesLate {
		l.onTheWay = append(l.onTheWay, lateCall{l.now.Add(late), i})
	}
	panic(crashed{})
}

// mustBeStored checks that exactly the call that is made has been stored.
func (l *life) mustBeStored(i external.Intent) {
	if l.takenBy != nil {
		l.harm("a call was made about what is somebody else's")
	}
	if l.stored == nil {
		l.harm("%s %d was made and nothing is stored", i.Verb, i.Attempt)
		return
	}
	op := l.stored.Operation
	if op == nil || op.Token != i.Token || op.Verb != string(i.Verb) || op.Attempt != i.Attempt || string(op.Request) != string(i.Request) {
		l.harm("%s %d was made and not stored", i.Verb, i.Attempt)
	}
}

func (l *life) harm(format string, args ...any) {
	l.cloud.harm = append(l.cloud.harm, fmt.Sprintf(format, args...))
}

// mayReplace checks what may become of a stored binding.
func (l *life) mayReplace(s *operation.State, step operation.Step) {
	was, next := l.stored, step.Binding
	if was.Ref != "" && next.Ref != was.Ref && (next.Ref != "" || step.Event.Reason == "") {
		l.harm("the identity became %q from %q, and nobody was told", next.Ref, was.Ref)
	}
	if was.Operation == nil {
		return
	}
	known := s.Answer != nil || s.Observed != nil || s.SearchedByMark
	switch {
	case next.Operation == nil && !known:
		l.harm("%s %d was closed, and nothing was known of it", was.Operation.Verb, was.Operation.Attempt)
	case next.Operation != nil && next.Operation.Attempt != was.Operation.Attempt && !s.SearchedByMark:
		l.harm("%s %d was replaced by %s %d while it was open", was.Operation.Verb, was.Operation.Attempt, next.Operation.Verb, next.Operation.Attempt)
	case next.Operation != nil && next.Operation.Token != was.Operation.Token && next.Operation.Attempt <= was.Operation.Attempt:
		l.harm("attempt %d was made twice", next.Operation.Attempt)
	}
}

// mayGo checks whether the managed resource may be let go.
func (l *life) mayGo() {
	b := l.stored
	if b != nil && b.Attempts > 0 && b.Phase != binding.BindingTombstone && b.Phase != binding.BindingReleased {
		l.harm("it was let go while its binding is %s", b.Phase)
	}
}

// settle lets passes and time go by until the managed resource rests, for a bounded
// number of passes.
func (l *life) settle() error {
	for range 200 {
		if l.gone {
			return nil
		}
		if l.pass() {
			l.cloud.busy = l.throttle
			l.crash = 0 // it lives again, and knows nothing but what is stored
			continue
		}
		if l.gone {
			return nil
		}
		switch {
		case l.last.Synced.Reason == resource.Conflict:
			return nil // somebody has to look
		case l.last.Err != nil, l.last.After > 0 && l.last.After < time.Minute:
			l.elapse(max(l.last.After, time.Second))
		default:
			return nil
		}
	}
	return fmt.Errorf("it doesn't come to rest")
}
