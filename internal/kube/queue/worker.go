package queue

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

func (e *Engine) reconcile(w work) {
	c, key := w.queue.controller, w.key()
	ctx, cancel := context.WithTimeout(c.ctx, cmp.Or(e.Timeouts[c.Kind.GroupKind()], e.Timeout))
	defer cancel()
	began := time.Now()
	ctx, span := e.Tracer.StartReconcile(ctx, c.Kind, key, w.request.causes, began.Sub(w.request.since))
	log := span.Logger(e.Log.WithValues(tracing.KeyKind, key.Kind, tracing.KeyNamespace, key.Namespace, tracing.KeyName, key.Name))
	ctx = logr.NewContext(ctx, log)
	if e.Context != nil {
		ctx = e.Context(ctx, c.Kind, w.namespace)
	}
	out := recoverPanics(WithCalling(ctx, w.Calling), c.reconciler, key)
	span.End(out)
	if e.Observe != nil {
		e.Observe(reconcile.Run{
			Kind: c.Kind, Key: key, Waited: began.Sub(w.request.since), Began: began, Took: time.Since(began), Result: out,
		})
	}
	if out.Err == nil {
		if !out.Pending {
			w.Forget()
		}
		if out.RequeueAfter > 0 {
			w.queue.AddAfter(key, out.RequeueAfter, watch.Background, span.Later())
		}
		return
	}
	if !c.isStopping() {
		log.Error(out.Err, "reconcile failed; it is repeated with a growing delay")
	}
	w.request.causes = span.Retried(w.request.causes)
	w.AddRateLimited(max(out.RequeueAfter, suggestedDelay(out.Err)))
}

// suggestedDelay is the delay that the API server asks for with a refusal while it is busy, before the request is repeated.
// The client has repeated it a few times by then.
func suggestedDelay(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// isStopping reports whether the controller or the whole engine is being stopped. Failures do
// not matter then: the reconcile was cancelled, or a successor meets them again.
func (c *Controller) isStopping() bool { return c.stopping.Load() || c.ctx.Err() != nil }

// recoverPanics turns a panic into a failure: a bug in the reconcile of one object must not
// stop all others.
func recoverPanics(ctx context.Context, r Reconciler, key object.Key) (out reconcile.Result) {
	defer func() {
		if p := recover(); p != nil {
			out = reconcile.Fail(fmt.Errorf("%s\n%s", diag.Panic(p), debug.Stack()))
		}
	}()
	return r.Reconcile(ctx, key)
}
