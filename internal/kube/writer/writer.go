// Package writer writes to the object of a reconcile: its finalizers, its status and other
// fields. It is the one place that decides what the API server's answer means for the
// reconcile.
// See docs/design/0001-every-write-has-a-precondition.md.
//
// A write that names a revision or an incarnation of the object can be answered with 409
// for three reasons:
//
//   - stale: the object was changed or deleted meanwhile (kube.IsStale). The event of that brings the next reconcile.
//   - exists: another object has the name (kube.IsNameTaken). Only creations meet it, so not here.
//   - refused: an admission webhook answers with that code (kube.IsWebhookConflict). No event follows, so the reconcile
//     fails and is retried with backoff.
//
// Each answer is in the caches when a method returns, and its echo does not wake the
// writer.
//
// The reconciler of instances uses only Release: it does not end with a refused write, but reports it in the instance's
// status beside everything else that keeps the instance from being ready or from being deleted.
package writer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Cluster writes to the API server. *kube.Client implements it.
type Cluster interface {
	SetFinalizers(ctx context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error)
	RemoveFinalizers(ctx context.Context, o *unstructured.Unstructured, finalizers []string, manager string) (*unstructured.Unstructured, error)
	WriteStatus(ctx context.Context, o *unstructured.Unstructured, status map[string]any, manager string) (*unstructured.Unstructured, error)
}

// Caches store the answers of writes. *watch.Hub implements it.
type Caches interface {
	Record(o *unstructured.Unstructured, writer watch.Subscriber)
	RecordGone(kind schema.GroupVersionKind, namespace, name, uid string, writer watch.Subscriber)
}

// Writer writes for one controller. It is safe for concurrent use.
type Writer struct {
	Cluster Cluster
	Caches  Caches
	Events  telemetry.Recorder
	// Manager is the field manager of all writes except writes of the status, which use StatusManager.
	Manager, StatusManager string
}

// Object is the object of one reconcile. It is not safe for concurrent use.
type Object struct {
	// Unstructured is the last known revision. It is shared with caches and must not be changed.
	*unstructured.Unstructured
	// Refusals records refused writes to the object, across reconciles. If nil, nothing is
	// recorded.
	Refusals *telemetry.WriteFailures
}

func (o *Object) subscriber() watch.Subscriber {
	return watch.Subscriber{Key: object.KeyOf(o.Unstructured)}
}

// AddFinalizers adds the finalizers that the object lacks. The result is final if the reconcile cannot go on.
func (w Writer) AddFinalizers(ctx context.Context, o *Object, finalizers ...string) reconcile.Result {
	next := slices.Clone(o.GetFinalizers())
	for _, f := range finalizers {
		if !slices.Contains(next, f) {
			next = append(next, f)
		}
	}
	if len(next) == len(o.GetFinalizers()) {
		return reconcile.Result{}
	}
	err := w.Write(o, func() (*unstructured.Unstructured, error) {
		return w.Cluster.SetFinalizers(ctx, o.Unstructured, next, w.Manager)
	})
	return w.resultOf(o, err, telemetry.FailedFinalizer, "add "+describeFinalizers(finalizers), "the object is not reconciled without it")
}

// RemoveFinalizers removes the finalizers that the object has. If none is left of an object that is being deleted, the
// object is gone. The result is final if the reconcile cannot go on.
func (w Writer) RemoveFinalizers(ctx context.Context, o *Object, finalizers ...string) reconcile.Result {
	_, err := w.Release(ctx, o, finalizers...)
	return w.resultOf(o, err, telemetry.FailedFinalizer, "remove "+describeFinalizers(finalizers), "the object is not deleted before that")
}

// Release is RemoveFinalizers for a reconcile that goes on with the error. It reports
// whether the object is gone: then it is gone from the caches too.
func (w Writer) Release(ctx context.Context, o *Object, finalizers ...string) (gone bool, err error) {
	has := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return !slices.Contains(o.GetFinalizers(), f) })
	if len(has) == 0 {
		return false, nil
	}
	answer, err := w.Cluster.RemoveFinalizers(ctx, o.Unstructured, has, w.Manager)
	if err != nil {
		return false, err
	}
	gone = len(answer.GetFinalizers()) == 0 && o.GetDeletionTimestamp() != nil
	if gone {
		w.Caches.RecordGone(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), string(o.GetUID()), o.subscriber())
	} else {
		w.Caches.Record(answer, o.subscriber())
	}
	o.Unstructured = answer
	return gone, nil
}

// WriteStatus replaces the object's status, unless it is the same already, but for fields that the API server does not
// store. The result is final if it could not be written.
func (w Writer) WriteStatus(ctx context.Context, o *Object, status map[string]any) (wrote bool, out reconcile.Result) {
	if object.Digest(o.Object["status"]) == object.Digest(status) {
		return false, reconcile.Result{}
	}
	before := o.Unstructured
	err := w.Write(o, func() (*unstructured.Unstructured, error) {
		return w.Cluster.WriteStatus(ctx, o.Unstructured, status, w.StatusManager)
	})
	out = w.resultOf(o, err, telemetry.FailedStatusUpdate, "write the status", "it is out of date")
	return err == nil && o.GetResourceVersion() != before.GetResourceVersion(), out
}

// Write makes another write to the object, and replaces it by the answer.
func (w Writer) Write(o *Object, do func() (*unstructured.Unstructured, error)) error {
	answer, err := do()
	if err != nil {
		return err
	}
	w.Caches.Record(answer, o.subscriber())
	o.Unstructured = answer
	return nil
}

// A permanent refusal is recorded as an event, once: the status of the object may be the very thing that cannot be
// written.
func (w Writer) resultOf(o *Object, err error, reason, what, consequence string) reconcile.Result {
	switch {
	case err == nil:
		if o.Refusals != nil {
			o.Refusals.Clear(reason)
		}
		return reconcile.Result{}
	case kube.IsStale(err):
		return reconcile.Conflict()
	case o.Refusals != nil && kube.IsPermanent(err):
		o.Refusals.Record(w.Events, o.Unstructured, reason, fmt.Sprintf("cannot %s, and %s: %s%s", what, consequence, kube.RedactedMessage(err), kube.Remedy(err)))
	}
	return reconcile.Fail(fmt.Errorf("%s: %w", what, kube.Redacted(err)))
}

func describeFinalizers(finalizers []string) string {
	if len(finalizers) == 1 {
		return "finalizer " + finalizers[0]
	}
	return "finalizers " + strings.Join(finalizers, ", ")
}
