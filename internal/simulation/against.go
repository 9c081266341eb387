package simulation

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// against is a revision that a preview compares with: the object that it is a revision of, as it is, as it would
// be for that revision to compose the instances, and as the revision has it.
type against struct {
	revision              string
	resource              schema.GroupVersionResource
	live, serving, before *unstructured.Unstructured
	// rollout is the spec.rollout that the object has with the files, once it is left out.
	rollout any
}

// findAgainst reads the revision of a graph definition or of a Composition.
func findAgainst(ctx context.Context, client dynamic.Interface, name string) (*against, error) {
	graph, err := client.Resource(rev.GroupVersion.WithResource("graphrevisions")).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return againstGraph(ctx, client, graph)
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read GraphRevision %s: %w", name, err)
	}
	composition, err := client.Resource(apiextensions.GroupVersion.WithResource("compositionrevisions")).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no GraphRevision and no CompositionRevision %s; 'kubectl get graphrevisions,compositionrevisions' lists them", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read CompositionRevision %s: %w", name, err)
	}
	return againstComposition(ctx, client, composition)
}

// againstGraph has a definition rolled back to a revision, which composes the instances at once then, without a
// rollout.
func againstGraph(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) (*against, error) {
	of := &rev.GraphRevision{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, of); err != nil {
		return nil, fmt.Errorf("decode GraphRevision %s: %w", o.GetName(), err)
	}
	if verified, _ := condition.Set(of.Status.Conditions).Get(rev.GraphVerified); verified.Status == condition.False {
		return nil, fmt.Errorf("GraphRevision %s cannot serve: %s", o.GetName(), verified.Message)
	}
	number, snapshot := strconv.FormatInt(of.Spec.Revision, 10), of.Spec.Snapshot
	out := &against{revision: "revision " + number + " of " + snapshot.Name, resource: v1alpha1.GroupVersion.WithResource("resourcegraphdefinitions")}
	if snapshot.Namespace != "" {
		out.resource.Resource = "resourcegroups"
	}
	if err := out.read(ctx, client, snapshot.Namespace, snapshot.Name); err != nil {
		return nil, err
	}
	annotations := out.serving.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, v1alpha1.RollbackFromAnnotation)
	annotations[v1alpha1.RollbackAnnotation] = number
	out.serving.SetAnnotations(annotations)
	spec, found, _ := unstructured.NestedMap(o.Object, "spec", "snapshot", "spec")
	if found {
		for _, field := range revision.UseFields {
			if value, ok := out.live.Object["spec"].(map[string]any)[field]; ok {
				spec[field] = value
			}
		}
		out.before.Object["spec"] = spec
	}
	return out, nil
}

// againstComposition has a Composition as it was at a revision.
func againstComposition(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) (*against, error) {
	name := o.GetLabels()[apiextensions.CompositionNameLabel]
	number, _, _ := unstructured.NestedInt64(o.Object, "spec", "revision")
	out := &against{revision: fmt.Sprintf("revision %d of %s", number, name), resource: apiextensions.GroupVersion.WithResource("compositions")}
	if err := out.read(ctx, client, "", name); err != nil {
		return nil, err
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	delete(spec, "revision")
	out.serving.Object["spec"], out.before.Object["spec"] = spec, runtime.DeepCopyJSON(spec)
	return out, nil
}

// read reads the object that the revision is one of.
func (a *against) read(ctx context.Context, client dynamic.Interface, namespace, name string) error {
	live, err := client.Resource(a.resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read %s %s, whose %s the plan compares with: %w", a.resource.Resource, strings.TrimPrefix(namespace+"/"+name, "/"), a.revision, err)
	}
	a.live, a.serving, a.before = live, live.DeepCopy(), live.DeepCopy()
	return nil
}

// apply has the revision compose the instances.
func (a *against) apply(ctx context.Context, client dynamic.Interface) error {
	return a.update(ctx, client, a.serving)
}

// restore has the object compose the instances as it does in the cluster.
func (a *against) restore(ctx context.Context, client dynamic.Interface) error {
	return a.update(ctx, client, a.live)
}

// endRollout has all instances updated at once, since the plan is of what the files change in the end and not of the first
// wave. It says whether there is a rollout.
func (a *against) endRollout(ctx context.Context, client dynamic.Interface) (ended bool, err error) {
	if a.rollout != nil {
		return false, nil
	}
	now, err := client.Resource(a.resource).Namespace(a.live.GetNamespace()).Get(ctx, a.live.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("compare with %s: %w", a.revision, err)
	}
	rollout, found, _ := unstructured.NestedFieldCopy(now.Object, "spec", "rollout")
	if !found {
		return false, nil
	}
	a.rollout = rollout
	next := now.DeepCopy()
	unstructured.RemoveNestedField(next.Object, "spec", "rollout")
	return true, a.update(ctx, client, next)
}

// withRollout returns the object as it is with the files.
func (a *against) withRollout(o *unstructured.Unstructured) *unstructured.Unstructured {
	if a.rollout == nil || o == nil {
		return o
	}
	out := o.DeepCopy()
	out.Object["spec"].(map[string]any)["rollout"] = a.rollout
	return out
}

func (a *against) update(ctx context.Context, client dynamic.Interface, to *unstructured.Unstructured) error {
	of := client.Resource(a.resource).Namespace(to.GetNamespace())
	now, err := of.Get(ctx, to.GetName(), metav1.GetOptions{})
	if err == nil {
		next := now.DeepCopy()
		next.SetAnnotations(to.GetAnnotations())
		next.Object["spec"] = runtime.DeepCopyJSONValue(to.Object["spec"])
		_, err = of.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("compare with %s: %w", a.revision, err)
	}
	return nil
}

// isMoved says whether a change is that of a revision that the comparison itself moves: a Composition that
// has the spec of an older revision again gives it the newest number.
func (a *against) isMoved(before, after *unstructured.Unstructured) bool {
	return before != nil && after != nil && after.GetKind() == apiextensions.CompositionRevisionKind
}
