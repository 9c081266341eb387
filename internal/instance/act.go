package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// act applies the steps that apply, inspects drift that is only reported, and deletes objects that may be recreated
// after a rejected update.
func (r *Reconciler) act(ctx context.Context, s *subject, now round) (out outcome) {
	results := make([]result, len(now.plan.Steps))
	var work []func() error
	for i, step := range now.plan.Steps {
		do := r.apply
		if step.Contribution != nil {
			step.Object = step.Contribution.Object
		}
		switch {
		case step.Action == plan.Contribute:
			do = func(ctx context.Context, s *subject, step plan.Step) result { return r.contribute(ctx, s, now, step) }
		case len(step.InspectFields) > 0:
			do = func(ctx context.Context, _ *subject, step plan.Step) result { return r.inspectDrift(ctx, step) }
		case !step.Action.Applies():
			continue
		}
		work = append(work, func() error {
			ctx, span := startNode(ctx, step)
			results[i] = do(ctx, s, step)
			span.End(results[i].err)
			return nil
		})
	}
	s.errs = append(s.errs, inParallel(work)...)
	out.recreating = r.recreate(ctx, s, now.plan.Steps, results)
	out.problems = map[string]plan.Problem{}
	for i, res := range results {
		step := now.plan.Steps[i]
		if step.Contribution != nil {
			step.Object = step.Contribution.Object
		}
		problem, changed := r.noteResult(s, now, step, res)
		if problem.Reason != "" {
			out.problems[step.Node] = problem
		}
		out.changed = out.changed || changed
	}
	return out
}

// outcome is what a round has done.
type outcome struct {
	// changed says that there are new facts, which may let more resolve.
	changed bool
	// problems are why writes failed, by node.
	problems map[string]plan.Problem
	// recreating says that objects are to be recreated.
	recreating bool
}

// maxParallelRequests bounds the requests that one reconcile makes in parallel.
const maxParallelRequests = 16

// inParallel does all the work and returns the errors. A panic is an error of its own work only.
func inParallel(work []func() error) []error {
	var (
		wait  sync.WaitGroup
		errs  = make([]error, len(work))
		slots = make(chan struct{}, maxParallelRequests)
	)
	for i, do := range work {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() {
				<-slots
				if p := recover(); p != nil {
					errs[i] = errors.New(diag.Panic(p))
				}
			}()
			errs[i] = do()
		})
	}
	wait.Wait()
	var failed []error
	for _, err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

type result struct {
	answer *unstructured.Unstructured
	holder *unstructured.Unstructured // another object of that name
	// conflict is set if another manager has set fields of the holder; inspection is the result
	// of inspecting fields that may have drifted.
	conflict   *plan.RefusedApply
	inspection *plan.Inspection
	// contributed is the answer to a contribution.
	contributed *plan.ContributionAnswer
	// stale says that the object has changed or is gone: its event triggers the next reconcile.
	stale bool
	// deleting is set if the object is being deleted to be recreated, refused if the object must not be applied.
	deleting, refused *plan.Problem
	err               error
	// hint is what can be done about the error, or why it wasn't.
	hint string
}

// apply carries out one step with one request. If an object with the name already exists, it
// updates that object, provided it is the instance's or may be adopted.
func (r *Reconciler) apply(ctx context.Context, s *subject, step plan.Step) result {
	if problem := signingKeyProblem(step.Object); problem != nil {
		return result{refused: problem}
	}
	switch step.Action {
	case plan.Correct:
		return r.correctDrift(ctx, s, step)
	case plan.Create:
	default:
		return r.update(ctx, s, step, step.Current)
	}
	answer, err := r.write(s, step.Object, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Create(ctx, step.Object, v1alpha1.ChildManager)
	})
	live := kube.ExistingObject(err)
	if live == nil {
		return result{answer: answer, err: err}
	}
	owned := s.owner.OwnsAs(live, inventory.Node(step.Object)) && !s.owner.IsOfOtherGraph(live)
	if !owned && !step.MayAdopt(live, s.owner) {
		return result{holder: live}
	}
	if live.GetDeletionTimestamp() != nil {
		return result{holder: live} // ours, of another node or an earlier one, and terminating
	}
	step.OmitFields = append(step.OmitFields, externalFields(live, step)...)
	return r.update(ctx, s, step, live)
}

// update applies a step's object onto the incarnation that is there.
func (r *Reconciler) update(ctx context.Context, s *subject, step plan.Step, current *unstructured.Unstructured) result {
	current, err := r.transferManagedFields(ctx, s, current, managedfields.IsForeign)
	if kube.IsStale(err) {
		return result{stale: true}
	}
	if err != nil {
		return result{err: fmt.Errorf("take over managed fields: %w", err)}
	}
	fields, err := r.stringDataConflicts(ctx, step, current)
	if err != nil {
		return result{err: fmt.Errorf("read which manager has set data: %w", err)}
	}
	if len(fields) > 0 {
		return r.fieldConflict(ctx, step, current, fields)
	}
	answer, err := r.applyOnto(ctx, s, step, current)
	if fields, contested := kube.FieldConflicts(err); contested {
		return r.fieldConflict(ctx, step, current, fields)
	}
	if kube.IsStale(err) {
		return result{stale: true}
	}
	return result{answer: answer, err: err}
}

// noteResult remembers the result of a step. It returns the node's problem, if there is one, and whether there are new
// facts for the next round.
func (r *Reconciler) noteResult(s *subject, now round, step plan.Step, res result) (problem plan.Problem, changed bool) {
	switch {
	case res.contributed != nil:
		s.memory.noteContributed(step, *res.contributed, now.facts.Now)
		return problem, true
	case res.answer != nil:
		s.memory.noteGranted(step, res.answer)
		if step.Action == plan.Correct {
			s.memory.history.Contests = s.memory.history.Contests.WithCorrection(res.answer.GetUID(), step.LostFields, now.facts.Now)
		}
		return problem, true
	case res.inspection != nil:
		s.memory.noteInspection(step.Current.GetUID(), *res.inspection)
		return problem, true
	case res.conflict != nil:
		s.setConflictObstacle(step, res.holder, *res.conflict)
		return res.conflict.Problem, true
	case res.deleting != nil:
		return *res.deleting, true
	case res.refused != nil:
		return *res.refused, true
	case res.holder != nil:
		problem = r.nameConflict(s, now.desired.Nodes, step.Node, res.holder, writersOf(res.holder))
		s.memory.setObstacle(step.Node, res.holder, problem, nil)
		return problem, true
	case res.stale:
		s.requeue(reconcile.Conflict().RequeueAfter) // unless an event shows why
		return problem, false
	case res.err == nil:
		return problem, false
	}
	if problem, missing := missingNamespace(step.Object, res.err); missing {
		namespace := &unstructured.Unstructured{}
		namespace.SetGroupVersionKind(plan.NamespaceKind)
		namespace.SetName(step.Object.GetNamespace())
		s.memory.setObstacle(step.Node, namespace, problem, nil)
		return problem, true
	}
	if kube.IsKindTerminating(res.err) { // the event that says so comes later, and triggers a reconcile
		return waitingForKind(terminatingKind(step.Object.GroupVersionKind())).Problem, true
	}
	s.memory.writeUnanswered = s.memory.writeUnanswered || kube.IsOutcomeUnknown(res.err)
	problem = problemOf(res.err)
	if step.Sensitive {
		res.err = redacted(step, res.err)
		problem.Message = res.err.Error()
	}
	s.fail(fmt.Errorf("%s: %s: %w", step.Node, describeObject(step), res.err))
	problem.Message = problemPrefix(step, problem.Reason) + problem.Message
	if res.hint != "" {
		problem.Message += "; " + res.hint
	}
	return problem, true
}

// It names which item of a collection, and that an object which exists stays as it was.
func problemPrefix(step plan.Step, why plan.Reason) string {
	var out string
	if inventory.ItemOf(step.Object) != nil && !step.Sensitive {
		_, name, _ := strings.Cut(object.KeyOf(step.Object).String(), " ")
		out = "item " + name + ": "
	}
	if why == plan.Rejected && step.Current != nil {
		out += "update rejected: "
	}
	return out
}

func problemOf(err error) plan.Problem {
	reason, message := kube.ClassifyError(err)
	return plan.Problem{Reason: plan.Reason(reason), Message: message}
}

// The answer is in the cache when it returns.
func (r *Reconciler) write(s *subject, o *unstructured.Unstructured, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	var cache Cache = r.Children
	if o.GroupVersionKind() == r.Kind {
		cache = r.Instances
	}
	return cache.Write(watch.Subscriber{Key: s.key}, do)
}
