package webhook

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/protection"
)

// Index knows the usages of objects from watches, which run in the leader only.
type Index interface {
	UsesOf(object.Key) ([]usage.Usage, *plan.Unreadable)
}

// ClusterUsages looks up usages in the index, and lists them from the API server if the index
// has none: a process that is not the leader, or has only just become it, must not allow the
// deletion of an object in use. The list is rare, since labelled objects nearly always have
// usages.
type ClusterUsages struct {
	Index   Index
	Cluster *kube.Client
}

// UsesOf returns the usages that block the deletion of an object.
func (k ClusterUsages) UsesOf(ctx context.Context, o *unstructured.Unstructured) ([]usage.Usage, error) {
	key := object.KeyOf(o)
	if uses, unreadable := k.Index.UsesOf(key); unreadable == nil {
		if uses = blocking(uses); len(uses) > 0 {
			return uses, nil
		}
	}
	var out []usage.Usage
	for _, kind := range usage.Kinds {
		all, err := k.Cluster.List(ctx, kind, "")
		if kube.IsNoKindMatch(err) || kube.IsKindNotServed(err) {
			continue // there are none
		}
		if err != nil {
			return nil, err
		}
		for i := range all {
			u, ok := usage.Read(&all[i])
			if !ok || !u.Of.Is(key) {
				continue
			}
			if u.Relation, err = k.findRelation(ctx, o, u); err != nil {
				return nil, err
			}
			out = append(out, u)
		}
	}
	return blocking(out), nil
}

// findRelation finds how the using object is related to the used one.
func (k ClusterUsages) findRelation(ctx context.Context, o *unstructured.Unstructured, u usage.Usage) (usage.Relation, error) {
	if u.By == nil || u.By.Name == "" {
		return usage.Unrelated, nil
	}
	var getErr error
	get := func(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
		found, err := k.Cluster.Get(ctx, kind, namespace, name)
		if err != nil && !kube.IsObjectNotFound(err, name) && !kube.IsNoKindMatch(err) {
			getErr = err
		}
		if err != nil {
			return nil
		}
		return found
	}
	relation := usage.RelationOf(o, get(u.By.Kind, u.By.Namespace, u.By.Name), get)
	return relation, getErr
}

func blocking(uses []usage.Usage) []usage.Usage {
	var out []usage.Usage
	for _, u := range uses {
		if u.Blocks() && !u.Released {
			out = append(out, u)
		}
	}
	return out
}

// RecordDeletionAttempt writes the propagation policy of a denied deletion into an annotation
// of the object.
func (k ClusterUsages) RecordDeletionAttempt(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) error {
	if o.GetAnnotations()[v1beta1.DeletionAttemptAnnotation] == string(policy) {
		return nil
	}
	change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1beta1.DeletionAttemptAnnotation: string(policy)}}}
	_, err := k.Cluster.PatchMetadata(ctx, o, change, protection.FieldManager)
	return err
}
