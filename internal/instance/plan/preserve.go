package plan

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// preservation says which objects of an instance are to outlive it.
type preservation struct {
	policies inventory.Policies
	// all says that the instance is protected, or that its deletion policies are invalid.
	all bool
}

// preservationOf reads the policies of the instance and of all nodes of its definition, also of
// those that are left out.
func preservationOf(desired Desired, facts Facts) preservation {
	policies, unclear := inventory.PoliciesOf(facts.Instance, facts.Defaults)
	_, protected := inventory.Protection(facts.Instance)
	definition := map[string]v1alpha1.DeletionPolicy{}
	for _, node := range desired.Nodes {
		definition[node.origin()] = cmp.Or(node.OnDelete, v1alpha1.DeletionDelete)
	}
	return preservation{policies: policies.WithDefinition(definition), all: protected || len(unclear) > 0}
}

// The object might not exist yet. A policy of a former instance doesn't count: this instance takes the object over.
func (p preservation) applies(at inventory.Place, observed *unstructured.Unstructured) bool {
	if p.all || p.policies.Declared(at) != v1alpha1.DeletionDelete {
		return true
	}
	if observed == nil {
		return false
	}
	_, protected := inventory.Protection(observed)
	return protected
}
