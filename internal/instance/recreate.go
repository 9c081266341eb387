package instance

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// recreate deletes, in the foreground, objects that may be recreated after the API server has rejected their updates. A
// later reconcile creates them once they are gone. An object is deleted only if the server would accept it as a new
// one, and nothing protects or uses it. It reports whether there are any.
func (r *Reconciler) recreate(ctx context.Context, s *subject, steps []plan.Step, results []result) (any bool) {
	index := map[*unstructured.Unstructured]int{}
	var rejected []*unstructured.Unstructured
	for i, res := range results {
		step := steps[i]
		if !kube.IsInvalid(res.err) {
			continue
		}
		may, hint := step.MayRecreate(res.err.Error())
		if !may {
			results[i].hint = hint
			continue
		}
		if err := r.Cluster.DryRunCreate(ctx, step.Object, v1alpha1.ChildManager); err != nil {
			if kube.IsTransient(err) {
				if step.Sensitive {
					err = redacted(step, err)
				}
				s.fail(err)
			}
			results[i].hint = "it is not recreated, because a new one would be refused as well: " + describeError(step, err)
			continue
		}
		index[step.Current] = i
		rejected = append(rejected, step.Current)
	}
	if len(rejected) == 0 {
		return false
	}
	now := r.Now()
	remains := plan.Remaining{Instance: s.instance, Children: rejected, History: s.memory.deletionHistory, Now: now}
	if !r.observeUsages(s, &remains, rejected...) {
		for _, i := range index {
			results[i].hint = "it is recreated once its usages are read"
		}
		return true
	}
	deletable, blocked, retry := plan.Deletable(remains)
	for o, by := range blocked {
		results[index[o]].hint = blockedHint(by)
	}
	s.requeue(retry)
	for _, o := range deletable {
		i := index[o]
		results[i] = r.deleteToRecreate(ctx, s, steps[i], results[i].err)
	}
	return true
}

// It records an event.
func (r *Reconciler) deleteToRecreate(ctx context.Context, s *subject, step plan.Step, rejected error) result {
	o := step.Current
	why := describeError(step, rejected)
	c := &removalRequest{o: o, verb: "delete", decision: "Delete", do: func(ctx context.Context) error {
		_, err := r.Cluster.DeleteIfMetadataUnchanged(ctx, o, metav1.DeletePropagationForeground)
		return err
	}}
	r.send(ctx, c)
	if r.noteAnswers(s, []*removalRequest{c}) {
		return result{err: rejected, hint: fmt.Sprintf("it cannot be deleted to be recreated: %s: %s", c.reason, c.message)}
	}
	r.Events.Event(s.instance, telemetry.Warning, "Recreating", fmt.Sprintf("%s: %s is deleted and recreated, because its update was rejected: %s",
		step.Node, describeObject(step), why))
	problem := plan.RecreatingProblem(o, why)
	return result{deleting: &problem}
}

// It names the kind alone if the name may come from a Secret.
func describeObject(step plan.Step) string {
	if step.Sensitive {
		return step.Object.GetKind()
	}
	return object.KeyOf(step.Object).String()
}

// It leaves out what may come from a Secret.
func describeError(step plan.Step, err error) string {
	if step.Sensitive {
		return redacted(step, err).Error()
	}
	return kube.Concise(err).Error()
}

// It leaves out what may come from a Secret.
func redacted(step plan.Step, err error) error {
	if step.SecretFields {
		return kube.RedactedWithoutFields(err)
	}
	return kube.Redacted(err)
}

// A nil blocker means that the deletion was accepted.
func blockedHint(by *report.Blocker) string {
	if by == nil {
		return "its deletion was accepted and isn't observed yet"
	}
	return "it is not recreated: " + by.Message
}
