package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

func TestAnActivationThatIsBeingDeletedGetsNoTypes(t *testing.T) {
	stored := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ResourceTypeActivationKind,
		"metadata": map[string]any{"name": "default", "deletionTimestamp": "2026-08-01T12:00:00Z", "finalizers": []any{"espalier.dev/activation"}},
		"spec":     map[string]any{"types": []any{"AWS::EC2::VPC"}},
	}}
	kinds := v1alpha1.GroupVersion.WithResource("resourcetypeactivations")
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), stored).Resource(kinds)
	in := activations{client: client}

	flags := activateFlags{name: "default"}
	_, err := in.change(t.Context(), "default", true, func(s *resource.ActivationSpec) error { return flags.change(s, []string{"AWS::S3::Bucket"}) })
	if err == nil || !strings.Contains(err.Error(), "is being deleted and activates nothing; use --name") {
		t.Errorf("got %v", err)
	}
	after, err := client.Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if types, _, _ := unstructured.NestedStringSlice(after.Object, "spec", "types"); len(types) != 1 {
		t.Errorf("the types are %q", types)
	}
}

func TestActivationsSayThatTheProviderIsNotInstalled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := (&clusterFlags{from: filepath.Dir(file)}).activations()
	if !errors.Is(err, errNotInstalled) {
		t.Errorf("got %v", err)
	}
}
