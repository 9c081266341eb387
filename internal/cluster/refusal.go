package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/report"
)

// Release takes labels and annotations off this very incarnation of an object,
// and leaves the rest of it alone. What is gone already, or has been replaced by
// another of its name, is no error.
func (c *Client) Release(ctx context.Context, o *unstructured.Unstructured, labels, annotations []string, manager string) error {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	none := func(keys []string) map[string]any {
		out := make(map[string]any, len(keys))
		for _, key := range keys {
			out[key] = nil
		}
		return out
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "labels": none(labels), "annotations": none(annotations),
	}})
	if err != nil {
		return fmt.Errorf("encode the release of %s: %w", o.GetName(), err)
	}
	_, err = r.Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	if IsGone(err) {
		return nil
	}
	return err
}

// WhyNot says why the API server did not do what was asked about an object, by
// the verb as authorization knows it. Where it forbids, it is asked whether it is
// us whom it doesn't let: if it would, an admission webhook or policy has refused.
func (c *Client) WhyNot(ctx context.Context, o *unstructured.Unstructured, verb string, err error) (report.Reason, string) {
	message := err.Error()
	if o.GroupVersionKind().GroupKind() == secrets {
		message = Discreet(err)
	}
	var status apierrors.APIStatus
	if IsUnavailable(err) {
		return report.KindUnavailable, message
	}
	if !errors.As(err, &status) {
		return report.OutOfReach, message
	}
	switch code := status.Status().Code; {
	case code == http.StatusForbidden:
		if allowed, reviewErr := c.may(ctx, o, verb); reviewErr == nil && allowed {
			return report.DeniedByWebhook, message
		}
		return report.Forbidden, message
	case code == http.StatusUnauthorized, code == http.StatusMethodNotAllowed:
		return report.Forbidden, message
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code < 400, code >= 500:
		return report.OutOfReach, message
	}
	return report.DeniedByWebhook, message // nothing else refuses what names an object and no more
}

var (
	secrets       = schema.GroupKind{Kind: "Secret"}
	accessReviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
)

// may asks whether we are allowed something about an object.
func (c *Client) may(ctx context.Context, o *unstructured.Unstructured, verb string) (bool, error) {
	r, err := c.kinds.Resolve(ctx, o.GroupVersionKind())
	if err != nil {
		return false, err
	}
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": accessReviews.GroupVersion().String(), "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": verb, "group": r.GVR.Group, "version": r.GVR.Version, "resource": r.GVR.Resource,
			"namespace": o.GetNamespace(), "name": o.GetName(),
		}},
	}}
	answer, err := c.dynamic.Resource(accessReviews).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask what is allowed about %s: %w", o.GetName(), err)
	}
	allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, nil
}

// mostRevisions bounds how far back WasOrphaned looks.
const mostRevisions = 16

// tellsPolicy says whether a finalizer is one that the API server puts on for the
// garbage collector: of those there is one at a time.
func tellsPolicy(finalizer string) bool {
	return finalizer == metav1.FinalizerOrphanDependents || finalizer == metav1.FinalizerDeleteDependents
}

// WasOrphaned says whether the deletion of an object asked for its dependents to
// be left in place. While the garbage collector hasn't seen to that, the object
// carries a finalizer for it; later nothing about the object tells, so that its
// earlier revisions are read, which the API server keeps for some minutes. When
// they are no longer there the answer is no.
//
// A read at the revision before another, by resourceVersionMatch=Exact, takes
// revisions for numbers that count writes, as they are in every storage that an
// API server has had.
func (c *Client) WasOrphaned(ctx context.Context, o *unstructured.Unstructured) (bool, error) {
	r, err := c.resource(ctx, o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return false, err
	}
	for range mostRevisions {
		if o.GetDeletionTimestamp() == nil || slices.ContainsFunc(o.GetFinalizers(), tellsPolicy) {
			break
		}
		revision, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
		if err != nil || revision < 2 {
			return false, nil
		}
		before, err := r.List(ctx, metav1.ListOptions{
			FieldSelector:   "metadata.name=" + o.GetName(),
			ResourceVersion: strconv.FormatUint(revision-1, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
		switch {
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read how the deletion of %s was asked for: %w", o.GetName(), err)
		case len(before.Items) == 0 || before.Items[0].GetUID() != o.GetUID():
			return false, nil
		}
		o = &before.Items[0]
	}
	return o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents), nil
}
