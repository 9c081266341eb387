package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/serving/ending"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// DeleteInUseAnnotation, with the value true, is set by users on a package: it is deleted although it is in use, and the
// instances of its kinds with it.
const DeleteInUseAnnotation = "espalier.dev/delete-in-use"

var (
	compositionKind = apiextensions.GroupVersion.WithKind(apiextensions.CompositionKind)
	definitionKind  = apiextensions.GroupVersion.WithKind(apiextensions.DefinitionKind).GroupKind()
	graphKind       = v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGraphDefinitionKind).GroupKind()
)

// use is a kind with objects that need a package.
type use struct {
	kind    schema.GroupVersionKind
	objects []*unstructured.Unstructured
	// unknown is why the objects cannot be read.
	unknown string
}

// remove removes the finalizer of a deleted package that is not in use. Each change of a use brings the next reconcile.
func (r *Packages) remove(ctx context.Context, s *packageState) reconcile.Result {
	has := s.raw.GetFinalizers()
	if !slices.Contains(has, v1.Finalizer) {
		return reconcile.Done()
	}
	if r.Crossplane == nil || !r.Crossplane.IsRunning(ctx) { // which has no such finalizer, and deletes the package as ever
		if out, waits := r.suspended(ctx, s.raw); waits {
			return out
		}
		if slices.Contains(has, metav1.FinalizerOrphanDependents) {
			return reconcile.Done() // the garbage collector removes the owner references first
		}
		if s.raw.GetAnnotations()[DeleteInUseAnnotation] != "true" {
			if out := r.awaitUses(ctx, s); out.IsFinal() {
				return out
			}
		}
	}
	r.reported.Delete(s.key)
	return r.writer().RemoveFinalizers(ctx, s.raw, v1.Finalizer).OrDone()
}

// awaitUses ends the reconcile while the package is in use. The caches can be behind what a user has created a moment ago.
func (r *Packages) awaitUses(ctx context.Context, s *packageState) reconcile.Result {
	uses, known, err := r.findUses(s)
	switch {
	case err != nil:
		return reconcile.Fail(err)
	case !known:
		return reconcile.Done()
	}
	for _, u := range uses {
		if len(u.objects) > 0 || u.unknown != "" {
			return r.reportUses(ctx, s, uses)
		}
	}
	for _, u := range uses {
		left, err := r.Cluster.List(ctx, u.kind, "")
		switch {
		case kube.IsNoKindMatch(err) || kube.IsKindNotServed(err):
		case err != nil:
			return reconcile.Fail(err)
		case slices.ContainsFunc(left, func(o unstructured.Unstructured) bool { return u.kind != compositionKind || calls(&o, s.key.Name) }):
			return reconcile.RequeueAfter(lateRetry)
		}
	}
	return reconcile.Result{}
}

// lateRetry is when a package is reconciled again that is used by what is not in the cache, if its event does not do that before.
const lateRetry = time.Second

// findUses returns the kinds with and without objects, and false until all are known.
func (r *Packages) findUses(s *packageState) (uses []use, known bool, err error) {
	if r.Kind.Kind == v1.FunctionKind {
		return r.findCompositions(s)
	}
	if known, err = r.readRevisions(s); err != nil || !known {
		return nil, false, err
	}
	crds, known, err := r.installedCRDs(s)
	if err != nil || !known {
		return nil, false, err
	}
	for _, c := range crds {
		u := use{kind: crd.GroupKind(c).WithVersion("")}
		i := slices.IndexFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
		if i < 0 {
			u.unknown = "CustomResourceDefinition " + c.Name + " serves no version"
			uses = append(uses, u)
			continue
		}
		var state watch.State
		u.kind.Version = c.Spec.Versions[i].Name
		u.objects, state = s.lease.Matching(u.kind, "", labels.Everything())
		switch {
		case state.Phase == watch.Unavailable && state.Reason != watch.WaitingForKind:
			u.unknown = state.Message
		case state.Phase != watch.Synced && state.Reason != watch.WaitingForKind:
			known = false // the others are watched, too
		}
		uses = append(uses, u)
	}
	return uses, known, nil
}

// findCompositions finds the Compositions that call a function.
func (r *Packages) findCompositions(s *packageState) (uses []use, known bool, err error) {
	all, state := s.lease.Matching(compositionKind, "", labels.Everything())
	switch {
	case state.Reason == watch.WaitingForKind:
		return nil, true, nil
	case state.Phase != watch.Synced:
		return nil, false, unavailable(state, "Compositions")
	}
	u := use{kind: compositionKind}
	for _, o := range all {
		if calls(o, s.key.Name) {
			u.objects = append(u.objects, o)
		}
	}
	return []use{u}, true, nil
}

// calls reports whether a Composition calls a function.
func calls(composition *unstructured.Unstructured, function string) bool {
	steps, _, _ := unstructured.NestedSlice(composition.Object, "spec", "pipeline")
	return slices.ContainsFunc(steps, func(step any) bool {
		m, _ := step.(map[string]any)
		return stringAt(m, "functionRef", "name") == function
	})
}

// installedCRDs are the CustomResourceDefinitions that the garbage collector would delete with a package, and those of the
// definitions that it would.
func (r *Packages) installedCRDs(s *packageState) (all []*apiextensionsv1.CustomResourceDefinition, known bool, err error) {
	owners := map[types.UID]bool{s.raw.GetUID(): true}
	isOwned := func(refs []metav1.OwnerReference) bool {
		return slices.ContainsFunc(refs, func(o metav1.OwnerReference) bool { return owners[o.UID] })
	}
	var installed []v1.ObjectRef
	for _, one := range s.revisions {
		if isOwned(one.OwnerReferences) { // otherwise it was orphaned
			owners[one.UID] = true
			installed = append(installed, one.Status.ObjectRefs...)
		}
	}
	type definition struct {
		schema.GroupKind
		name string
	}
	definitions := map[definition]bool{}
	known = true
	for _, ref := range installed {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		if kind.GroupKind() != definitionKind && kind.GroupKind() != graphKind {
			continue
		}
		o, state := s.lease.Object(kind, "", ref.Name)
		if state.Phase != watch.Synced && state.Reason != watch.WaitingForKind {
			known, err = false, unavailable(state, kind.Kind+"s")
		} else if o != nil && isOwned(o.GetOwnerReferences()) {
			definitions[definition{kind.GroupKind(), ref.Name}] = true
		}
	}
	return r.CRDs.ListCRDs(func(c *apiextensionsv1.CustomResourceDefinition) bool {
		graph, ofGraph := crd.Owner(c)
		owner := metav1.GetControllerOfNoCopy(c)
		return isOwned(c.OwnerReferences) || ofGraph && graph.Namespace == "" && definitions[definition{graphKind, graph.Name}] ||
			owner != nil && definitions[definition{schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind(), owner.Name}]
	}), known, err
}

// reportUses says in the status what a deleted package waits for. A large count is written now and then.
func (r *Packages) reportUses(ctx context.Context, s *packageState, uses []use) reconcile.Result {
	reason, message, count := describeUses(uses)
	count.At = r.Now()
	if before, ok := r.reported.Load(s.key); ok {
		if wait := count.Due(before.(ending.Count), r.Now()); wait > 0 {
			return reconcile.RequeueAfter(wait)
		}
	}
	set := condition.Read(s.raw.Unstructured)
	was, _ := set.Get(typeReady)
	set = set.Mark(v1alpha1.Condition{Type: typeReady, Status: condition.False, Reason: reason, Message: message, ObservedGeneration: s.raw.GetGeneration()}, r.Now())
	status := maps.Clone(statusOf(s.raw.Object))
	status["conditions"] = set.MarkProgress(condition.Progress{}, s.raw.GetGeneration(), r.Now()).Unstructured()
	about := s.raw.Unstructured
	_, out := r.writer().WriteStatus(ctx, s.raw, status)
	if out.IsFinal() {
		return out
	}
	if was.Reason != reason {
		r.Events.Event(about, telemetry.Warning, reason, message)
	}
	r.reported.Store(s.key, count)
	return reconcile.Done()
}

// maxNamed limits the objects of a kind, and the kinds, that a message names.
const maxNamed = 5

func describeUses(uses []use) (reason, message string, count ending.Count) {
	reason = v1alpha1.ReasonInstancesRemain
	slices.SortFunc(uses, func(a, b use) int { return strings.Compare(a.kind.String(), b.kind.String()) })
	var parts []string
	for _, u := range uses {
		count.N += len(u.objects)
		switch {
		case u.unknown != "":
			reason, count.Unknown = v1alpha1.ReasonInstancesUnknown, u.unknown
			parts = append(parts, fmt.Sprintf("cannot determine whether objects of kind %s remain: %s", u.kind.Kind, u.unknown))
		case len(u.objects) > 0:
			parts = append(parts, u.kind.Kind+" "+namesOf(u.objects))
		}
	}
	if more := len(parts) - maxNamed; more > 0 {
		parts = append(parts[:maxNamed], fmt.Sprintf("and %d more kinds", more))
	}
	return reason, fmt.Sprintf("the package is in use: %s. It is deleted once these are gone, or with the instances of its kinds if the annotation %s is \"true\"",
		strings.Join(parts, "; "), DeleteInUseAnnotation), count
}

func namesOf(objects []*unstructured.Unstructured) string {
	var names []string
	for _, o := range objects[:min(len(objects), maxNamed)] {
		names = append(names, serving.NameOf(o))
	}
	text := strings.Join(names, ", ")
	if more := len(objects) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
