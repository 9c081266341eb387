package webhook

import (
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
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

// Cluster reads objects of the API server, and writes metadata.
type Cluster interface {
	Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	List(ctx context.Context, gvk schema.GroupVersionKind, selector string) ([]unstructured.Unstructured, error)
	PatchMetadata(ctx context.Context, o *unstructured.Unstructured, change map[string]any, manager string) (*unstructured.Unstructured, error)
}

// Refusals record refused deletions, which may be replayed; protection.RefusedDeletions do.
type Refusals interface {
	Record(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation, user authenticationv1.UserInfo) error
}

// ClusterUsages looks up usages in the index, and lists them from the API server if the index has none: a process
// that is not the leader, or has only just become it, must not allow the deletion of an object in use. The list is
// rare, because labelled objects nearly always have usages. Requests that arrive together share one, because any
// client that reaches the webhook can send any name.
type ClusterUsages struct {
	index    Index
	cluster  Cluster
	refusals Refusals
	usages   sharedRead[map[usedName][]usage.Usage]
	rate     flowcontrol.RateLimiter // of single reads
}

// NewClusterUsages returns a lookup that has read nothing yet.
func NewClusterUsages(index Index, cluster Cluster, refusals Refusals) *ClusterUsages {
	k := &ClusterUsages{index: index, cluster: cluster, refusals: refusals, rate: flowcontrol.NewTokenBucketRateLimiter(maxSingleReads, maxSingleReadBurst)}
	k.usages.read = k.list
	return k
}

// usedName is an object without its namespace: a usage might not know whether its kind has one.
type usedName struct {
	schema.GroupKind
	name string
}

// UsesOf returns the usages that block the deletion of an object. Only the kind, the namespace and
// the name are taken from it.
func (k *ClusterUsages) UsesOf(ctx context.Context, o *unstructured.Unstructured) ([]usage.Usage, error) {
	key := object.KeyOf(o)
	if uses, unreadable := k.index.UsesOf(key); unreadable == nil {
		if uses = blocking(uses); len(uses) > 0 {
			return uses, nil
		}
	}
	all, err := k.usages.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list usages: %w", err)
	}
	var out []usage.Usage
	for _, u := range all[usedName{key.GroupKind(), key.Name}] {
		if !u.Uses(key) {
			continue
		}
		if u.Relation, err = k.findRelation(ctx, key, u); err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return blocking(out), nil
}

func (k *ClusterUsages) list(ctx context.Context) (map[usedName][]usage.Usage, error) {
	out := map[usedName][]usage.Usage{}
	for _, kind := range usage.Kinds {
		all, err := k.cluster.List(ctx, kind, "")
		if kube.IsNoKindMatch(err) || kube.IsKindNotServed(err) {
			continue // there are none
		}
		if err != nil {
			return nil, err
		}
		for i := range all {
			if u, ok := usage.Read(&all[i]); ok {
				name := usedName{u.Of.Kind.GroupKind(), u.Of.Name}
				out[name] = append(out[name], u)
			}
		}
	}
	return out, nil
}

// findRelation finds how the using object is related to the used one, both as the API server has them: any client may
// have sent the request.
func (k *ClusterUsages) findRelation(ctx context.Context, key object.Key, u usage.Usage) (usage.Relation, error) {
	if u.By == nil || u.By.Name == "" {
		return usage.Unrelated, nil
	}
	var getErr error
	get := func(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
		if err := k.rate.Wait(ctx); err != nil {
			getErr = fmt.Errorf("more than %d reads a second: %w", maxSingleReads, err)
			return nil
		}
		found, err := k.cluster.Get(ctx, kind, namespace, name)
		if err != nil && !kube.IsObjectNotFound(err, name) && !kube.IsNoKindMatch(err) {
			getErr = err
		}
		if err != nil {
			return nil
		}
		return found
	}
	by := get(u.By.Kind, u.By.Namespace, u.By.Name)
	if by == nil || by.GetNamespace() != u.By.Namespace {
		return usage.Unrelated, getErr // a Usage of a namespace names no cluster-scoped object
	}
	relation := usage.RelationOf(get(u.Of.Kind, key.Namespace, key.Name), by, inventory.InstanceOf, get)
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

// RecordDeletionAttempt writes the propagation policy of a refused deletion into an annotation of the object. The
// record that counts is a RefusedDeletion, because other users may write the object. It is written before, and only
// if one of the usages replays deletions.
func (k *ClusterUsages) RecordDeletionAttempt(ctx context.Context, o *unstructured.Unstructured, attempt Attempt, uses []usage.Usage) error {
	if slices.ContainsFunc(uses, func(u usage.Usage) bool { return u.Replay }) {
		if err := k.refusals.Record(ctx, o, attempt.Policy, attempt.User); err != nil {
			return err
		}
	}
	if o.GetAnnotations()[v1beta1.DeletionAttemptAnnotation] == string(attempt.Policy) {
		return nil
	}
	change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1beta1.DeletionAttemptAnnotation: string(attempt.Policy)}}}
	_, err := k.cluster.PatchMetadata(ctx, o, change, protection.FieldManager)
	return err
}
