package backup

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var accessReviewKind = schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"}

// mayUse reports whether the user who imports may use a service account, by the verbs that the
// admission policy for definitions knows.
func (c *Cluster) mayUse(ctx context.Context, namespace, name string) (bool, error) {
	for _, verb := range []string{"use", "impersonate"} {
		review := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": verb, "resource": "serviceaccounts", "namespace": namespace, "name": name,
		}}}}
		review.SetGroupVersionKind(accessReviewKind)
		r, err := c.objects(accessReviewKind, "")
		if err != nil {
			return false, err
		}
		answer, err := r.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("review access to service account %s of namespace %s: %w", name, namespace, err)
		}
		if allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed"); allowed {
			return true, nil
		}
	}
	return false, nil
}
