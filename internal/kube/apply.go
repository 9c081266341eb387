package kube

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// UpdateWithoutForce is Update without taking over fields: if another manager has set a
// field to another value, nothing is written, and FieldConflicts recognizes the error.
func (c *Client) UpdateWithoutForce(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error) {
	return c.applyToUID(ctx, o, uid, metav1.ApplyOptions{FieldManager: manager})
}

// Contributor is how Contribute applies: as which manager, to which subresource, empty for the object itself, and whether it
// takes fields over from other managers.
type Contributor struct {
	Manager, Subresource string
	Force                bool
}

// Contribute is Update for fields of an object that other managers write. Without Force it is UpdateWithoutForce.
func (c *Client) Contribute(ctx context.Context, o *unstructured.Unstructured, uid types.UID, as Contributor) (*unstructured.Unstructured, error) {
	options := metav1.ApplyOptions{FieldManager: as.Manager, Force: as.Force}
	if as.Subresource == "" {
		return c.applyToUID(ctx, o, uid, options)
	}
	return c.applyToUID(ctx, o, uid, options, as.Subresource)
}

// DryRunUpdate is Update as a dry run: it returns what the object would be.
func (c *Client) DryRunUpdate(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error) {
	return c.applyToUID(ctx, o, uid, metav1.ApplyOptions{FieldManager: manager, Force: true, DryRun: []string{metav1.DryRunAll}})
}

// FieldConflicts reports whether an apply failed because other managers own fields with other values, and returns these
// fields, sorted, as the server names them.
func FieldConflicts(err error) (fields []string, conflict bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil, false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			conflict = true
			fields = append(fields, strings.TrimPrefix(cause.Field, "."))
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields), conflict
}
