package cli

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// compositionRevisionsOf lists the revisions of a composition. It also returns the resource version of the list.
func compositionRevisionsOf(ctx context.Context, client dynamic.Interface, composition string) (out []*v1.CompositionRevision, version string, err error) {
	list, err := client.Resource(v1.GroupVersion.WithResource("compositionrevisions")).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{v1.CompositionNameLabel: composition}.String(),
	})
	if err != nil {
		return nil, "", fmt.Errorf("read the revisions of composition %s: %w", composition, err)
	}
	for _, o := range list.Items {
		one := &v1.CompositionRevision{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, one); err != nil {
			return nil, "", fmt.Errorf("decode CompositionRevision %s: %w", o.GetName(), err)
		}
		out = append(out, one)
	}
	return out, list.GetResourceVersion(), nil
}

// changed takes a revision of the composition as it is now.
func (v *versioned) changed(o *unstructured.Unstructured) error {
	one := &v1.CompositionRevision{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, one); err != nil {
		return fmt.Errorf("decode CompositionRevision %s: %w", o.GetName(), err)
	}
	v.revisions = append(slices.DeleteFunc(v.revisions, func(r *v1.CompositionRevision) bool { return r.Name == one.Name }), one)
	return nil
}

// graphRevisions are the revisions of a composition with what a rollback reads of them.
func graphRevisions(of []*v1.CompositionRevision) (out []*rev.GraphRevision) {
	for _, r := range of {
		one := &rev.GraphRevision{ObjectMeta: metav1.ObjectMeta{Name: r.Name, DeletionTimestamp: r.DeletionTimestamp}}
		one.Spec.Revision = r.Spec.Revision
		if valid, known := condition.Set(r.Status.Conditions).Get(v1.TypeValidPipeline); known {
			valid.Type = rev.GraphVerified
			one.Status.Conditions = []v1alpha1.Condition{valid}
		}
		out = append(out, one)
	}
	revision.Sort(out)
	return out
}

// withStatus returns a composition with the status that a definition has: which revision serves, and which is rolled out. Without a
// recorded state, that is the newest one.
func withStatus(composition *unstructured.Unstructured, revisions []*v1.CompositionRevision) (*unstructured.Unstructured, error) {
	c := &v1.Composition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(composition.Object, c); err != nil {
		return nil, fmt.Errorf("decode composition %s: %w", composition.GetName(), err)
	}
	rollout, asked := xrd.RolloutOf(c, revisions)
	state := rollout.State
	if newest := revision.Newest(graphRevisions(revisions)); state.Serving == 0 && !asked && newest != nil {
		state.Serving = newest.Spec.Revision
	}
	resolved := v1alpha1.Condition{Type: v1alpha1.DefinitionRevisionsResolved, Status: condition.Unknown}
	switch {
	case len(rollout.Problems) > 0:
		resolved.Status, resolved.Reason, resolved.Message = condition.False, "InvalidRollout", rollout.Problems.Err().Error()
	case state.Serving != 0 && state.Rolling() == 0:
		resolved.Status = condition.True
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.DefinitionStatus{
		ServingRevision: state.Serving, Rollout: state.Rollout, Conditions: []v1alpha1.Condition{resolved},
	})
	if err != nil {
		return nil, err
	}
	out := composition.DeepCopy()
	out.Object["status"] = status
	return out, nil
}
