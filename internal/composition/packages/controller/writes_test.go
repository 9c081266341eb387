package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/kube/writer"
)

// refusing is a cluster that answers each write with an error.
type refusing struct {
	Cluster
	err error
}

func (r refusing) Create(context.Context, *unstructured.Unstructured, string) (*unstructured.Unstructured, error) {
	return nil, r.err
}

func (r refusing) Patch(context.Context, *unstructured.Unstructured, map[string]any, string) (*unstructured.Unstructured, error) {
	return nil, r.err
}

// TestACertificateWithoutItsNamespaceIsAnError: no event would bring another reconcile.
func TestACertificateWithoutItsNamespaceIsAnError(t *testing.T) {
	c := Certificates{Namespace: "absent", Cluster: refusing{err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "absent")}}
	err := c.save(t.Context(), nil, AuthoritySecret, nil, nil)
	if err == nil || errors.Is(err, errNotRead) || !strings.Contains(err.Error(), "Create the namespace") {
		t.Errorf("the error is %v", err)
	}
}

// TestADescriptionOfAChangedRevisionWaits for the event of the change, and is no problem of the package.
func TestADescriptionOfAChangedRevisionWaits(t *testing.T) {
	s := &revisionState{raw: &writer.Object{Unstructured: &unstructured.Unstructured{}}, content: Content{Package: &xpkg.Package{}}}
	s.content.Package.Meta.Metadata.Annotations = map[string]string{"meta.crossplane.io/source": "example.org"}
	stale := apierrors.NewConflict(schema.GroupResource{Resource: "functionrevisions"}, "f", errors.New("it has been modified"))
	r := Revisions{Config: Config{Cluster: refusing{err: stale}}}
	if err := r.describe(t.Context(), s); !errors.Is(err, errNotRead) {
		t.Errorf("the error is %v", err)
	}
}
