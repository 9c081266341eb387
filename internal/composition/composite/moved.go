package composite

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// movedResources are the resources of a namespaced composite that name another namespace than the composite's, with that
// namespace; they are composed in the composite's. A function that returns an existing object's observed namespace, as
// function-patch-and-transform does, hides what the composition says: it is remembered while the revision composes it.
type movedResources struct {
	revision string
	named    map[string]string
}

func (m *movedResources) begin(revision string) {
	if m.revision != revision {
		m.revision, m.named = revision, map[string]string{}
	}
}

func (m *movedResources) record(resource, named, namespace string, exists bool) {
	switch {
	case m.named == nil:
	case named != "" && namespace != "" && named != namespace:
		m.named[resource] = named
	case named == "" || !exists:
		delete(m.named, resource)
	}
}

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
