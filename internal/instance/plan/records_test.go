package plan_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestNodesThatAdopt(t *testing.T) {
	for kind, want := range map[schema.GroupVersionKind]bool{
		{Version: "v1", Kind: "ConfigMap"}:                                                         true,
		{Group: "kro.run", Version: "v1alpha1", Kind: "WebApp"}:                                    true,
		{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"}:                   false,
		{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGroup"}:                             false,
		{Group: "kro.run", Version: "v1alpha1", Kind: "Graph"}:                                     false,
		{Group: "apiextensions.crossplane.io", Version: "v2", Kind: "CompositeResourceDefinition"}: false,
		{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "Composition"}:                 false,
		{Group: "protection.crossplane.io", Version: "v1beta1", Kind: "ClusterUsage"}:              false,
	} {
		if got := (plan.Node{Kind: kind, AdoptUnowned: true}).AdoptsUnowned(); got != want {
			t.Errorf("a node adopts a %s: %t", kind, got)
		}
	}
}
