package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
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

// TestSecretsOfARevisionKeepTheirNames: its program runs with them, and a changed spec would need the registry.
func TestSecretsOfARevisionKeepTheirNames(t *testing.T) {
	r := Packages{Kind: v1.GroupVersion.WithKind(v1.FunctionKind), Config: Config{Cluster: refusing{err: errors.New("it was written")}}}
	for name, written := range map[string]bool{"f-fn-server": false, "": true} {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "f-1"}, "spec": map[string]any{"tlsServerSecretName": name}}}
		one, err := decode[anyRevision](o)
		if err != nil {
			t.Fatal(err)
		}
		pkg := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "f"}}}
		s := &packageState{raw: &writer.Object{Unstructured: pkg}, key: object.Key{Name: "f"}, read: map[string]*unstructured.Unstructured{"f-1": o}, revisions: []*anyRevision{one}}
		s.plan.Current = "f-1"
		if out := r.settings(t.Context(), s); (out.Err != nil) != written {
			t.Errorf("with the name %q: %v", name, out.Err)
		}
	}
}
