package revision

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

var definitionKind = v1.GroupVersion.WithKind(v1.DefinitionKind)

// rollOut takes the next step of the rollout or rollback that annotations of the composition ask for. Instances are composed by
// the recorded state, so a crash changes none of them. They are watched only until all have the target.
func (r *Compositions) rollOut(ctx context.Context, v *reconcileState) reconcile.Result {
	rollout, asked := xrd.RolloutOf(v.composition, v.revisions)
	record := xrd.StateRecord(v.composition, v.revisions)
	if record == nil {
		return reconcile.Done()
	}
	recorded := record.Annotations[v1alpha1.RolloutStateAnnotation]
	switch {
	case !kube.MayWrite(ctx): // another installation takes the steps
		return reconcile.Done()
	case !asked && recorded == "":
		return reconcile.Done()
	case !asked:
		return r.recordState(ctx, v, record.Name, nil).OrDone()
	case len(rollout.Problems) > 0:
		r.recordProblem(v, rollout.Problems.Sorted().Err().Error())
		return reconcile.Done()
	case rollout.Target.Number == 0: // no revision has a valid pipeline yet
		return reconcile.Done()
	case rollout.State.Serving == rollout.Target.Number && rollout.State.Rolling() == 0:
		return reconcile.Done()
	}
	step, known, err := r.step(ctx, v, rollout)
	switch {
	case err != nil:
		return reconcile.Fail(err)
	case !known:
		return reconcile.Done()
	}
	text, err := xrd.StateAnnotation(step.Next, v.revisions)
	if err != nil {
		return reconcile.Fail(err)
	}
	if text != recorded {
		if out := r.recordState(ctx, v, record.Name, text); out.IsFinal() {
			return out
		}
	}
	for _, t := range step.Transitions {
		severity := telemetry.Normal
		if t.Warning {
			severity = telemetry.Warning
		}
		r.Events.Event(v.raw, severity, t.Reason, t.Message)
		r.Rollouts.CountEvent(t.Reason)
	}
	return reconcile.Done().Within(step.RequeueAfter)
}

// step returns false while the instances are not known; the lease enqueues the composition.
func (r *Compositions) step(ctx context.Context, v *reconcileState, rollout xrd.Rollout) (step revision.Step, known bool, err error) {
	d, known := r.definition(v)
	if !known || d == nil {
		return step, false, nil
	}
	kind := d.CompositeKind()
	_, state := v.lease.Matching(kind, "", labels.Everything())
	if state.Phase != watch.Synced {
		return step, false, nil
	}
	members := func() (out []revision.Member) {
		for _, o := range r.Hub.Select(kind, "", labels.Everything()) {
			if m, is := xrd.MemberOf(v.composition, v.revisions, xrd.NewInstance(o, xrd.LayoutOf(d.ScopeOrDefault())), d); is {
				out = append(out, m)
			}
		}
		return out
	}
	advance := func() revision.Step {
		return rollout.Started(members()).StepTo(rollout.Target, rollout.Waves, members, r.Now())
	}
	step = advance()
	if unmatched := step.UnmatchedSelectors(members); len(unmatched) > 0 {
		found, err := serving.ReadSelected(ctx, r.Cluster, r.Hub, kind, unmatched)
		if err != nil {
			return step, false, err
		}
		if found {
			step = advance()
		}
	}
	return step, true, nil
}

// definition returns the definition of the composition's kind; nil if there is none.
func (r *Compositions) definition(v *reconcileState) (d *v1.CompositeResourceDefinition, known bool) {
	all, state := v.lease.Matching(definitionKind, "", labels.Everything())
	if state.Phase != watch.Synced {
		return nil, false
	}
	for _, o := range all {
		d, err := xrd.Read(o)
		if err == nil && v1.TypeReferenceTo(d.CompositeKind()) == v.composition.Spec.CompositeTypeRef {
			return d, true
		}
	}
	return nil, true
}

// recordState writes the annotation with the state; nil removes it.
func (r *Compositions) recordState(ctx context.Context, v *reconcileState, revision string, text any) reconcile.Result {
	at := slices.IndexFunc(v.read, func(o *unstructured.Unstructured) bool { return o.GetName() == revision })
	change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.RolloutStateAnnotation: text}}}
	if _, err := r.Cluster.Patch(ctx, v.read[at], change, Manager); err != nil {
		return serving.ResultOf(err)
	}
	return reconcile.Result{}
}
