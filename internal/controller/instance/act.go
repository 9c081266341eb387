package instance

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
)

// act carries out the applying steps of the plan, side by side. It reports whether
// anything came of it that may let more resolve.
func (r *Reconciler) act(ctx context.Context, v *visit) (changed bool) {
	results := make([]result, len(v.plan.Steps))
	var work []func() error
	for i := range v.plan.Steps {
		step := v.plan.Steps[i]
		do := r.apply
		switch {
		case len(step.Look) > 0:
			do = func(ctx context.Context, _ *visit, step plan.Step) result { return r.look(ctx, step) }
		case !step.Action.Applies():
			continue
		}
		work = append(work, func() error {
			results[i] = do(ctx, v, step)
			return nil
		})
	}
	v.failures = append(v.failures, sideBySide(work)...)
	r.recreate(ctx, v, results)
	for i, res := range results {
		changed = r.take(v, v.plan.Steps[i], res) || changed
	}
	return changed
}

// mostAtOnce bounds the requests that one pass makes side by side.
const mostAtOnce = 16

// sideBySide does all the work and returns what failed. A panic is a failure of
// its own work only.
func sideBySide(work []func() error) []error {
	var (
		wait  sync.WaitGroup
		errs  = make([]error, len(work))
		slots = make(chan struct{}, mostAtOnce)
	)
	for i, do := range work {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() {
				<-slots
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("a mistake in the program: %T", p) // its value may hold what a Secret holds
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

// result is the answer to one step.
type result struct {
	answer *unstructured.Unstructured
	holder *unstructured.Unstructured // somebody else's object of that name
	// conflict is that the holder has fields which somebody else has set, and sighting
	// what came of a closer look.
	conflict *plan.Refused
	sighting *plan.Sighting
	// deleting is that the object is being deleted to be created anew.
	deleting *plan.Problem
	err      error
	// hint is what to do about the error, or why it wasn't done.
	hint string
}

// apply carries out one step with one request, or, where the name turns out to
// be taken, with a look at who has it.
func (r *Reconciler) apply(ctx context.Context, v *visit, step plan.Step) result {
	switch step.Action {
	case plan.Correct:
		return r.correct(ctx, v, step)
	case plan.Create:
	default:
		return r.update(ctx, v, step, step.Current)
	}
	answer, err := r.write(v, step.Object, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Create(ctx, step.Object, v1alpha1.ChildManager)
	})
	live := cluster.Holder(err)
	if live == nil {
		return result{answer: answer, err: err}
	}
	owned := v.owner.Owns(live)
	if !owned && (!step.Adopt || !inventory.IsUnowned(live) || live.GetDeletionTimestamp() != nil) {
		return result{holder: live}
	}
	if live.GetDeletionTimestamp() != nil {
		return result{holder: live} // ours, of another node or of before, and going
	}
	return r.update(ctx, v, step, live)
}

// update applies a step's object onto the incarnation that is there.
func (r *Reconciler) update(ctx context.Context, v *visit, step plan.Step, current *unstructured.Unstructured) result {
	current, err := r.foldManagers(ctx, v, current)
	if cluster.IsGone(err) {
		return result{} // its event is on the way, and brings the next pass
	}
	if err != nil {
		return result{err: fmt.Errorf("take over managed fields: %w", err)}
	}
	answer, err := r.writeOnto(ctx, v, step, current)
	if fields, contested := cluster.Contested(err); contested {
		return r.refused(ctx, step, current, fields)
	}
	if cluster.IsGone(err) {
		return result{} // its event is on the way, and brings the next pass
	}
	return result{answer: answer, err: err}
}

// take turns an answer into facts for the next turn, and reports whether there
// is anything new in it.
func (r *Reconciler) take(v *visit, step plan.Step, res result) bool {
	switch {
	case res.answer != nil:
		v.memory.settled(step, res.answer)
		if step.Action == plan.Correct {
			v.memory.history.Losses = v.memory.history.Losses.TookBack(res.answer.GetUID(), step.Lost, v.facts.Now)
		}
		return true
	case res.sighting != nil:
		v.memory.sight(step.Current.GetUID(), *res.sighting)
		return true
	case res.conflict != nil:
		v.hold(step, res.holder, *res.conflict)
		return true
	case res.deleting != nil:
		v.facts.Problems[step.Node] = *res.deleting
		return true
	case res.holder != nil:
		v.block(step.Node, res.holder, r.inTheWay(v, step.Node, res.holder, writersOf(res.holder)))
		return true
	case res.err == nil:
		return false
	}
	if namespace, why, missing := r.missingNamespace(step.Object, res.err); missing {
		v.block(step.Node, namespace, plan.Problem{Reason: plan.WaitingForNamespace, Message: why})
		return true
	}
	v.memory.unanswered = v.memory.unanswered || cluster.IsUnanswered(res.err)
	problem := cluster.Explain(res.err)
	if step.Conceals {
		res.err = cluster.Quiet(res.err)
		problem.Message = res.err.Error()
	}
	v.failures = append(v.failures, fmt.Errorf("%s: %s: %w", step.Node, nameOf(step), res.err))
	problem.Message = whatOf(step, problem.Reason) + problem.Message
	if res.hint != "" {
		problem.Message += "; " + res.hint
	}
	v.facts.Problems[step.Node] = problem
	return true
}

// whatOf says what of a node the API server didn't do: of a collection which item, and
// that there is an object which stays as it was.
func whatOf(step plan.Step, why plan.Reason) string {
	var out string
	if inventory.ItemOf(step.Object) != nil && !step.Conceals {
		_, name, _ := strings.Cut(object.KeyOf(step.Object).String(), " ")
		out = "item " + name + ": "
	}
	if why == plan.Rejected && step.Current != nil {
		out += "update rejected: "
	}
	return out
}
