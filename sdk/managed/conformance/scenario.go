package conformance

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// scenario reconciles one managed resource, with at most one crash or fault.
type scenario struct {
	*runner
	name    string
	cluster *cluster
	object  *unstructured.Unstructured
	// port is the kind as the current process has it.
	port port.Kind
	// crash is when the process crashes, steps how many steps were carried out.
	crash crash
	steps int
	trace []operation.Do
	// fault is injected during call faultAt, counted from 1.
	fault   *callFault
	faultAt int
	// compareReads: the state of the external API is compared before and after each read.
	compareReads bool

	started time.Time
	log     []string
	last    operation.Step
	// calls counts the client's calls, changes the calls of Begin, creations the calls of Begin with a creation.
	// beginCalls holds the numbers of the calls of Begin.
	calls, changes, creations int
	beginCalls                []int
	// refs are all identities that the client has returned, even if the process crashed before
	// it read the answer.
	refs []external.Ref
	// initialCount is how many external resources Count returned at the beginning.
	initialCount int
	failed       bool
}

// crashMode is when in a step the process crashes.
type crashMode string

const (
	afterStep  crashMode = "the process crashed after it"
	beforeCall crashMode = "the process crashed before the call was sent"
	duringCall crashMode = "the process crashed, and the call arrived later"
)

// crash is a crash of the process.
type crash struct {
	at   int // the number of the step, from 1; 0 for none
	mode crashMode
	// step is the step with that number, once it is reached.
	step operation.Do
}

// callDelay is how long a call that arrives after a crash is delayed: less than Caps.Settle may
// be.
const callDelay = 2 * time.Second

// pollInterval is how often an external resource is observed without an event. It is longer than
// any other wait.
const pollInterval = 100 * time.Hour

func (r *runner) newScenario(c *cluster, name string) *scenario {
	o, err := r.newObject()
	if err != nil {
		panic("conformance: " + err.Error()) // newRunner has checked New
	}
	r.report.Scenarios++
	s := &scenario{runner: r, name: name, cluster: c, object: o, port: r.kind(), started: r.time.Now()}
	if r.count != nil {
		s.initialCount, _ = r.count(context.Background(), o) // countExternal reports the error
	}
	return s
}

func (s *scenario) uid() string { return string(s.object.GetUID()) }

func (s *scenario) isDeleted() bool { return s.cluster.deleted[s.uid()] }

// deleteObject deletes the object as a user does.
func (s *scenario) deleteObject() {
	at := metav1.NewTime(s.time.Now())
	s.object.SetDeletionTimestamp(&at)
	s.logf("a user deletes the object")
	s.deleteIfFinalized()
}

// deleteIfFinalized removes an object that is being deleted and has no finalizers.
func (s *scenario) deleteIfFinalized() {
	if s.object.GetDeletionTimestamp() != nil && len(s.object.GetFinalizers()) == 0 {
		s.cluster.deleted[s.uid()] = true
		s.cluster.expireBindings(s.time.Now())
	}
}

func (s *scenario) connect(ctx context.Context, o *unstructured.Unstructured) (port.Session, error) {
	session, err := s.port.Connect(ctx, s.objects, o.DeepCopy())
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return session, nil
}

// maxSteps limits one reconcile.
const maxSteps = 64

// reconcile is one reconcile of the runtime. It reports whether the process crashed.
func (s *scenario) reconcile(ctx context.Context) (crashed bool) {
	raw, err := s.connect(ctx, s.object)
	if err != nil {
		s.last = operation.Step{Do: operation.Finish, Err: err}
		return false
	}
	session := &checkedSession{Session: raw, scenario: s}
	defer session.Close()
	state := operation.State{Caps: s.port.Caps(), MarkOwner: s.markOwner(), Requests: map[external.Verb]external.Request{},
		DesiredKeyAnnotation: s.object.GetAnnotations()[resource.ExternalNameAnnotation], WriteOnlyDigest: session.WriteOnlyDigest()}
	if state.DesiredKey, err = session.Identify(); err != nil {
		s.last = operation.Step{Do: operation.Finish, Err: err}
		return false
	}
	for range maxSteps {
		s.loadState(&state)
		step := operation.Next(state)
		if step.Do == operation.Finish {
			s.finish(&state, step)
			return false
		}
		if crashed := s.runStep(ctx, session, &state, step); crashed || s.isDeleted() {
			return crashed
		}
	}
	s.fail(Converges, "one reconcile took more than %d steps", maxSteps)
	return false
}

// loadState reads the stored objects into the state.
func (s *scenario) loadState(state *operation.State) {
	state.Resource, state.Now, state.Random = execute.ReadResource(s.object, pollInterval), s.time.Now(), s.cluster.randomText("r")
	_, b := s.findBinding()
	state.Binding = b.spec.DeepCopy()
}

// runStep carries out a step, and reports whether the process crashed in it.
func (s *scenario) runStep(ctx context.Context, session port.Session, state *operation.State, step operation.Step) (crashed bool) {
	s.steps++
	s.trace = append(s.trace, step.Do)
	crashes := s.steps == s.crash.at
	if crashes {
		s.crash.step = step.Do
		if step.Do == operation.Begin && s.crash.mode != afterStep {
			s.logf("%s %s: %s", step.Do, intentText(*step.Intent), s.crash.mode)
			if s.crash.mode == duringCall {
				s.delayCall(ctx, *step.Intent)
			}
			return true
		}
	}
	if step.Binding != nil {
		s.logf("%s %s", step.Do, step.Binding.Phase)
	}
	if err := execute.Step(ctx, session, store{s}, state, step, execute.Limits{Timeout: s.port.Timeout}); err != nil {
		s.fail(SuiteIsValid, "%s: %v", step.Do, err)
	}
	if crashes {
		s.logf("%s: the process crashed", step.Do)
	}
	return crashes
}

// delayCall sends a call after the process that made it has crashed.
func (s *scenario) delayCall(ctx context.Context, i external.Intent) {
	o, kind := s.object.DeepCopy(), s.port
	s.cluster.delayed = append(s.cluster.delayed, delayedCall{s.time.Now().Add(callDelay), func() {
		raw, err := kind.Connect(ctx, s.objects, o)
		if err != nil {
			return
		}
		s.logf("the delayed call arrives")
		session := &checkedSession{Session: raw, scenario: s}
		defer session.Close()
		_, _ = session.Begin(ctx, i) // no process receives the answer
	}})
}

// finish ends a reconcile: it stores the observation in the status.
func (s *scenario) finish(state *operation.State, step operation.Step) {
	s.last = step
	s.logf("reconciled: Synced is %s %s %s", step.Synced.Status, step.Synced.Reason, step.Synced.Message)
	if state.Observed != nil && state.Observed.Presence == external.Present && state.Observed.AtProvider != nil && invalidJSON(state.Observed.AtProvider) == "" {
		_ = unstructured.SetNestedMap(s.object.Object, state.Observed.AtProvider, "status", "atProvider") // status is a map
	}
}

// markOwner names the managed resource in marks.
func (s *scenario) markOwner() string {
	kind := s.object.GroupVersionKind()
	return fmt.Sprintf("%s.%s/%s/%s@conformance", kind.Kind, kind.Group, s.object.GetNamespace(), s.object.GetName())
}

// maxReconciles limits the reconciles until there is nothing more to do. In real time, there may
// be more within maxDuration.
const (
	maxReconciles = 200
	maxDuration   = time.Minute
)

// reconcileUntilIdle reconciles and advances the time until there is nothing more to do.
func (s *scenario) reconcileUntilIdle(ctx context.Context) {
	begin := time.Now()
	for n := 0; n < maxReconciles || !s.virtualTime && time.Since(begin) < maxDuration; n++ {
		if s.isDeleted() || ctx.Err() != nil {
			return
		}
		if s.reconcile(ctx) {
			s.crash.at = 0
			s.port = s.kind() // a new process
			continue
		}
		if s.isDeleted() || s.failed && s.calls > maxCalls {
			return
		}
		switch {
		case s.last.Synced.Reason == resource.Conflict, s.last.Err == nil && (s.last.After == 0 || s.last.After >= pollInterval):
			return
		}
		s.advance(ctx, max(s.last.After, time.Second))
	}
	s.fail(Converges, "after %d reconciles, Synced is %s: %s", maxReconciles, s.last.Synced.Reason, s.last.Synced.Message)
}

// advance advances the time. Delayed calls arrive meanwhile.
func (s *scenario) advance(ctx context.Context, d time.Duration) {
	until, settle := s.time.Now().Add(d), s.port.Caps().Settle
	all := s.cluster.delayed
	s.cluster.delayed = nil
	for _, c := range all {
		if c.at.After(until) {
			s.cluster.delayed = append(s.cluster.delayed, c)
			continue
		}
		s.time.wait(ctx, max(0, c.at.Sub(s.time.Now())), settle)
		c.arrive()
	}
	if left := until.Sub(s.time.Now()); left > 0 {
		s.time.wait(ctx, left, settle)
	}
	s.cluster.expireBindings(s.time.Now())
}

// waitUntilConsistent waits until delayed calls have arrived and reads show all changes.
func (s *scenario) waitUntilConsistent(ctx context.Context) {
	s.advance(ctx, s.port.Caps().Settle+callDelay+time.Second)
}
