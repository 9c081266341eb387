package chart

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestTheAWSProviderWritesItsOwnKindsOnly creates and deletes CustomResourceDefinitions as the provider's service
// account: whoever has it could otherwise delete any kind of the cluster.
func TestTheAWSProviderWritesItsOwnKindsOnly(t *testing.T) {
	config := testkit.Server(t)
	cluster, release := testkit.NewCluster(t, config), testkit.Namespace(t, config)
	const account = "espalier-provider-aws"
	for _, o := range renderIn(t, release, "providers.aws.enabled=true", "providers.aws.services={ec2}") {
		isPolicy := o.GetName() == account+"-kinds" && strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy")
		isRole := strings.HasPrefix(o.GetName(), account) && strings.HasPrefix(o.GetKind(), "ClusterRole")
		if !isPolicy && !isRole {
			continue
		}
		if _, err := cluster.TryApply(t, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // the test's context has ended
			if err := cluster.Resource(t, o.GroupVersionKind(), "").Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + release + ":" + account}
	definitions := dynamic.NewForConfigOrDie(as).Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	create := func(group string) error {
		_, err := definitions.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "trials." + group},
			"spec": map[string]any{
				"group": group, "scope": "Namespaced", "names": map[string]any{"kind": "Trial", "plural": "trials"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
			},
		}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	testkit.Poll(t, "the policy is in force", func() bool {
		err := create("example.org")
		return err != nil && strings.Contains(err.Error(), "its own groups only")
	})
	for _, group := range []string{"aws.espalier.dev.example.org", "xaws.espalier.dev", "kro.run"} {
		if err := create(group); !apierrors.IsForbidden(err) {
			t.Errorf("a CustomResourceDefinition of the group %s: %v", group, err)
		}
	}
	for _, group := range []string{"ec2.aws.espalier.dev", "aws.espalier.dev"} {
		if err := create(group); err != nil {
			t.Errorf("a CustomResourceDefinition of the group %s: %v", group, err)
		}
	}
	err := definitions.Delete(t.Context(), "bindings.espalier.dev", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		t.Errorf("the deletion of the kind of records: %v", err)
	}
}
