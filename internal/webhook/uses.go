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

// Book knows usages from watches, where this process works.
type Book interface {
	Of(object.Key) ([]usage.Use, *plan.Unreadable)
}

// Known tells of usages: from the book where that knows of any, and otherwise from the
// API server, so that a process that doesn't work, or has only just begun to, lets
// nothing go that is in use. What is labelled is nearly always in use.
type Known struct {
	Book    Book
	Cluster *kube.Client
}

// Of returns the usages that keep an object.
func (k Known) Of(ctx context.Context, o *unstructured.Unstructured) ([]usage.Use, error) {
	key := object.KeyOf(o)
	if uses, blind := k.Book.Of(key); blind == nil {
		if uses = holding(uses); len(uses) > 0 {
			return uses, nil
		}
	}
	var out []usage.Use
	for _, kind := range usage.Kinds {
		all, err := k.Cluster.List(ctx, kind, "")
		if kube.IsUnavailable(err) || kube.IsKindNotServed(err) {
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
			if u.Kin, err = k.kin(ctx, o, u); err != nil {
				return nil, err
			}
			out = append(out, u)
		}
	}
	return holding(out), nil
}

// kin finds out whether who uses an object is a part of it.
func (k Known) kin(ctx context.Context, o *unstructured.Unstructured, u usage.Use) (usage.Kin, error) {
	if u.By == nil || u.By.Name == "" {
		return usage.Apart, nil
	}
	var failed error
	get := func(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
		found, err := k.Cluster.Get(ctx, kind, namespace, name)
		if err != nil && !kube.IsObjectNotFound(err, name) && !kube.IsUnavailable(err) {
			failed = err
		}
		if err != nil {
			return nil
		}
		return found
	}
	kin := usage.KinOf(o, get(u.By.Kind, u.By.Namespace, u.By.Name), get)
	return kin, failed
}

func holding(uses []usage.Use) []usage.Use {
	var out []usage.Use
	for _, u := range uses {
		if u.Holds() && !u.Leaving {
			out = append(out, u)
		}
	}
	return out
}

// Tried notes on an object that somebody has tried to delete it, and by which policy.
func (k Known) Tried(ctx context.Context, o *unstructured.Unstructured, policy metav1.DeletionPropagation) error {
	if o.GetAnnotations()[v1beta1.DeletionAttemptAnnotation] == string(policy) {
		return nil
	}
	change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1beta1.DeletionAttemptAnnotation: string(policy)}}}
	_, err := k.Cluster.Mark(ctx, o, change, protection.Manager)
	return err
}
