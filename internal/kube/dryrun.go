package kube

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
)

// IsInvalid reports that the API server's validation rejected a write.
func IsInvalid(err error) bool { return apierrors.IsInvalid(err) && !IsStale(err) }

// DryRunCreate reports whether the API server would accept an object as a new one. Nothing is stored. An object of this
// name exists, so the request uses another; one that is accepted under one name only is rejected.
func (c *Client) DryRunCreate(ctx context.Context, o *unstructured.Unstructured, manager string) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	o = o.DeepCopy()
	o.SetName(DryRunName(o.GetName()))
	o.SetUID("")
	o.SetResourceVersion("")
	_, err = r.Create(ctx, o, metav1.CreateOptions{FieldManager: manager, DryRun: []string{metav1.DryRunAll}})
	return withAttempt("create", "", err)
}

// DryRunName returns a name that is valid wherever the given one is, and that is unlikely
// to be taken.
func DryRunName(name string) string {
	const maxNamePrefix = 40 // the result still fits a DNS label
	head := strings.TrimRight(name[:min(len(name), maxNamePrefix)], "-.:")
	return head + "-" + object.Digest(name)[:10]
}
