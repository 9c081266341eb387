package backup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

// TestAnImportSigns has an instance and a child of it, nested, with signatures of another
// installation.
func TestAnImportSigns(t *testing.T) {
	parent := object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "above"}
	above, below := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	above.SetUnstructuredContent(map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": map[string]any{"namespace": "prod", "name": "above"}})
	below.SetUnstructuredContent(map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "App", "metadata": map[string]any{
		"namespace": "prod", "name": "below",
		"labels": map[string]any{
			v1alpha1.ApplySetPartOfLabel: inventory.ApplySetID(parent), v1alpha1.NodeIDLabel: "nested",
			v1alpha1.ApplySetIDLabel: inventory.ApplySetID(object.Key{Group: "kro.run", Kind: "App", Namespace: "prod", Name: "below"}),
		},
		"annotations": map[string]any{
			v1alpha1.SignatureAnnotation: "v1:theirs:u:AAAA", v1alpha1.ApplySetKindsAnnotation: "ConfigMap", v1alpha1.ApplySetNamespacesAnnotation: "team",
			v1alpha1.ApplySetHashAnnotation: "hmac-sha256:v1:theirs:AAAA",
		},
	}})
	i, _ := newImport(target(), archive.File{Sections: map[archive.Section][]*unstructured.Unstructured{archive.Instances: {above, below}}})
	i.hold = &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "hold-1"}}}
	i.keys = signing.Keys()
	i.sign(below)
	if !i.keys.Verifies(below.GetAnnotations()[v1alpha1.SignatureAnnotation], parent, object.KeyOf(below), "nested") {
		t.Errorf("the child isn't signed: %v", below.GetAnnotations())
	}
	below.SetFinalizers([]string{v1alpha1.Finalizer})
	if owner := inventory.OwnerOf(below, object.Definition{}, "").Recognizing(i.keys, below, time.Time{}); !owner.IsIntact(below) {
		t.Errorf("the inventory isn't signed: %v", below.GetAnnotations())
	}
	stranger := above.DeepCopy()
	stranger.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: "applyset-unknown-v1", v1alpha1.NodeIDLabel: "a"})
	if i.sign(stranger); stranger.GetAnnotations() != nil {
		t.Errorf("a child of an instance that isn't exported is signed: %v", stranger.GetAnnotations())
	}
}

// nested makes App dev/test a child of App prod/web.
func nested(c *fakekube.Cluster) {
	c.Change(object.Key{Group: "kro.run", Kind: "App", Namespace: "dev", Name: "test"}, func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: inventory.ApplySetID(appKey), v1alpha1.NodeIDLabel: "nested"})
	})
}

// withSigningKey gives a control plane a signing key.
func withSigningKey(c *fakekube.Cluster) {
	c.Add(fakekube.Parse("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: bindings.espalier.dev, annotations: {" + v1alpha1.SigningKeyAnnotation + ": keys}}}"))
	c.Add(inventory.NewKeySecret("keys", []byte(strings.Repeat("k", inventory.KeySize))))
}

// TestWhatAnImportCannotSignIsAProblem has reasons that an import would otherwise find when it has
// created half of the objects.
func TestWhatAnImportCannotSignIsAProblem(t *testing.T) {
	cases := map[string]struct {
		reason string
		given  func(*fakekube.Cluster)
		want   string
	}{
		"there is a key": {"the child is signed", withSigningKey, ""},
		"no key is recorded": {
			"the controllers have never run", func(*fakekube.Cluster) {},
			"the cluster records no signing key; start the controllers, which create one, with 'espalier run'",
		},
		"the key is missing": {
			"it was deleted", func(c *fakekube.Cluster) {
				withSigningKey(c)
				c.Remove(object.Key{Kind: "Secret", Namespace: "keys", Name: v1alpha1.SigningKeySecret})
			}, "the signing key, Secret keys/espalier-signing-key, is missing",
		},
		"the importing user may not read it": {
			"it needs a permission", func(c *fakekube.Cluster) {
				withSigningKey(c)
				c.Before = failing("get Secret keys/", apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New("RBAC")))
			}, "you are not allowed to read the signing key, Secret keys/espalier-signing-key, which signs what the import creates: grant the verb get on it",
		},
	}
	file := exported(t, nested)
	for name, tc := range cases {
		c := target()
		tc.given(c)
		i, _ := newImport(c, file)
		err := i.Run(context.Background())
		var problems *ProblemsError
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %s: got %v", name, tc.reason, err)
		case tc.want != "" && (!errors.As(err, &problems) || !slices.Equal(problems.Problems, []string{tc.want})):
			t.Errorf("%s: %s: got %v", name, tc.reason, err)
		case tc.want != "" && len(without(c.Writes(), "dry-run ")) > 0:
			t.Errorf("%s: %s: the import wrote objects", name, tc.reason)
		}
	}
}
