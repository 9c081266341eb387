package protection

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/usage"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Manager is the field manager of what is written about usages.
const Manager = "espalier.dev/usage"

// Reconciler serves the usages of one kind.
type Reconciler struct {
	Kind    schema.GroupVersionKind
	Book    *Book
	Cluster *cluster.Client
	Kinds   *cluster.Kinds
	Hub     *watch.Hub
	Events  telemetry.Recorder
	Now     func() time.Time
}

// visit is one pass over one usage.
type visit struct {
	key      object.Key
	usage    *unstructured.Unstructured
	lease    *watch.Lease
	replayed bool
}

// mostSteps bounds a pass. A life takes five from nothing to rest.
const mostSteps = 16

// Reconcile tells one pass: gather what is known, then carry out one step after the
// other, until there is nothing more to do for now; and tell.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) outcome.Outcome {
	o, ok := r.Hub.Served(r.Kind, key.Namespace, key.Name)
	if !ok {
		r.Hub.Forget(watch.Subscriber{Key: key})
		return outcome.Done()
	}
	v := &visit{key: key, usage: o, lease: r.Hub.Begin(watch.Subscriber{Key: key})}
	defer v.lease.Commit()
	for range mostSteps {
		facts := r.gather(ctx, v)
		step := usage.Next(facts)
		if step.Do == usage.Rest {
			return r.report(ctx, v, step)
		}
		if out := r.carryOut(ctx, v, facts, step); out.Settled() {
			return out
		}
	}
	return outcome.Fail(fmt.Errorf("%s doesn't come to rest", key))
}

// carryOut makes the one request of a step.
func (r *Reconciler) carryOut(ctx context.Context, v *visit, facts usage.Facts, step usage.Step) outcome.Outcome {
	of := facts.Of.Object
	var err error
	switch step.Do {
	case usage.Write:
		err = r.write(v, func() (*unstructured.Unstructured, error) { return r.Cluster.Patch(ctx, v.usage, step.Change, Manager) })
	case usage.Release:
		err = r.release(ctx, v, facts)
	case usage.Mark, usage.Unmark:
		_, err = r.Hub.Write(of, watch.Subscriber{Key: v.key}, func() (*unstructured.Unstructured, error) {
			return r.Cluster.Mark(ctx, of, step.Change, Manager)
		})
	case usage.Replay:
		v.replayed = true
		err = r.Cluster.DeleteWith(ctx, of, step.Policy)
		if err == nil {
			r.Events.Event(v.usage, telemetry.Normal, "ReplayDeletion", "deleted, as was asked for while it was in use: "+object.KeyOf(of).String())
		}
	case usage.Remove:
		if err = r.Cluster.Delete(ctx, v.usage); err == nil {
			return outcome.Done() // its event brings the next pass
		}
	case usage.Rest:
	}
	switch {
	case cluster.IsGone(err):
		return outcome.Overtaken()
	case err != nil:
		err = fmt.Errorf("%s: %w", step.Do, cluster.Quiet(err))
		logr.FromContextOrDiscard(ctx).Info("a step about a usage fails", "usage", v.key.String(), "step", step.Do, "error", err.Error())
		return outcome.Fail(err)
	case step.Do == usage.Release:
		return outcome.Done()
	}
	return outcome.Outcome{}
}

// write makes one write to the usage. Its answer is in the caches, and in the book, when
// it returns.
func (r *Reconciler) write(v *visit, do func() (*unstructured.Unstructured, error)) error {
	answer, err := r.Hub.Write(v.usage, watch.Subscriber{Key: v.key}, do)
	if err != nil {
		return err
	}
	v.usage = answer
	r.Book.look(r.Kind, v.key)
	return nil
}

// release takes the finalizer off. If it was the last, the usage is gone for everybody
// who looks from now on.
func (r *Reconciler) release(ctx context.Context, v *visit, facts usage.Facts) error {
	writer := watch.Subscriber{Key: v.key}
	defer r.Hub.Writing(r.Kind, v.key.Namespace, v.key.Name, writer)()
	answer, err := r.Cluster.RemoveFinalizers(ctx, v.usage, facts.Finalizers(), Manager)
	switch {
	case err != nil:
		return err
	case len(answer.GetFinalizers()) > 0:
		r.Hub.Record(answer, writer)
	default:
		r.Hub.RecordGone(r.Kind, v.key.Namespace, v.key.Name, string(v.usage.GetUID()), writer)
		r.Hub.Forget(writer)
	}
	r.Book.look(r.Kind, v.key)
	return nil
}

// report writes the condition, if it says anything new.
func (r *Reconciler) report(ctx context.Context, v *visit, step usage.Step) outcome.Outcome {
	before := condition.Read(v.usage)
	if step.Ready.Type == "" {
		return outcome.Done()
	}
	conditions := before.Mark(step.Ready, r.Now())
	status, _, _ := unstructured.NestedMap(v.usage.Object, "status")
	next := step.Status(status, conditions)
	if object.Digest(status) == object.Digest(next) {
		return outcome.Done()
	}
	err := r.write(v, func() (*unstructured.Unstructured, error) { return r.Cluster.WriteStatus(ctx, v.usage, next, Manager) })
	switch {
	case cluster.IsGone(err):
		return outcome.Overtaken()
	case err != nil:
		return outcome.Fail(fmt.Errorf("write status: %w", err))
	}
	r.announce(v, before, step)
	return outcome.Done()
}

// announce tells of transitions, each once.
func (r *Reconciler) announce(v *visit, before condition.Set, step usage.Step) {
	was, _ := before.Get(usage.ReadyCondition)
	if was.Reason == step.Ready.Reason {
		return
	}
	switch step.Ready.Reason {
	case usage.Available:
		r.Events.Event(v.usage, telemetry.Normal, "UsageConfigured", "what it is of is kept from being deleted")
	case usage.Deleting:
		r.Events.Event(v.usage, telemetry.Normal, "WaitingUsingDeleted", step.Ready.Message)
	default:
		r.Events.Event(v.usage, telemetry.Warning, step.Ready.Reason, step.Ready.Message)
	}
}
