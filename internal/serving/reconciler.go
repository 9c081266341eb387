// Package serving turns definitions of any dialect into served kinds: it compiles a definition,
// publishes the CustomResourceDefinitions of its kinds, starts their controllers, and reports.
// When the definition is deleted, it deletes its kinds one after the other and removes its
// finalizers.
// See docs/design/0012-revisions-rollouts-and-versions.md.
//
// A dialect (internal/graph/definition, internal/composition/definition) supplies how a
// definition is compiled, the composer of its instances, and its status: a Session for each
// reconcile. The pure parts are in subpackages: install (what is written), revision (which
// revision composes), ending (the next step for a deleted definition).
package serving

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/ending"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Config is what the controllers of definitions need, in every dialect.
type Config struct {
	// Kind is the kind of the definitions.
	Kind    schema.GroupVersionKind
	Cluster *kube.Client
	Kinds   *kube.Kinds
	Hub     *watch.Hub
	Engine  *queue.Engine
	Events  telemetry.Recorder
	Now     func() time.Time
	// Published is as in Publisher.
	Published func(*apiextensionsv1.CustomResourceDefinition)
	// Held wraps the reconciler of instances, so it does nothing while there is a Hold. Definitions themselves are
	// reconciled all the same.
	Held func(schema.GroupVersionKind, queue.Reconciler) queue.Reconciler
	// AdditionalPrinterColumns adds printer columns to the kinds, besides the dialect's.
	AdditionalPrinterColumns bool
	// MaxKindsPerNamespace is from how many kinds on the definitions of a namespace cannot define another one; 0 for no limit.
	// Definitions that are reconciled at the same time can exceed it by the number of workers.
	MaxKindsPerNamespace int
}

// MaxKindsPerNamespaceField is the field of the configuration file for Config.MaxKindsPerNamespace.
const MaxKindsPerNamespaceField = "resourceGroups.maxKinds"

// EnqueueDefinition enqueues a definition.
func (c *Config) EnqueueDefinition(key object.Key) {
	c.Engine.Enqueue(watch.Subscriber{Key: key}, watch.Cause{Priority: watch.Normal})
}

// Dialect implements the definitions of one kind.
type Dialect interface {
	// Managers are the field managers of what is written to a definition: its finalizers, and its status.
	Managers() (object, status string)
	// Open begins a reconcile of a definition that exists.
	Open(*Definition) Session
	// Forget stops the controllers of a definition that is gone, and removes its state.
	Forget(object.Key)
}

// Definition is the definition of one reconcile, with how to write to it.
type Definition struct {
	Key object.Key
	*writer.Object
	writer writer.Writer
}

// WriteStatus replaces the definition's status, unless it is the same already.
func (d *Definition) WriteStatus(ctx context.Context, status map[string]any) (wrote bool, out reconcile.Result) {
	return d.writer.WriteStatus(ctx, d.Object, status)
}

// Session is one reconcile of one definition. Its methods are called in this order. If one of them fails, the
// later ones still run as far as possible: a kind that is served stays served until it can be replaced.
// A final result ends the reconcile.
type Session interface {
	// Finalizers are what the definition must have before anything is created for it.
	Finalizers() []string
	// Compile compiles the definition.
	Compile(context.Context) reconcile.Result
	// Wanted are the CustomResourceDefinitions that are to be published, if any can be.
	Wanted(context.Context) ([]*Wanted, error)
	// Serve starts the controllers of the published kinds, and sets their composers.
	Serve(context.Context) error
	// Report writes the status and records events.
	Report(ctx context.Context, publishErr, serveErr error) reconcile.Result

	// Endings are the kinds of a deleted definition in the order of their ends. They replace all of the above.
	Endings(context.Context) []*Ending
	// ReportEnding reports what a deleted definition waits for: instances that remain, or, without any, the
	// CustomResourceDefinition of the kind.
	ReportEnding(ctx context.Context, e *Ending, remaining *Remaining) reconcile.Result

	// Close is called last, always.
	Close()
}

// Ending is how one of a deleted definition's kinds ends.
type Ending struct {
	ending.Policy
	// Finalizer is removed from the definition when the kind has ended. A kind without it on the
	// definition is skipped.
	Finalizer string
	// CRD is the CustomResourceDefinition, nil for none, and CRDName the name that it has or would have; empty if the
	// definition defines no kind. Kind is the kind in the version that instances are read in; Unreadable says why there
	// is no such version.
	CRD        *apiextensionsv1.CustomResourceDefinition
	CRDName    string
	Kind       schema.GroupVersionKind
	Unreadable string
	Running    *Running
	// Serve starts or continues serving the instances; nil if the kind is not served, so there are none.
	Serve func(context.Context)
	// Cleanup is called before the finalizer is removed; optional.
	Cleanup func(ctx context.Context, orphaned bool) reconcile.Result
}

// Reconciler serves the definitions of one kind.
type Reconciler struct {
	Config
	Dialect Dialect

	refusals sync.Map // of object.Key: *telemetry.WriteFailures
}

// Follows makes an installation for some namespaces compile definitions without namespace, and serve their kinds: another
// installation writes.
func (r *Reconciler) Follows() {}

// Disown forgets a definition that another installation works on, and stops serving its kinds.
func (r *Reconciler) Disown(key object.Key) {
	r.Dialect.Forget(key)
	r.refusals.Delete(key)
	r.Hub.Forget(watch.Subscriber{Key: key})
}

// Reconcile compiles a definition, publishes its kinds, serves them, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	d, found := r.load(key)
	if !found {
		r.Disown(key)
		return reconcile.Done()
	}
	s := r.Dialect.Open(d)
	defer s.Close()
	if d.GetDeletionTimestamp() != nil {
		return r.end(ctx, d, s)
	}
	if out := d.writer.AddFinalizers(ctx, d.Object, s.Finalizers()...); out.IsFinal() {
		return out
	}
	if out := s.Compile(ctx); out.IsFinal() {
		return out
	}
	refused, publishErr := r.publish(ctx, key, s)
	serveErr := s.Serve(ctx) // a kind that was published before is served anyway
	if publishErr != nil && !refused {
		return reconcile.Fail(errors.Join(publishErr, serveErr))
	}
	return s.Report(ctx, publishErr, serveErr).Within(r.Cluster.StatusRecheck(r.Kind))
}

func (r *Reconciler) load(key object.Key) (d *Definition, found bool) {
	o, found := r.Hub.GetCached(r.Kind, key.Namespace, key.Name)
	if !found {
		return nil, false
	}
	refusals, _ := r.refusals.LoadOrStore(key, &telemetry.WriteFailures{})
	manager, status := r.Dialect.Managers()
	return &Definition{
		Key:    key,
		Object: &writer.Object{Unstructured: o, Refusals: refusals.(*telemetry.WriteFailures)},
		writer: writer.Writer{Cluster: r.Cluster, Caches: r.Hub, Events: r.Events, Manager: manager, StatusManager: status},
	}, true
}

// They end one after the other; then its finalizers are removed.
func (r *Reconciler) end(ctx context.Context, d *Definition, s Session) reconcile.Result {
	endings := s.Endings(ctx)
	if !kube.MayWrite(ctx) {
		for _, e := range endings {
			if e.Serve != nil {
				e.Serve(ctx) // some of the instances that remain are this installation's
			}
		}
		return reconcile.Done()
	}
	for _, e := range endings {
		if !slices.Contains(d.GetFinalizers(), e.Finalizer) {
			continue
		}
		orphaned, out := r.endKind(ctx, d, s, e)
		if out.IsFinal() {
			return out
		}
		if e.Cleanup != nil {
			if out := e.Cleanup(ctx, orphaned); out.IsFinal() {
				return out
			}
		}
		if out := d.writer.RemoveFinalizers(ctx, d.Object, e.Finalizer); out.IsFinal() {
			return out
		}
	}
	for _, e := range endings {
		e.Running.Stop()
	}
	r.Hub.Forget(watch.Subscriber{Key: d.Key})
	return reconcile.Done()
}

// It takes steps until the kind has ended or has to wait.
func (r *Reconciler) endKind(ctx context.Context, d *Definition, s Session, e *Ending) (orphaned bool, out reconcile.Result) {
	for {
		remaining := r.remaining(d, e)
		e.Running.confirmed = e.Running.confirmed || e.CRD != nil
		switch step := ending.Next(factsOf(e, remaining)); step.Do {
		case ending.KeepServing:
			e.Serve(ctx)
			return false, r.reportRemaining(ctx, s, e, remaining)
		case ending.DeleteInstances:
			e.Serve(ctx)
			err := e.Running.delete(ctx, r.Cluster, e.Kind, remaining.Objects)
			remaining.Refused = e.Running.refused
			out := r.reportRemaining(ctx, s, e, remaining)
			if err != nil && out.Err == nil {
				return false, reconcile.Fail(err)
			}
			return false, out
		case ending.Stop:
			e.Running.Stop()
		case ending.DeleteCRD:
			if out := r.deleteCRD(ctx, e); out.IsFinal() || !e.AwaitCRD {
				return false, out
			}
			return false, s.ReportEnding(ctx, e, nil)
		case ending.AwaitCRD:
			return false, s.ReportEnding(ctx, e, nil)
		case ending.Finish:
			return step.Orphaned, r.confirmAbsent(ctx, e)
		}
	}
}

// confirmAbsent ends the reconcile if the CustomResourceDefinition exists and the cache has not observed it: the watch
// can be behind the watch of definitions. The definition would be gone before its instances.
func (r *Reconciler) confirmAbsent(ctx context.Context, e *Ending) reconcile.Result {
	cached := r.Kinds.ListCRDs(func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Name == e.CRDName })
	if e.Running.confirmed || len(cached) > 0 || len(validation.IsDNS1123Subdomain(e.CRDName)) > 0 {
		return reconcile.Result{} // what is in the cache is another definition's
	}
	_, err := r.publisher().Find(ctx, e.CRDName)
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Fail(err)
	}
	e.Running.confirmed = true
	if err == nil {
		return reconcile.RequeueAfter(lateRetry) // it is in the cache now
	}
	return reconcile.Result{}
}

// The definition is enqueued when an instance is created or deleted, or when the instances can be read again.
func (r *Reconciler) remaining(d *Definition, e *Ending) *Remaining {
	out := &Remaining{State: watch.State{Phase: watch.Synced}}
	if e.CRD == nil || !crd.IsEstablished(e.CRD) {
		return out
	}
	out.Kind = e.CRD.Spec.Names.Kind
	if e.Unreadable != "" {
		out.State = watch.State{Phase: watch.Unavailable, Message: e.Unreadable}
		return out
	}
	lease := r.Hub.Begin(watch.Subscriber{Key: d.Key})
	defer lease.Commit()
	out.Objects, out.State = lease.Matching(e.Kind, "", labels.Everything())
	return out
}

func factsOf(e *Ending, remaining *Remaining) ending.Facts {
	f := ending.Facts{
		Policy: e.Policy, CRD: ending.Absent, Instances: len(remaining.Objects), InstancesUnknown: !remaining.Known(),
		Stopped: e.Running.Controller == nil,
	}
	switch {
	case e.CRD == nil:
	case e.CRD.DeletionTimestamp != nil:
		f.CRD = ending.Terminating
	case crd.IsEstablished(e.CRD):
		f.CRD = ending.Established
	default:
		f.CRD = ending.Pending
	}
	return f
}

// It reports nothing while instances are being read for the first time.
func (r *Reconciler) reportRemaining(ctx context.Context, s Session, e *Ending, remaining *Remaining) reconcile.Result {
	if remaining.State.Phase == watch.Syncing {
		return reconcile.Done() // the lease enqueues the definition
	}
	count := remaining.count(r.Now())
	if wait := count.Due(e.Running.reported, r.Now()); wait > 0 {
		return reconcile.RequeueAfter(wait)
	}
	out := s.ReportEnding(ctx, e, remaining)
	if out.Err == nil {
		e.Running.reported = count
	}
	return out
}

// deleteCRD deletes a CustomResourceDefinition, unless the API server has instances: a user may have created one that the
// cache does not have yet, and it would be deleted with the kind. A kind that was never served may be served in the next
// moment and have uncounted instances: it is deleted only if it has not changed.
func (r *Reconciler) deleteCRD(ctx context.Context, e *Ending) reconcile.Result {
	remove := r.publisher().DeleteUnchanged
	if crd.IsEstablished(e.CRD) {
		left, err := r.Cluster.List(ctx, e.Kind, "")
		switch {
		case kube.IsNoKindMatch(err) || kube.IsKindNotServed(err):
		case err != nil:
			return reconcile.Fail(err)
		case len(left) > 0:
			return reconcile.RequeueAfter(lateRetry)
		}
		remove = r.publisher().Delete
	}
	switch err := remove(ctx, e.CRD); {
	case kube.IsStale(err):
		return reconcile.Conflict()
	case err != nil:
		return reconcile.Fail(err)
	}
	return reconcile.Result{}
}

// lateRetry is when a definition is reconciled again that has something that was not in the cache, if its event does not do
// that before.
const lateRetry = time.Second
