package protection

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/protection/lifecycle"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// FieldManager is the field manager of all writes about usages.
const FieldManager = "espalier.dev/usage"

// Reconciler reconciles the usages of one kind.
type Reconciler struct {
	Kind    schema.GroupVersionKind
	Index   *Index
	Writer  Writer
	Deleter Deleter
	// Refusals are the records of refused deletions.
	Refusals Refusals
	Kinds    Kinds
	Cache    Cache
	// Keys are the signing keys of the installation: labels of children that they do not prove count for nothing.
	Keys inventory.Keys
	// Watch opens a lease on what a reconcile reads.
	Watch  func(watch.Subscriber) Lease
	Events telemetry.Recorder
	Now    func() time.Time
}

type reconcileState struct {
	key      object.Key
	usage    *writer.Object
	lease    Lease
	replayed bool
	// refused is the record of the refused deletion of the used object, once it is read: nil if
	// there is none. mayDelete reports whether its user may delete the object.
	refused                 *RefusedDeletion
	foundRefused, mayDelete bool
	// userRead says that the using object, which the caches lacked, was read from the API server.
	userRead bool
}

// maxSteps bounds a reconcile. A new usage takes five.
const maxSteps = 16

// Reconcile carries out one step after the other until there is nothing more to do for now,
// and writes the condition.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	o, ok := r.Cache.GetCached(r.Kind, key.Namespace, key.Name)
	if !ok {
		r.Cache.Forget(watch.Subscriber{Key: key})
		r.Index.Forget(key)
		return reconcile.Done()
	}
	s := &reconcileState{key: key, usage: &writer.Object{Unstructured: o}, lease: r.Watch(watch.Subscriber{Key: key})}
	defer s.lease.Commit()
	for range maxSteps {
		facts := r.gather(ctx, s)
		if err := r.gatherRefused(ctx, s, &facts); err != nil {
			return reconcile.Fail(err)
		}
		step := lifecycle.Next(facts)
		if step.Do == lifecycle.Finish {
			return r.report(ctx, s, step)
		}
		if step.Do == lifecycle.DeleteUsage && !s.userRead {
			if err := r.readUser(ctx, s, facts); err != nil {
				return reconcile.Fail(err)
			}
			continue
		}
		if out := r.execute(ctx, s, facts, step); out.IsFinal() {
			return out
		}
	}
	return reconcile.Fail(fmt.Errorf("%s is not done after %d steps", key, maxSteps))
}

func (r *Reconciler) execute(ctx context.Context, s *reconcileState, facts lifecycle.Facts, step lifecycle.Step) reconcile.Result {
	of := facts.Of.Object
	var err error
	switch step.Do {
	case lifecycle.PatchUsage:
		err = r.write(s, func() (*unstructured.Unstructured, error) {
			return r.Writer.Patch(ctx, s.usage.Unstructured, step.Change, FieldManager)
		})
	case lifecycle.RemoveFinalizer:
		err = r.release(ctx, s, facts)
	case lifecycle.AddLabel, lifecycle.RemoveLabel:
		_, err = r.Cache.Write(watch.Subscriber{Key: s.key}, func() (*unstructured.Unstructured, error) {
			return r.Writer.PatchMetadata(ctx, of, step.Change, FieldManager)
		})
		if why := facts.NotReplayed(); err == nil && why != "" {
			r.Events.Event(s.usage.Unstructured, telemetry.Warning, "DeletionNotReplayed", "did not replay the deletion of "+object.KeyOf(of).String()+": "+why)
		}
	case lifecycle.Replay:
		s.replayed = true
		err = r.Deleter.DeleteWithPolicy(ctx, of, step.Policy)
		if err == nil {
			r.Events.Event(s.usage.Unstructured, telemetry.Normal, "ReplayDeletion",
				"replayed the deletion that user "+facts.Refused.User+" requested while the object was in use: "+object.KeyOf(of).String())
		}
	case lifecycle.ForgetRefused:
		if err = r.Refusals.Forget(ctx, s.refused); err == nil {
			s.refused = nil
		}
	case lifecycle.DeleteUsage:
		if err = r.Deleter.Delete(ctx, s.usage.Unstructured); err == nil {
			return reconcile.Done() // its event brings the next reconcile
		}
	case lifecycle.Finish:
	}
	switch {
	case kube.IsStale(err):
		return reconcile.Conflict()
	case err != nil:
		if apierrors.IsForbidden(err) {
			_ = r.report(ctx, s, facts.Denied(step.Do, kube.RedactedMessage(err))) // the failure is retried
		}
		err = fmt.Errorf("%s: %w", step.Do, kube.Redacted(err))
		logr.FromContextOrDiscard(ctx).Info("cannot reconcile a usage", "usage", s.key.String(), "step", step.Do, "error", err.Error())
		return reconcile.Fail(err)
	case step.Do == lifecycle.RemoveFinalizer && facts.Use.Deleting:
		return reconcile.Done()
	}
	return reconcile.Result{}
}

// write makes one write to the usage. Its answer is in the caches and the index when write
// returns.
func (r *Reconciler) write(s *reconcileState, do func() (*unstructured.Unstructured, error)) error {
	err := r.writer().Write(s.usage, do)
	r.Index.Refresh(r.Kind, s.key)
	return err
}

func (r *Reconciler) writer() writer.Writer {
	return writer.Writer{Cluster: r.Writer, Caches: r.Cache, Events: r.Events, Manager: FieldManager, StatusManager: FieldManager}
}

// release removes the finalizer. If it was the last, the usage is gone from the caches when
// release returns.
func (r *Reconciler) release(ctx context.Context, s *reconcileState, facts lifecycle.Facts) error {
	gone, err := r.writer().Release(ctx, s.usage, facts.Finalizers()...)
	if gone {
		r.Cache.Forget(watch.Subscriber{Key: s.key})
		r.Index.Forget(s.key)
	}
	r.Index.Refresh(r.Kind, s.key)
	return err
}

func (r *Reconciler) report(ctx context.Context, s *reconcileState, step lifecycle.Step) reconcile.Result {
	before := condition.Read(s.usage.Unstructured)
	if step.Ready.Type == "" {
		return reconcile.Done()
	}
	conditions := before.Mark(step.Ready, r.Now()).MarkProgress(step.Progress(), step.Ready.ObservedGeneration, r.Now())
	status, _, _ := unstructured.NestedMap(s.usage.Object, "status")
	wrote, out := r.writer().WriteStatus(ctx, s.usage, step.Status(status, conditions))
	if wrote {
		r.Index.Refresh(r.Kind, s.key)
		r.recordTransition(s, before, step)
	}
	return out.OrDone()
}

// recordTransition records an event only if the reason of the condition has changed.
func (r *Reconciler) recordTransition(s *reconcileState, before condition.Set, step lifecycle.Step) {
	was, _ := before.Get(lifecycle.ReadyCondition)
	if was.Reason == step.Ready.Reason {
		return
	}
	switch step.Ready.Reason {
	case lifecycle.Available:
		r.Events.Event(s.usage.Unstructured, telemetry.Normal, "UsageConfigured", "the used object is protected from deletion")
	case lifecycle.Deleting:
		r.Events.Event(s.usage.Unstructured, telemetry.Normal, "WaitingUsingDeleted", step.Ready.Message)
	default:
		r.Events.Event(s.usage.Unstructured, telemetry.Warning, step.Ready.Reason, step.Ready.Message)
	}
}
