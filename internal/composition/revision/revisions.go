package revision

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Revisions reconciles CompositionRevisions: it sets the condition ValidPipeline, and Ready, which is the same for
// tools that know only Ready.
type Revisions struct{ Config }

// Reasons of the condition, beside the dialect's.
const (
	// ReasonInvalid: the pipeline itself is invalid, or the input of a built-in function.
	ReasonInvalid = xrd.InvalidPipeline
	// ReasonUnknown: Functions cannot be read.
	ReasonUnknown = "FunctionsUnknown"
)

// Reconcile validates a revision's pipeline and its functions. Events of these functions
// enqueue the revision again.
func (r *Revisions) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	subscriber := watch.Subscriber{Key: key}
	raw, ok := r.Hub.GetCached(RevisionKind, key.Namespace, key.Name)
	if !ok || raw.GetDeletionTimestamp() != nil {
		r.Hub.Forget(subscriber)
		return reconcile.Done()
	}
	revision := &v1.CompositionRevision{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, revision); err != nil {
		return reconcile.Fail(fmt.Errorf("decode CompositionRevision %s: %w", key.Name, err))
	}
	lease := r.Hub.Begin(subscriber)
	defer lease.Commit()
	c := &v1.Composition{Spec: revision.Spec.CompositionSpec()}
	c.Name = revision.Labels[v1.CompositionNameLabel]
	functions, syncing := r.readFunctions(lease, c)
	if syncing {
		return reconcile.Done() // the lease enqueues the revision
	}
	inputs, known := r.inputProblems(c)
	if !known {
		return reconcile.Done() // the change of a function enqueues the revision
	}
	return r.report(ctx, raw, pipelineCondition(c, inputs, functions))
}

// inputProblems lists the problems of the inputs of functions. known is false while it is unknown what serves one of them.
func (r *Revisions) inputProblems(c *v1.Composition) (out diag.List, known bool) {
	if r.CheckInput == nil {
		return nil, true
	}
	for i, step := range c.Spec.Pipeline {
		at := object.Path("spec.pipeline").Index(i).Field("input")
		input, isObject := xrd.InputOf(step)
		if !isObject {
			out.Addf(at, "is not an object")
			continue
		}
		problems, known := r.CheckInput(step.FunctionRef.Name, input, i == 0, c.Spec.CompositeTypeRef.GroupVersionKind())
		if !known {
			return nil, false
		}
		out.Add(problems.Below(at)...)
	}
	return out, true
}

type knownFunctions struct {
	names []string
	// incapable are the pipeline's functions that lack the capability composition.
	incapable []string
	// unknown is why functions cannot be read; "" if they can.
	unknown string
}

// readFunctions reads the functions. syncing is true until the caches of the pipeline's
// functions are synced.
func (r *Revisions) readFunctions(lease *watch.Lease, c *v1.Composition) (out knownFunctions, syncing bool) {
	out.names = slices.Clone(r.Functions)
	for _, o := range r.Hub.Select(FunctionKind, "", labels.Everything()) {
		out.names = append(out.names, o.GetName())
	}
	for _, step := range c.Spec.Pipeline {
		name := step.FunctionRef.Name
		if name == "" || slices.Contains(r.Functions, name) {
			continue
		}
		_, state := lease.Object(FunctionKind, "", name)
		switch state.Phase {
		case watch.Synced:
		case watch.Unavailable:
			out.unknown = state.Message
		default:
			return out, true
		}
		if r.cannotCompose(lease, name) {
			out.incapable = append(out.incapable, name)
		}
	}
	return out, false
}

// composes: compositions may call a function with this capability.
const composes = "composition"

// cannotCompose reports whether the active revision of a function has capabilities without composition.
func (r *Revisions) cannotCompose(lease *watch.Lease, function string) bool {
	all, _ := lease.Matching(FunctionRevisionKind, "", labels.SelectorFromSet(labels.Set{pkgv1.PackageLabel: function}))
	for _, o := range all {
		state, _, _ := unstructured.NestedString(o.Object, "spec", "desiredState")
		capabilities, _, _ := unstructured.NestedStringSlice(o.Object, "status", "capabilities")
		if state == string(pkgv1.RevisionActive) && len(capabilities) > 0 && !slices.Contains(capabilities, composes) {
			return true
		}
	}
	return false
}

// pipelineCondition is the condition ValidPipeline, with all problems of the pipeline and of the inputs of its functions.
func pipelineCondition(c *v1.Composition, inputs diag.List, f knownFunctions) v1alpha1.Condition {
	out := v1alpha1.Condition{Type: v1.TypeValidPipeline, Status: condition.True, Reason: v1.ReasonValidPipeline}
	invalid := append(xrd.ValidateComposition(c), inputs...)
	var lacking diag.List
	if f.unknown == "" {
		lacking = xrd.UnknownFunctions(c, f.names)
	}
	for i, step := range c.Spec.Pipeline {
		if slices.Contains(f.incapable, step.FunctionRef.Name) {
			lacking.Addf(object.Path("spec.pipeline").Index(i).Field("functionRef", "name"), "function %s does not have the capability composition",
				step.FunctionRef.Name)
		}
	}
	switch problems := slices.Concat(invalid, lacking).Sorted(); {
	case len(invalid) > 0:
		out.Status, out.Reason, out.Message = condition.False, ReasonInvalid, problems.Err().Error()
	case len(lacking) > 0:
		out.Status, out.Reason, out.Message = condition.False, v1.ReasonMissingCapabilities, problems.Err().Error()
	case f.unknown != "":
		out.Status, out.Reason, out.Message = condition.Unknown, ReasonUnknown, "cannot read the functions of the cluster: "+f.unknown
	}
	return out
}

// maxMessageLength is in bytes.
const maxMessageLength = 32768

// report writes the condition if it changed, and records an event if it became False.
func (r *Revisions) report(ctx context.Context, raw *unstructured.Unstructured, c v1alpha1.Condition) reconcile.Result {
	c.Message, c.ObservedGeneration = diag.TruncateLines(c.Message, maxMessageLength), raw.GetGeneration()
	before := condition.Read(raw)
	ready := c
	ready.Type = v1.TypeReady
	conditions := before.Mark(c, r.Now()).Mark(ready, r.Now()).MarkProgress(condition.ProgressOf(ready, true), raw.GetGeneration(), r.Now())
	status := map[string]any{"conditions": conditions.Unstructured(), "observedGeneration": raw.GetGeneration()}
	if object.Digest(raw.Object["status"]) == object.Digest(status) {
		return reconcile.Done()
	}
	// The write isn't recorded as an own write: other subscribers of the kind need its event.
	_, err := r.Cluster.WriteStatus(ctx, raw, status, Manager)
	if kube.IsStale(err) {
		return reconcile.Conflict()
	}
	if err != nil {
		return reconcile.Fail(fmt.Errorf("write status: %w", err))
	}
	was, _ := before.Get(c.Type)
	if c.Status == condition.False && (was.Status != c.Status || was.Reason != c.Reason) {
		r.Events.Event(raw, telemetry.Warning, c.Reason, c.Message)
	}
	return reconcile.Done()
}
