package cli

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

func isSecret(gvk schema.GroupVersionKind) bool { return gvk.Group == "" && gvk.Kind == "Secret" }

// lookup reads what a composer needs from the API server or a record. Secrets are not read: each that is named exists,
// without data. Schemas are not read either: functions compose without them.
func (i instance) lookup(ctx context.Context, need plan.Need) plan.Lookup {
	switch {
	case need.Schema, isSecret(need.Kind) && need.Multiple:
		return plan.Lookup{}
	case isSecret(need.Kind) && !need.Scope:
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(need.Kind)
		o.SetNamespace(need.Namespace)
		o.SetName(need.Name)
		return plan.Lookup{Object: o}
	}
	mapping, err := i.mapping(need.Kind)
	if err != nil {
		return unreadableNow(err)
	}
	if need.Scope {
		return plan.Lookup{Namespaced: !reader.IsClusterScoped(mapping)}
	}
	if need.Multiple {
		found, err := i.List(ctx, reader.Query{Resource: mapping.Resource, Namespace: need.Namespace, Labels: need.Selector})
		if err != nil {
			return unreadableNow(err)
		}
		return plan.Lookup{Objects: found}
	}
	o, err := i.Client.Resource(mapping.Resource).Namespace(need.Namespace).Get(ctx, need.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return plan.Lookup{}
	case err != nil:
		return unreadableNow(err)
	}
	return plan.Lookup{Object: o}
}

func (i instance) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	return i.Kinds.RESTMapping(kind.GroupKind(), kind.Version)
}

func unreadableNow(err error) plan.Lookup {
	return plan.Lookup{Unreadable: &plan.Unreadable{Problem: plan.Problem{Reason: plan.Unavailable, Message: err.Error()}}}
}
