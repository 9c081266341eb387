package composite

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// movedResources are the resources of a namespaced composite that name another namespace than the composite's, in which they are composed
// nevertheless, with the namespace that they name. A function that returns the observed namespace of an existing object, as
// function-patch-and-transform does, hides what the composition says, so this is remembered for as long as the revision composes the object.
type movedResources struct {
	revision string
	named    map[string]string
}

// begin forgets what another revision says.
func (m *movedResources) begin(revision string) {
	if m.revision != revision {
		m.revision, m.named = revision, map[string]string{}
	}
}

// record records the namespace that a resource names, and the one that it is in.
func (m *movedResources) record(resource, named, namespace string, exists bool) {
	switch {
	case m.named == nil:
	case named != "" && namespace != "" && named != namespace:
		m.named[resource] = named
	case named == "" || !exists:
		delete(m.named, resource)
	}
}

// warnings are the results that name the objects.
func (m *movedResources) warnings(nodes []plan.Node) []plan.Result {
	var out []plan.Result
	for i := range nodes {
		if named := m.named[nodes[i].ID]; named != "" && nodes[i].Object != nil {
			out = append(out, plan.Result{Warning: true, Reason: "NamespaceIgnored", Message: fmt.Sprintf(
				"%s: %s %s is composed in namespace %s, not in %s, which the composition names: a namespaced composite composes objects in its own namespace only",
				nodes[i].ID, nodes[i].Kind.Kind, nodes[i].Object.GetName(), nodes[i].Object.GetNamespace(), named)})
		}
	}
	return out
}
