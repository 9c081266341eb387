package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// recordContributions adds the contributions that are about to be applied to the status, so a crash leaves none that is
// not recorded. The result is final if it can't: then nothing is applied.
func (r *Reconciler) recordContributions(ctx context.Context, s *subject, now round) reconcile.Result {
	recorded := r.contributions(s)
	added := now.plan.Unrecorded(recorded)
	if len(added) == 0 {
		return reconcile.Result{}
	}
	all := append(recorded, added...)
	if len(all) > maxContributions {
		problem := plan.Problem{Reason: plan.LimitExceeded, Message: fmt.Sprintf("nothing is applied: there are %d contributions, over the limit of %d (maxContributions)",
			len(all), maxContributions)}
		return r.report(ctx, s, findings{round: now, inventoryProblem: problem})
	}
	status, _, _ := unstructured.NestedMap(s.instance.Object, "status")
	out := r.writeStatus(ctx, s, report.WithContributions(status, all))
	if out.Err == nil {
		return out
	}
	problem := problemOf(out.Err)
	problem.Message = "nothing is applied while the contributions cannot be recorded: " + problem.Message
	s.fail(out.Err)
	return r.report(ctx, s, findings{round: now, inventoryProblem: problem})
}

// maxContributions bounds the contributions of one instance, which its status records: the schema has the same bound.
const maxContributions = 5000

// contributions are recorded and not released.
func (r *Reconciler) contributions(s *subject) []v1alpha1.Contribution {
	if !r.Contributes {
		return nil // the author's status may have a field of this name
	}
	return slices.DeleteFunc(report.ReadContributions(s.instance), func(c v1alpha1.Contribution) bool { return slices.Contains(s.released, c) })
}

// contribute applies the fields of a step to an external object. It takes fields of the status over, and other fields only
// from a node that does not contribute to the object any more.
func (r *Reconciler) contribute(ctx context.Context, s *subject, now round, step plan.Step) result {
	answer, err := r.applyContribution(ctx, s, step, step.Contribution.Subresource == plan.StatusSubresource)
	if fields, contested := kube.FieldConflicts(err); contested {
		live, readErr := r.Cluster.Get(ctx, step.Object.GroupVersionKind(), step.Object.GetNamespace(), step.Object.GetName())
		if readErr != nil {
			return result{err: errors.Join(err, readErr)}
		}
		managers := ownership.Managers(live, func(e ownership.Entry) bool {
			return e.Manager != step.Contribution.Manager && e.Subresource == "" &&
				ownership.Differs(step.Object.Object, live.Object, managedfields.Stored(live, e.Fields()))
		})
		others := slices.ContainsFunc(managers, func(m string) bool { return !step.Contribution.MayTakeOver(m, now.desired.Nodes, s.owner) })
		if len(managers) == 0 || others {
			return result{contributed: plan.RefusedContribution(step, shownFields(step, fields), joined(managers))}
		}
		answer, err = r.applyContribution(ctx, s, step, true)
	}
	switch {
	case kube.IsStale(err):
		return result{stale: true}
	case err != nil:
		return result{err: err}
	}
	return result{contributed: plan.AnswerTo(step.Contribution, answer)}
}

func (r *Reconciler) applyContribution(ctx context.Context, s *subject, step plan.Step, force bool) (*unstructured.Unstructured, error) {
	c := step.Contribution
	return r.write(s, c.Object, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Contribute(ctx, c.Object, step.Current.GetUID(), kube.Contributor{Manager: c.Manager, Subresource: c.Subresource, Force: force})
	})
}

// releaseUnwanted releases the contributions that no node makes any more. A failure is the problem of the plan.
func (r *Reconciler) releaseUnwanted(ctx context.Context, s *subject, last round) round {
	if reason, message := r.release(ctx, s, last.plan.Unwanted(r.contributions(s))); reason != "" {
		last.plan.Problem = plan.Problem{Reason: plan.ReleaseFailed, Message: message}
	}
	return last
}

// releaseAll releases all contributions of an instance that is being deleted. It reports whether one was refused: that
// keeps the instance.
func (r *Reconciler) releaseAll(ctx context.Context, s *subject) (refused bool) {
	reason, message := r.release(ctx, s, r.contributions(s))
	if reason == "" {
		return false
	}
	s.memory.updateAttempts(s.instance, func(a plan.DeletionAttempts) plan.DeletionAttempts {
		return a.Refused(report.Reason(reason), message, s.instance, r.Now())
	})
	return true
}

// release returns why the first of the contributions that can't be released can't.
func (r *Reconciler) release(ctx context.Context, s *subject, unwanted []v1alpha1.Contribution) (reason kube.Reason, message string) {
	answers := make([]error, len(unwanted))
	work := make([]func() error, len(unwanted))
	for i, c := range unwanted {
		answers[i] = errNotReleased // if there is a panic
		work[i] = func() error { answers[i] = r.releaseOne(ctx, s, c); return nil }
	}
	s.errs = append(s.errs, inParallel(work)...)
	for i, err := range answers {
		// An object goes with the namespace, as the permissions went.
		if err == nil || apierrors.IsForbidden(err) && unwanted[i].Namespace == s.key.Namespace && r.isDeletedWithNamespace(ctx, s) {
			s.released = append(s.released, unwanted[i])
			continue
		}
		o := objectOf(unwanted[i])
		s.fail(fmt.Errorf("release the fields of %s: %w", object.KeyOf(o), err))
		if reason == "" {
			var text string
			reason, text = r.Cluster.DiagnoseError(ctx, o, "patch", err)
			message = fmt.Sprintf("the fields of %s that this Graph contributed cannot be released: %s", object.KeyOf(o), text)
		}
		logr.FromContextOrDiscard(ctx).Info("cannot release a contribution", "object", object.KeyOf(o), "error", err.Error())
	}
	return reason, message
}

var errNotReleased = errors.New("not released")

// releaseOne applies no fields under the manager of a contribution: the API server removes those that no other manager has.
// An object that is gone has none.
func (r *Reconciler) releaseOne(ctx context.Context, s *subject, c v1alpha1.Contribution) error {
	if !plan.MayRelease(c.FieldManager, s.owner) {
		return nil
	}
	o := objectOf(c)
	gvk, availability, err := r.Kinds.Availability(ctx, o.GroupVersionKind().GroupKind())
	switch {
	case err != nil:
		return err
	case availability == kube.Gone:
		return nil
	}
	o.SetGroupVersionKind(gvk) // the recorded version may not be served any more
	live, err := r.Cluster.Get(ctx, gvk, c.Namespace, c.Name)
	switch {
	case kube.IsObjectNotFound(err, c.Name):
		return nil
	case err != nil:
		return err
	}
	if !slices.Contains(ownership.Managers(live, func(ownership.Entry) bool { return true }), c.FieldManager) {
		return nil
	}
	_, err = r.write(s, o, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Contribute(ctx, o, live.GetUID(), kube.Contributor{Manager: c.FieldManager, Subresource: c.Subresource, Force: true})
	})
	if kube.IsStale(err) {
		return nil // it is gone, or another object
	}
	return err
}

func objectOf(c v1alpha1.Contribution) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(c.APIVersion, c.Kind))
	o.SetNamespace(c.Namespace)
	o.SetName(c.Name)
	return o
}
