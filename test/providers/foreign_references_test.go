package providers

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

// TestAReferenceDoesNotTellWhatOtherNamespacesHave has a tenant refer to objects of another namespace, of which one
// exists: the answers are the same until its owner allows the reference.
func TestAReferenceDoesNotTellWhatOtherNamespacesHave(t *testing.T) {
	s := suite.New(t)
	network, subnet := v1alpha1.GroupVersion.WithKind("Network"), v1alpha1.GroupVersion.WithKind("Subnet")
	other := testkit.Namespace(t, s.Config)
	for _, o := range testkit.Parse(t, s.Expand("{apiVersion: sandbox.espalier.dev/v1alpha1, kind: Network, metadata: {name: $ID, labels: {of: $ID}}, spec: {forProvider: {cidr: 10.0.0.0/16}}}")) {
		o.SetNamespace(other)
		if _, err := s.TryApply(t, o); err != nil {
			t.Fatal(err)
		}
	}
	s.Await(t, network, other, s.Expand("$ID"), is("ReconcileSuccess"))
	references := map[string]string{
		"named": "networkIDRef: {name: $ID, namespace: " + other + "}", "missing": "networkIDRef: {name: $ID-none, namespace: " + other + "}",
		"selected": "networkIDSelector: {matchLabels: {of: $ID}, namespace: " + other + "}", "none": "networkIDSelector: {matchLabels: {of: none}, namespace: " + other + "}",
	}
	for name, reference := range references {
		s.Apply(t, "{apiVersion: sandbox.espalier.dev/v1alpha1, kind: Subnet, metadata: {name: "+name+", namespace: $NS}, spec: {forProvider: {cidr: 10.0.1.0/24, "+reference+"}}}")
	}
	messages := map[string]string{}
	for name := range references {
		o := s.Await(t, subnet, s.NS, name, is("NotAllowed"))
		if id, _, _ := unstructured.NestedString(o.Object, "spec", "forProvider", "networkID"); id != "" {
			t.Errorf("%s: the tenant has learned the identity %s", name, id)
		}
		messages[name] = testkit.ConditionMessage(o, "Synced")
	}
	if missing := strings.Replace(messages["missing"], s.Expand("$ID-none"), s.Expand("$ID"), 1); missing != messages["named"] || messages["none"] != messages["selected"] {
		t.Errorf("the messages differ: %q", messages)
	}

	patch := `{"metadata": {"annotations": {"espalier.dev/allow-references-from": "` + s.NS + `"}}}`
	if _, err := s.Resource(t, network, other).Patch(t.Context(), s.Expand("$ID"), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"named", "selected"} {
		s.Await(t, subnet, s.NS, name, is("ReconcileSuccess"))
	}
	for _, name := range []string{"missing", "none"} {
		s.Await(t, subnet, s.NS, name, is("NotAllowed"))
	}
	for name := range references {
		s.Delete(t, subnet, s.NS, name)
		s.AwaitGone(t, subnet, s.NS, name)
	}
	s.Delete(t, network, other, s.Expand("$ID"))
	s.AwaitGone(t, network, other, s.Expand("$ID"))
}
