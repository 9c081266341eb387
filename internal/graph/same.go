package graph

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/diag"
)

// writtenIdentity identifies an object as templates write it, expressions included: those of
// two nodes with the same text have the same value.
type writtenIdentity struct {
	kind            schema.GroupKind
	namespace, name string
}

// checkSameObjects refuses nodes whose templates have the same identity, unless a condition may
// leave one of them out: no instance could have both.
func checkSameObjects(c *compilation) {
	if c.graph.embedded != nil {
		return // the host identifies objects by node
	}
	conditional := c.graph.conditionalNodes()
	first := map[writtenIdentity]*draft{}
	for _, d := range c.drafts {
		if d.broken || c.graph.node(d.ID) == nil || !d.hasOwnObjects() && !d.Patch || d.forEach != nil || conditional[d.ID] || len(d.source.IncludeWhen) > 0 {
			continue
		}
		written := c.writtenIdentity(d)
		other, taken := first[written]
		switch {
		case written.name == "":
		case taken && d.Patch && other.Patch && d.subresource != other.subresource: // the API server writes them separately
		case taken:
			c.problems.Addf(d.documentPath().Field("metadata", "name"), "%q is also the name of the %s of node %s, at %s: both would be one object",
				diag.Truncate(written.name, maxShownName), d.Kind.Kind, other.ID, other.at)
		default:
			first[written] = d
		}
	}
}

func (c *compilation) writtenIdentity(d *draft) writtenIdentity {
	out := writtenIdentity{kind: d.Kind.GroupKind()}
	metadata, _ := d.document["metadata"].(map[string]any)
	out.name, _ = metadata["name"].(string)
	out.namespace, _ = metadata["namespace"].(string)
	if out.namespace == "" && d.KindKnown && d.Namespaced {
		out.namespace = instanceNamespace
	}
	return out
}
