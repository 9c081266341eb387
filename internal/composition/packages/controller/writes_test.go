package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/packages/xpkg"
	"github.com/espalier-dev/espalier/internal/condition"
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

// TestTheOldestPackageComesFirst, and of those of the same second the one that is healthy.
func TestTheOldestPackageComesFirst(t *testing.T) {
	pkg := func(name string, second int64, healthy bool) *installed {
		p := &installed{key: object.Key{Kind: "Configuration", Name: name}, raw: &unstructured.Unstructured{Object: map[string]any{}}, last: &anyRevision{}}
		p.raw.SetCreationTimestamp(metav1.Unix(second, 0))
		if healthy {
			p.last.Status.Conditions = []v1alpha1.Condition{{Type: v1.TypeRevisionHealthy, Status: condition.True}}
		}
		return p
	}
	all := []*installed{pkg("e", 2, true), pkg("d", 1, false), pkg("c", 1, true), pkg("b", 1, false), pkg("a", 3, true)}
	all[1].last = nil
	slices.SortFunc(all, compareAge)
	var names []string
	for _, p := range all {
		names = append(names, p.key.Name)
	}
	if got := strings.Join(names, " "); got != "c b d e a" {
		t.Errorf("the order is %s", got)
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
