package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// resource is a resource whose errors are Concise, so each can be shown or logged. The API server is told not to look
// for unknown and repeated fields (the default of its fieldValidation is Warn): nobody reads its warnings, and for an
// apply it would parse the body a second time. What it prunes, refuses and stores is the same.
type resource struct{ dynamic.ResourceInterface }

// Create implements dynamic.ResourceInterface.
func (r resource) Create(ctx context.Context, o *unstructured.Unstructured, options metav1.CreateOptions,
	subresources ...string) (*unstructured.Unstructured, error) {
	options.FieldValidation = metav1.FieldValidationIgnore
	answer, err := r.ResourceInterface.Create(ctx, o, options, subresources...)
	return answer, Concise(err)
}

// Apply implements dynamic.ResourceInterface.
func (r resource) Apply(ctx context.Context, name string, o *unstructured.Unstructured, options metav1.ApplyOptions,
	subresources ...string) (*unstructured.Unstructured, error) {
	body, err := o.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return r.Patch(ctx, name, types.ApplyPatchType, body, options.ToPatchOptions(), subresources...)
}

// Update implements dynamic.ResourceInterface.
func (r resource) Update(ctx context.Context, o *unstructured.Unstructured, options metav1.UpdateOptions,
	subresources ...string) (*unstructured.Unstructured, error) {
	options.FieldValidation = metav1.FieldValidationIgnore
	answer, err := r.ResourceInterface.Update(ctx, o, options, subresources...)
	return answer, Concise(err)
}

// UpdateStatus implements dynamic.ResourceInterface.
func (r resource) UpdateStatus(ctx context.Context, o *unstructured.Unstructured, options metav1.UpdateOptions) (*unstructured.Unstructured, error) {
	options.FieldValidation = metav1.FieldValidationIgnore
	answer, err := r.ResourceInterface.UpdateStatus(ctx, o, options)
	return answer, Concise(err)
}

// Patch implements dynamic.ResourceInterface.
func (r resource) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions,
	subresources ...string) (*unstructured.Unstructured, error) {
	options.FieldValidation = metav1.FieldValidationIgnore
	answer, err := r.ResourceInterface.Patch(ctx, name, kind, patch, options, subresources...)
	return answer, Concise(err)
}

// Delete implements dynamic.ResourceInterface.
func (r resource) Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error {
	return Concise(r.ResourceInterface.Delete(ctx, name, options, subresources...))
}
