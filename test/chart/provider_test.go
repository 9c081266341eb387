package chart

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestTheProviderWritesConnectionSecretsOnly creates and deletes Secrets as the provider's service
// account: one of them would get the token of another account.
func TestTheProviderWritesConnectionSecretsOnly(t *testing.T) {
	config := testkit.Server(t)
	cluster, release := testkit.NewCluster(t, config), testkit.Namespace(t, config)
	for _, o := range renderIn(t, release, "providers.postgresql.enabled=true") {
		if o.GetName() != "espalier-provider-postgresql" || !strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			continue
		}
		o.SetName(release) // beside those of other tests
		if o.GetKind() == "ValidatingAdmissionPolicyBinding" {
			if err := unstructured.SetNestedField(o.Object, release, "spec", "policyName"); err != nil {
				t.Fatal(err)
			}
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
	const account = "espalier-provider-postgresql"
	cluster.Apply(t, strings.ReplaceAll(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: provider, namespace: $NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: espalier-provider-postgresql, namespace: $NS}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: victim, namespace: $NS}
---
apiVersion: v1
kind: Secret
metadata: {name: of-somebody, namespace: $NS}
`, "$NS", release))
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + release + ":" + account}
	secrets := kubernetes.NewForConfigOrDie(as).CoreV1().Secrets(release)
	create := func(name string, kind corev1.SecretType) error {
		_, err := secrets.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "victim"}}, Type: kind,
		}, metav1.CreateOptions{})
		return err
	}
	testkit.Poll(t, "the policy is in force", func() bool {
		err := secrets.Delete(t.Context(), "of-somebody", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "connection Secrets only")
	})
	for _, kind := range []corev1.SecretType{corev1.SecretTypeServiceAccountToken, corev1.SecretTypeOpaque} {
		if err := create("token", kind); !apierrors.IsForbidden(err) {
			t.Errorf("a Secret of type %s: %v", kind, err)
		}
	}
	if _, err := secrets.Patch(t.Context(), "of-somebody", "application/merge-patch+json", []byte(`{"stringData":{"key":"value"}}`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a change of another Secret: %v", err)
	}
	if err := create("connection", "connection.crossplane.io/v1alpha1"); err != nil {
		t.Error(err)
	}
	if err := secrets.Delete(t.Context(), "connection", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
