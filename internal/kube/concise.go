package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/diag"
)

// maxErrorLength bounds the text of an error, in bytes: webhooks and aggregated APIs write any.
const maxErrorLength = 8 << 10

// Concise wraps the error of a request so that its text leaves out long values that the API
// server repeats, is bounded and printable. errors.As and errors.Is still see the error.
func Concise(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if short := diag.TruncateMiddle(diag.WithoutDumps(text), maxErrorLength); short != text {
		return conciseError{err, short}
	}
	return err
}

type conciseError struct {
	error
	text string
}

func (p conciseError) Error() string { return p.text }
func (p conciseError) Unwrap() error { return p.error }

// conciseResource is a resource whose errors are Concise, so that each may be shown or
// logged.
type conciseResource struct{ dynamic.ResourceInterface }

func (p conciseResource) Apply(ctx context.Context, name string, o *unstructured.Unstructured, options metav1.ApplyOptions, subresources ...string) (*unstructured.Unstructured, error) {
	answer, err := p.ResourceInterface.Apply(ctx, name, o, options, subresources...)
	return answer, Concise(err)
}

func (p conciseResource) Update(ctx context.Context, o *unstructured.Unstructured, options metav1.UpdateOptions, subresources ...string) (*unstructured.Unstructured, error) {
	answer, err := p.ResourceInterface.Update(ctx, o, options, subresources...)
	return answer, Concise(err)
}

func (p conciseResource) UpdateStatus(ctx context.Context, o *unstructured.Unstructured, options metav1.UpdateOptions) (*unstructured.Unstructured, error) {
	answer, err := p.ResourceInterface.UpdateStatus(ctx, o, options)
	return answer, Concise(err)
}

func (p conciseResource) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	answer, err := p.ResourceInterface.Patch(ctx, name, kind, patch, options, subresources...)
	return answer, Concise(err)
}

func (p conciseResource) Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error {
	return Concise(p.ResourceInterface.Delete(ctx, name, options, subresources...))
}
