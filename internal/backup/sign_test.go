package backup

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
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
	if err := i.sign(t.Context(), below); err == nil || !strings.Contains(err.Error(), "espalier run") {
		t.Errorf("without a key: %v", err)
	}
	i.keys = signing.Keys()
	if err := i.sign(t.Context(), below); err != nil {
		t.Fatal(err)
	}
	if !i.keys.Verifies(below.GetAnnotations()[v1alpha1.SignatureAnnotation], parent, object.KeyOf(below), "nested") {
		t.Errorf("the child isn't signed: %v", below.GetAnnotations())
	}
	below.SetFinalizers([]string{v1alpha1.Finalizer})
	if owner := inventory.OwnerOf(below, object.Definition{}, "").Recognizing(i.keys, below, time.Time{}); !owner.IsIntact(below) {
		t.Errorf("the inventory isn't signed: %v", below.GetAnnotations())
	}
	stranger := above.DeepCopy()
	stranger.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: "applyset-unknown-v1", v1alpha1.NodeIDLabel: "a"})
	if err := i.sign(t.Context(), stranger); err != nil || stranger.GetAnnotations() != nil {
		t.Errorf("a child of an instance that isn't exported is signed: %v, %v", err, stranger.GetAnnotations())
	}
}
