package initial

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var (
	graph = suite.Graph("Web", "spec: {text: string}", `
    - id: page
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-page"}, data: {text: "${schema.spec.text}"}}
`)
	policyKind = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"}
)

// TestInstancesAreCreatedWithTheirMetadata goes through the life of instances while the policy is
// bound, and without it. The policy is shared, so the steps are one test.
func TestInstancesAreCreatedWithTheirMetadata(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, graph)
	s.AwaitDefinitions(t, "web")
	kind := s.Kind("Web")

	t.Log("before the policy is bound, the controllers write the metadata")
	s.Apply(t, web("early"))
	early := s.AwaitReady(t, kind, s.NS, "early")
	if !hasFinalizer(early) || !manages(early, v1alpha1.InstanceManager) {
		t.Errorf("early: %s", testkit.JSON(early))
	}

	t.Log("an instance is created with it")
	s.Await(t, install.BindingKind, "", install.BindingName("webs."+s.Group), suite.IsPresent)
	awaitBound(t, s, true)
	created := create(t, s, "x")
	if !hasFinalizer(created) || created.GetLabels()[v1alpha1.OwnedLabel] != "true" || created.GetAnnotations()[v1alpha1.ApplySetKindsAnnotation] != "ConfigMap" {
		t.Errorf("x was created as %s", testkit.JSON(created))
	}
	if ready := s.AwaitReady(t, kind, s.NS, "x"); manages(ready, v1alpha1.InstanceManager) {
		t.Errorf("the controllers have written the metadata of x: %s", testkit.JSON(ready))
	}

	t.Log("whoever applies it again, or replaces it, keeps it")
	s.Apply(t, web("x"))
	replaced := s.Get(t, kind, s.NS, "x")
	replaced.SetFinalizers(nil)
	replaced.SetLabels(nil)
	replaced.SetAnnotations(nil)
	if _, err := s.Resource(t, kind, s.NS).Update(context.Background(), replaced, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if o := s.Get(t, kind, s.NS, "x"); !hasFinalizer(o) || o.GetAnnotations()[v1alpha1.ApplySetHashAnnotation] == "" {
		t.Errorf("x lost its metadata: %s", testkit.JSON(o))
	}

	t.Log("an inventory that the controllers have written stays")
	before := s.Get(t, kind, s.NS, "early").GetAnnotations()[v1alpha1.ApplySetHashAnnotation]
	s.Patch(t, kind, s.NS, "early", `{"metadata":{"labels":{"touched":"yes"}}}`)
	if after := s.Get(t, kind, s.NS, "early").GetAnnotations()[v1alpha1.ApplySetHashAnnotation]; after != before {
		t.Errorf("the signature of early was %s and is %s", before, after)
	}

	t.Log("an instance that is deleted at once leaves nothing behind")
	for i := range 5 {
		name := fmt.Sprintf("brief-%d", i)
		create(t, s, name)
		s.Delete(t, kind, s.NS, name)
	}
	for i := range 5 {
		s.AwaitGone(t, kind, s.NS, fmt.Sprintf("brief-%d", i))
		s.AwaitGone(t, suite.ConfigMap, s.NS, fmt.Sprintf("brief-%d-page", i))
	}

	t.Log("an instance is deleted with its children")
	s.Delete(t, kind, s.NS, "x")
	s.AwaitGone(t, kind, s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-page")

	t.Log("without the policy the controllers write the metadata again")
	s.Delete(t, policyKind, "", v1alpha1.InitialMetadataPolicy)
	awaitBound(t, s, false)
	create(t, s, "late")
	if late := s.AwaitReady(t, kind, s.NS, "late"); !hasFinalizer(late) || !manages(late, v1alpha1.InstanceManager) {
		t.Errorf("late: %s", testkit.JSON(late))
	}

	t.Log("the binding goes with the definition")
	s.Delete(t, kind, s.NS, "late")
	s.Delete(t, kind, s.NS, "early")
	s.AwaitGone(t, kind, s.NS, "late")
	s.AwaitGone(t, kind, s.NS, "early")
	s.Delete(t, suite.RGD, "", s.Name("web"))
	s.AwaitGone(t, suite.RGD, "", s.Name("web"))
	s.AwaitGone(t, install.BindingKind, "", install.BindingName("webs."+s.Group))
}

func web(name string) string {
	return fmt.Sprintf("{apiVersion: $GROUP/v1alpha1, kind: Web, metadata: {name: %s, namespace: $NS}, spec: {text: hello}}", name)
}

// create creates an instance, and returns it as the API server has stored it.
func create(t *testing.T, s suite.Suite, name string, options ...string) *unstructured.Unstructured {
	t.Helper()
	o := testkit.Parse(t, s.Expand(web(name)))[0]
	out, err := s.Resource(t, s.Kind("Web"), s.NS).Create(context.Background(), o, metav1.CreateOptions{DryRun: options})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// awaitBound waits until the API server uses the binding, or no longer uses it. It learns of both by a
// watch, which nobody else can see.
func awaitBound(t *testing.T, s suite.Suite, want bool) {
	t.Helper()
	testkit.Poll(t, fmt.Sprintf("instances are created with a finalizer: %t", want), func() bool {
		return hasFinalizer(create(t, s, "probe", metav1.DryRunAll)) == want
	})
}

func hasFinalizer(o *unstructured.Unstructured) bool {
	return slices.Contains(o.GetFinalizers(), v1alpha1.Finalizer)
}

func manages(o *unstructured.Unstructured, manager string) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager && e.Subresource == "" })
}
