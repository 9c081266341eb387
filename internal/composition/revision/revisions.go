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
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Revisions tells of revisions whether their pipelines can run.
type Revisions struct{ Config }

// Reasons of the condition, beside the dialect's.
const (
	// ReasonInvalid: the pipeline itself makes no sense.
	ReasonInvalid = "InvalidPipeline"
	// ReasonUnknown: it can't be told which functions there are.
	ReasonUnknown = "FunctionsUnknown"
)

// Reconcile looks at a revision and at the functions of its pipeline, whose events bring
// the next look.
func (r *Revisions) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	subscriber := watch.Subscriber{Key: key}
	raw, ok := r.Hub.Served(RevisionKind, key.Namespace, key.Name)
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
	c := &v1.Composition{Spec: revision.Spec.Composition()}
	c.Name = revision.Labels[v1.CompositionNameLabel]
	functions, syncing := r.readFunctions(lease, c)
	if syncing {
		return reconcile.Done() // the lease wakes the revision
	}
	return r.report(ctx, raw, pipelineCondition(c, functions))
}

// knownFunctions are what is known of the functions of a pipeline.
type knownFunctions struct {
	// names are those of all functions that there are.
	names []string
	// incapable are those that can't compose.
	incapable []string
	// unknown is why it can't be told; "" if it can.
	unknown string
}

// readFunctions reads what there is of a pipeline's functions. While that is being read for
// the first time it is syncing.
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

// composes is what a function says that it can do if compositions may call it.
const composes = "composition"

// cannotCompose says whether the active revision of a function says what it can do, and
// composing isn't among it.
func (r *Revisions) cannotCompose(lease *watch.Lease, function string) bool {
	all, _ := lease.Matching(FunctionRevisionKind, "", labels.SelectorFromSet(labels.Set{pkgv1.PackageLabel: function}))
	for _, o := range all {
		state, _, _ := unstructured.NestedString(o.Object, "spec", "desiredState")
		can, _, _ := unstructured.NestedStringSlice(o.Object, "status", "capabilities")
		if state == string(pkgv1.RevisionActive) && len(can) > 0 && !slices.Contains(can, composes) {
			return true
		}
	}
	return false
}

// pipelineCondition says whether a pipeline can run, with all that is in its way.
func pipelineCondition(c *v1.Composition, f knownFunctions) v1alpha1.Condition {
	out := v1alpha1.Condition{Type: v1.TypeValidPipeline, Status: condition.True, Reason: v1.ReasonValidPipeline}
	invalid := xrd.ValidateComposition(c)
	var lacking diag.List
	if f.unknown == "" {
		lacking = xrd.UnknownFunctions(c, f.names)
	}
	for i, step := range c.Spec.Pipeline {
		if slices.Contains(f.incapable, step.FunctionRef.Name) {
			lacking.Addf(object.Path("spec.pipeline").Index(i).Field("functionRef", "name"), "function %s says that it isn't for compositions", step.FunctionRef.Name)
		}
	}
	switch problems := slices.Concat(invalid, lacking).Sorted(); {
	case len(invalid) > 0:
		out.Status, out.Reason, out.Message = condition.False, ReasonInvalid, problems.Err().Error()
	case len(lacking) > 0:
		out.Status, out.Reason, out.Message = condition.False, v1.ReasonMissingCapabilities, problems.Err().Error()
	case f.unknown != "":
		out.Status, out.Reason, out.Message = condition.Unknown, ReasonUnknown, "it can't be told which functions there are: "+f.unknown
	}
	return out
}

// longestMessage is what a condition's message may hold.
const longestMessage = 32768

// report writes the verdict, if it is news, and tells of it as an event, if it is bad news.
func (r *Revisions) report(ctx context.Context, raw *unstructured.Unstructured, c v1alpha1.Condition) reconcile.Result {
	c.Message, c.ObservedGeneration = diag.Cut(c.Message, longestMessage), raw.GetGeneration()
	before := condition.Read(raw)
	status := map[string]any{"conditions": before.Mark(c, r.Now()).Unstructured()}
	if object.Digest(raw.Object["status"]) == object.Digest(status) {
		return reconcile.Done()
	}
	// The answer isn't recorded as this revision's own: others who serve the kind have to be
	// told of it, too.
	_, err := r.Cluster.WriteStatus(ctx, raw, status, Manager)
	if kube.IsGone(err) {
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
