package plan

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// lasting is what of an instance's objects somebody wants to be kept, as things are now.
type lasting struct {
	policies inventory.Policies
	// all says that the instance is protected, or that it isn't clear what is to stay.
	all bool
}

// lastingOf are what the instance says, and the definition of the nodes that it has, also of
// those that it leaves out.
func lastingOf(desired Desired, facts Facts) lasting {
	policies, unclear := inventory.PoliciesOf(facts.Instance)
	_, protected := inventory.Protection(facts.Instance)
	definition := map[string]v1alpha1.DeletionPolicy{}
	for _, node := range desired.Nodes {
		definition[node.origin()] = cmp.Or(node.OnDelete, v1alpha1.DeletionDelete)
	}
	return lasting{policies: policies.Now(definition), all: protected || len(unclear) > 0}
}

// object says whether a node's object is to be kept; it may not be there yet. What a former
// instance has said of it is over: this one takes it on.
func (l lasting) object(at inventory.Place, observed *unstructured.Unstructured) bool {
	if l.all || l.policies.Said(at) != v1alpha1.DeletionDelete {
		return true
	}
	if observed == nil {
		return false
	}
	_, protected := inventory.Protection(observed)
	return protected
}
