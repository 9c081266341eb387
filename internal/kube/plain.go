package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/diag"
)

// Concise is an error of a request in a text for people, without the values that the API
// server repeats at length. It is the same error otherwise.
func Concise(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if short := diag.WithoutDumps(text); short != text {
		return plain{err, short}
	}
	return err
}

type plain struct {
	error
	text string
}

func (p plain) Error() string { return p.text }
func (p plain) Unwrap() error { return p.error }

// plainly is a resource whose errors are Plain: every one of them may be shown or logged.
type plainly struct{ dynamic.ResourceInterface }

func (p plainly) Apply(ctx context.Context, name string, o *unstructured.Unstructured, options metav1.ApplyOptions, subresources ...string) (*unstructured.Unstructured, error) {
	answer, err := p.ResourceInterface.Apply(ctx, name, o, options, subresources...)
	return answer, Concise(err)
}

func (p plainly) Update(ctx context.Context, o *unstructured.Unstructured, options metav1.UpdateOptions, subresources ...string) (*unstructured.Unstructured, error) {
	answer, err := p.ResourceInterface.Update(ctx, o, options, subresources...)
	return answer, Concise(err)
}

func (p plainly) UpdateStatus(ctx context.Context, o *unstructured.Unstructured, options metav1.UpdateOptions) (*unstructured.Unstructured, error) {
	answer, err := p.ResourceInterface.UpdateStatus(ctx, o, options)
	return answer, Concise(err)
}

func (p plainly) Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	answer, err := p.ResourceInterface.Patch(ctx, name, kind, patch, options, subresources...)
	return answer, Concise(err)
}

func (p plainly) Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error {
	return Concise(p.ResourceInterface.Delete(ctx, name, options, subresources...))
}
