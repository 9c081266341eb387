package conformance

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// life is a managed resource, and the process that serves it.
type life struct {
	*trial
	world  *world
	object *unstructured.Unstructured
	port   port.Kind // the process's
	where  string
	// death is when the process dies, steps how many steps were carried out.
	death death
	steps int
	trace []operation.Do
	// ill is what goes wrong during the illAt-th call, from 1, of asked.
	ill          *illness
	illAt, asked int
	// begunAt are those of the calls that were Begin's.
	begunAt []int
	// strict compares the external API before and after each read.
	strict bool

	started time.Time
	journal []string
	last    operation.Step
	// calls and begun count this life's calls; refs are all identities that any answer
	// had, whether the process lived to hear it or not.
	calls, begun, created int
	refs                  []external.Ref
	// before is what Count says before anything was made: others may have been left.
	before int
	failed bool
}

// fate is what becomes of a process in a step.
type fate string

const (
	// after: the step is done, and if it was a call its answer is lost.
	after   fate = "the process died right after it"
	never   fate = "the process died in it; the call was never sent"
	delayed fate = "the process died in it; the call arrived later"
)

// death is one of a process.
type death struct {
	at   int // the step, from 1; 0 for none
	fate fate
	// in is the step that was reached.
	in operation.Do
}

// arrival is how long a late call is on its way: less than the time to settle.
const arrival = 2 * time.Second

// poll is how often an external resource is looked at that nothing happens to, which is
// longer than any other wait.
const poll = 100 * time.Hour

func (tr *trial) newLife(w *world, where string) *life {
	o, err := tr.fresh()
	if err != nil {
		panic("conformance: " + err.Error()) // the first one was checked
	}
	tr.report.Lives++
	l := &life{trial: tr, world: w, object: o, port: tr.kind(), where: where, started: tr.time.Now()}
	if tr.count != nil {
		l.before, _ = tr.count(context.Background(), o) // a failure is told when it counts
	}
	return l
}

func (l *life) uid() string { return string(l.object.GetUID()) }

func (l *life) isGone() bool { return l.world.gone[l.uid()] }

// remove is what a user does who deletes the object.
func (l *life) remove() {
	at := metav1.NewTime(l.time.Now())
	l.object.SetDeletionTimestamp(&at)
	l.note("the object is deleted")
	l.mayGo()
}

// mayGo lets the object go if nothing keeps it.
func (l *life) mayGo() {
	if l.object.GetDeletionTimestamp() != nil && len(l.object.GetFinalizers()) == 0 {
		l.world.gone[l.uid()] = true
		l.world.expire(l.time.Now())
	}
}

// connect gives a client for an object as it is.
func (l *life) connect(ctx context.Context, o *unstructured.Unstructured) (port.Session, error) {
	session, err := l.port.Connect(ctx, l.objects, o.DeepCopy())
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return session, nil
}

// mostSteps bounds a pass.
const mostSteps = 64

// pass is one pass of the runtime. It says whether the process died in it.
func (l *life) pass(ctx context.Context) (died bool) {
	raw, err := l.connect(ctx, l.object)
	if err != nil {
		l.last = operation.Step{Do: operation.Finish, Err: err}
		return false
	}
	session := &guard{Session: raw, life: l}
	defer session.Close()
	s := operation.State{Caps: l.port.Caps(), MarkOwner: l.owner(), Requests: map[external.Verb]external.Request{},
		KeyFrom: l.object.GetAnnotations()[resource.ExternalNameAnnotation]}
	if s.Key, err = session.Identify(); err != nil {
		l.last = operation.Step{Do: operation.Finish, Err: err}
		return false
	}
	for range mostSteps {
		l.recall(&s)
		step := operation.Next(s)
		if step.Do == operation.Finish {
			l.rest(&s, step)
			return false
		}
		if died := l.carryOut(ctx, session, &s, step); died || l.isGone() {
			return died
		}
	}
	l.fails(ComesToRest, "one pass took more than %d steps", mostSteps)
	return false
}

// recall brings the state up to what is stored.
func (l *life) recall(s *operation.State) {
	s.Resource, s.Now, s.Random = execute.ReadResource(l.object, poll), l.time.Now(), l.world.text("r")
	_, own := l.own()
	s.Binding = own.spec.DeepCopy()
}

// carryOut does a step, in which the process may die.
func (l *life) carryOut(ctx context.Context, session port.Session, s *operation.State, step operation.Step) (died bool) {
	l.steps++
	l.trace = append(l.trace, step.Do)
	dies := l.steps == l.death.at
	if dies {
		l.death.in = step.Do
		if step.Do == operation.Begin && l.death.fate != after {
			l.note("%s %s: %s", step.Do, told(*step.Intent), l.death.fate)
			if l.death.fate == delayed {
				l.send(ctx, *step.Intent)
			}
			return true
		}
	}
	if step.Binding != nil {
		l.note("%s %s", step.Do, step.Binding.Phase)
	}
	if err := execute.Step(ctx, session, store{l}, s, step, execute.Limits{Timeout: l.port.Timeout}); err != nil {
		l.fails(SuiteMakesSense, "%s: %v", step.Do, err)
	}
	if dies {
		l.note("%s: the process died", step.Do)
	}
	return dies
}

// send lets a call arrive after the process has died that made it.
func (l *life) send(ctx context.Context, i external.Intent) {
	o, dead := l.object.DeepCopy(), l.port
	l.world.late = append(l.world.late, late{l.time.Now().Add(arrival), func() {
		raw, err := dead.Connect(ctx, l.objects, o)
		if err != nil {
			return
		}
		l.note("a late call arrives")
		session := &guard{Session: raw, life: l}
		defer session.Close()
		_, _ = session.Begin(ctx, i) // nobody hears the answer
	}})
}

// rest is the end of a pass; what was seen is told.
func (l *life) rest(s *operation.State, step operation.Step) {
	l.last = step
	l.note("rest: %s %s %s", step.Synced.Status, step.Synced.Reason, step.Synced.Message)
	if s.Observed != nil && s.Observed.Presence == external.Present && s.Observed.AtProvider != nil && jsonProblem(s.Observed.AtProvider) == "" {
		_ = unstructured.SetNestedMap(l.object.Object, s.Observed.AtProvider, "status", "atProvider") // status is a map
	}
}

// owner names the managed resource on marks.
func (l *life) owner() string {
	kind := l.object.GroupVersionKind()
	return fmt.Sprintf("%s.%s/%s/%s@conformance", kind.Kind, kind.Group, l.object.GetNamespace(), l.object.GetName())
}

// mostPasses bounds how often it is looked after until it rests, patience for how long
// that may take in real time.
const (
	mostPasses = 200
	patience   = time.Minute
)

// settle lets passes and time go by until there is nothing more to do for now.
func (l *life) settle(ctx context.Context) {
	begun := time.Now()
	for n := 0; n < mostPasses || !l.madeUp && time.Since(begun) < patience; n++ {
		if l.isGone() || ctx.Err() != nil {
			return
		}
		if l.pass(ctx) {
			l.death.at = 0 // the next one knows nothing but what is stored
			l.port = l.kind()
			continue
		}
		if l.isGone() || l.failed && l.calls > mostCalls {
			return
		}
		switch {
		case l.last.Synced.Reason == resource.Conflict, l.last.Err == nil && (l.last.After == 0 || l.last.After >= poll):
			return
		}
		l.elapse(ctx, max(l.last.After, time.Second))
	}
	l.fails(ComesToRest, "after %d passes it says %s: %s", mostPasses, l.last.Synced.Reason, l.last.Synced.Message)
}

// elapse lets time go by, in which late calls arrive.
func (l *life) elapse(ctx context.Context, d time.Duration) {
	until, settle := l.time.Now().Add(d), l.port.Caps().Settle
	all := l.world.late
	l.world.late = nil
	for _, c := range all {
		if c.at.After(until) {
			l.world.late = append(l.world.late, c)
			continue
		}
		l.time.wait(ctx, max(0, c.at.Sub(l.time.Now())), settle)
		c.arrive()
	}
	if left := until.Sub(l.time.Now()); left > 0 {
		l.time.wait(ctx, left, settle)
	}
	l.world.expire(l.time.Now())
}

// calm lets the external API show all that has happened.
func (l *life) calm(ctx context.Context) {
	l.elapse(ctx, l.port.Caps().Settle+arrival+time.Second)
}
