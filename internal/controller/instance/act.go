package instance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/watch"
)

// sideBySide bounds the requests that one pass makes at once.
const sideBySide = 16

// act carries out the applying steps of the plan, side by side, after the
// instance has been claimed for what they will make. It reports whether anything
// came of it that may let more resolve.
func (r *Reconciler) act(ctx context.Context, v *visit) (changed bool, out outcome.Outcome) {
	if out := r.claim(ctx, v); out.Settled() {
		return false, out
	}
	var (
		wait    sync.WaitGroup
		results = make([]result, len(v.plan.Steps))
		slots   = make(chan struct{}, sideBySide)
	)
	for i, step := range v.plan.Steps {
		if step.Action == plan.Correct && r.leaveContested(v, &v.plan.Steps[i]) {
			continue
		}
		if !step.Action.Applies() {
			continue
		}
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = r.apply(ctx, v, step)
		})
	}
	wait.Wait()
	for i, res := range results {
		changed = r.take(v, v.plan.Steps[i], res) || changed
	}
	return changed, outcome.Outcome{}
}

// claim makes the instance carry its finalizer, labels and inventory before
// anything is made for it, in one write. The inventory only ever grows while
// something is to be made; it shrinks once everything has settled.
func (r *Reconciler) claim(ctx context.Context, v *visit) outcome.Outcome {
	wanted := r.wantedInventory(v)
	if recorded := inventory.Read(v.instance); !v.plan.Settled || len(v.plan.Prune) > 0 {
		wanted = wanted.Grow(recorded)
	}
	claim := inventory.ClaimOf(v.owner, wanted)
	if !claim.In(v.instance) {
		claimed, err := r.write(v, v.instance, func() (*unstructured.Unstructured, error) {
			return r.Cluster.Update(ctx, claim.Configuration(v.instance), v.instance.GetUID(), v1alpha1.InstanceManager)
		})
		if cluster.IsGone(err) {
			return outcome.Done()
		}
		if err != nil {
			return outcome.Fail(fmt.Errorf("claim the instance: %w", err))
		}
		v.instance = claimed
		v.facts.Instance = claimed
	}
	return r.retireFinalizers(ctx, v, claim.Finalizer)
}

// wantedInventory is where the instance's children are and will be.
func (r *Reconciler) wantedInventory(v *visit) inventory.Inventory {
	var kinds []schema.GroupKind
	for _, gvk := range v.composer.Written() {
		kinds = append(kinds, gvk.GroupKind())
	}
	inv := inventory.Of(kinds)
	add := func(o *unstructured.Unstructured) {
		inv.Kinds[o.GroupVersionKind().GroupKind()] = struct{}{}
		if ns := o.GetNamespace(); ns != "" && ns != v.key.Namespace {
			inv.Namespaces[ns] = struct{}{}
		}
	}
	for _, step := range v.plan.Steps {
		if step.Object != nil {
			add(step.Object)
		}
	}
	for _, children := range v.facts.Owned {
		for _, child := range children {
			add(child)
		}
	}
	return inv
}

// retireFinalizers removes the finalizers of former incarnations of the
// definition: nobody else will.
func (r *Reconciler) retireFinalizers(ctx context.Context, v *visit, current string) outcome.Outcome {
	retired := inventory.Retired(v.instance, current)
	if len(retired) == 0 {
		return outcome.Outcome{}
	}
	left, err := r.write(v, v.instance, func() (*unstructured.Unstructured, error) {
		return r.Cluster.SetFinalizers(ctx, v.instance, without(v.instance.GetFinalizers(), retired), v1alpha1.InstanceManager)
	})
	if err != nil {
		return outcome.Fail(fmt.Errorf("retire finalizers %v: %w", retired, err))
	}
	v.instance = left
	v.facts.Instance = left
	return outcome.Outcome{}
}

func without(all, some []string) []string {
	drop := map[string]bool{}
	for _, s := range some {
		drop[s] = true
	}
	out := []string{}
	for _, s := range all {
		if !drop[s] {
			out = append(out, s)
		}
	}
	return out
}

// write makes one write. Its answer is in the caches when it returns, and its
// echo doesn't wake the instance; what others change at the same time does.
func (r *Reconciler) write(v *visit, o *unstructured.Unstructured, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	writer := watch.Subscriber{Key: v.key}
	done := r.Hub.Writing(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), writer)
	defer done()
	answer, err := do()
	if err == nil {
		r.Hub.Record(answer, writer)
	}
	return answer, err
}

// result is the answer to one step.
type result struct {
	answer *unstructured.Unstructured
	holder *unstructured.Unstructured // somebody else's object of that name
	err    error
}

// apply carries out one step with one request, or, where the name turns out to
// be taken, with a look at who has it.
func (r *Reconciler) apply(ctx context.Context, v *visit, step plan.Step) result {
	if step.Action != plan.Create {
		if step.Action == plan.Correct {
			r.reportTakeover(ctx, v, step)
		}
		return r.update(ctx, v, step, step.Current)
	}
	answer, err := r.write(v, step.Object, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Create(ctx, step.Object, v1alpha1.ChildManager)
	})
	if !cluster.IsTaken(err) {
		return result{answer: answer, err: err}
	}
	live, err := r.Cluster.Get(ctx, step.Object.GroupVersionKind(), step.Object.GetNamespace(), step.Object.GetName())
	if err != nil {
		return result{err: err}
	}
	if !v.owner.Owns(live) && !(step.Adopt && inventory.IsUnowned(live)) {
		return result{holder: live}
	}
	if live.GetDeletionTimestamp() != nil {
		return result{} // ours, and going: its end brings the next pass
	}
	return r.update(ctx, v, step, live)
}

// update applies a step's object onto the incarnation that is there.
func (r *Reconciler) update(ctx context.Context, v *visit, step plan.Step, current *unstructured.Unstructured) result {
	answer, err := r.write(v, step.Object, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Update(ctx, step.Object, current.GetUID(), v1alpha1.ChildManager)
	})
	return result{answer: answer, err: err}
}

// take turns an answer into facts for the next turn, and reports whether there
// is anything new in it.
func (r *Reconciler) take(v *visit, step plan.Step, res result) bool {
	switch {
	case res.answer != nil:
		v.memory.tolerate(res.answer.GetUID(), plan.Lost(step.Object, res.answer, v1alpha1.ChildManager))
		if step.Action == plan.Correct {
			v.memory.tookBack(res.answer.GetUID(), step.Lost, v.facts.Now)
		}
		return true
	case res.holder != nil:
		key := object.KeyOf(step.Object)
		need := plan.Need{Kind: step.Object.GroupVersionKind(), Namespace: key.Namespace, Name: key.Name}
		problem := notOwned(key, res.holder, v.owner)
		v.memory.block(step.Node, blocker{need, problem})
		v.facts.Problems[step.Node] = problem
		return true
	case res.err == nil:
		return false
	case cluster.IsGone(res.err):
		return false // its event is on the way, and brings the next pass
	}
	problem := cluster.Explain(res.err)
	if step.Conceals {
		problem.Message = cluster.Discreet(res.err)
		res.err = errors.New(problem.Message)
	}
	v.failures = append(v.failures, fmt.Errorf("%s: %s: %w", step.Node, object.KeyOf(step.Object), res.err))
	v.facts.Problems[step.Node] = problem
	return true
}

// notOwned says whose an object is and how it could become the instance's.
func notOwned(key object.Key, holder *unstructured.Unstructured, owner inventory.Owner) plan.Problem {
	return plan.Problem{
		Reason: plan.NotOwned,
		Message: fmt.Sprintf("%s exists already and belongs to %s; it is left alone. To adopt it, set adopt: IfUnowned on the resource, or label it %s=%s",
			key, inventory.Whose(holder), v1alpha1.ApplySetPartOfLabel, owner.ID()),
		Holder: &key,
	}
}

// leaveContested turns a correction into a wait when the same field has been
// lost too often of late.
func (r *Reconciler) leaveContested(v *visit, step *plan.Step) bool {
	contested, until := v.memory.lost(step.Current.GetUID(), step.Lost, v.facts.Now)
	if len(contested) == 0 {
		return false
	}
	step.Action = plan.Hold
	step.Problem = plan.Problem{
		Reason: plan.DriftContested,
		Message: fmt.Sprintf("%s of %s is written by somebody else again and again; it is taken back once a minute until that ends",
			contested[0], object.KeyOf(step.Current)),
	}
	step.Retry = until.Sub(v.facts.Now) + time.Second
	return true
}
