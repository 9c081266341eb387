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

// Share is Update that takes nothing over: where somebody else has set a field to another
// value, nothing is written, and the error is one of Contested's.
func (c *Client) Share(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error) {
	return c.onto(ctx, o, uid, metav1.ApplyOptions{FieldManager: manager})
}

// Try is Update that only says what would come of it.
func (c *Client) Try(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error) {
	return c.onto(ctx, o, uid, metav1.ApplyOptions{FieldManager: manager, Force: true, DryRun: []string{metav1.DryRunAll}})
}

// Contested says that an apply found fields set by others to other values, and lists them,
// sorted, as the server names them.
func Contested(err error) (fields []string, contested bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil, false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			contested = true
			fields = append(fields, strings.TrimPrefix(cause.Field, "."))
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields), contested
}
