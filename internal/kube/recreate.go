package kube

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
)

// IsInvalid says that the API server's validation has rejected what was to be written.
func IsInvalid(err error) bool { return apierrors.IsInvalid(err) && !IsGone(err) }

// TryCreate asks the API server whether it would accept an object as a new one. Nothing is
// stored. The object is called something else for it, since one of its name exists: what the
// server accepts under one name only is rejected.
func (c *Client) TryCreate(ctx context.Context, o *unstructured.Unstructured, manager string) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	o = o.DeepCopy()
	o.SetName(trialName(o.GetName()))
	o.SetUID("")
	o.SetResourceVersion("")
	_, err = r.Create(ctx, o, metav1.CreateOptions{FieldManager: manager, DryRun: []string{metav1.DryRunAll}})
	return attempted("create", "", err)
}

// trialName is a name that is valid wherever the given one is, and that no other object is
// likely to have.
func trialName(name string) string {
	const most = 40 // of a name that is a DNS label, with what follows
	head := strings.TrimRight(name[:min(len(name), most)], "-.:")
	return head + "-" + object.Digest(name)[:10]
}
