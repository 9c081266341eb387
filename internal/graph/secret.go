package graph

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph/expr"
)

// Messages are read by people who may not read Secrets, and are kept in status,
// events and logs. So values that come from a Secret are never told, nor are the
// texts of errors that may quote them.

var secretKind = schema.GroupKind{Kind: "Secret"}

// conceals says whether something that is read may be from a Secret: from a Secret
// itself, beyond its metadata, or from anything of what was rendered from one. It
// is called in topological order.
func (g *Graph) conceals(refs []expr.Ref) bool {
	for _, r := range refs {
		if source := g.node(r.Root); source != nil && source.conceals && !secretsMetadata(source, r) {
			return true
		}
	}
	return false
}

// secretsMetadata says whether a path leads to the metadata of a Secret itself,
// which is no secret, but for annotations: kubectl keeps what was applied there.
func secretsMetadata(source *Node, r expr.Ref) bool {
	path := r.Path
	if source.Collection && len(path) > 0 {
		path = path[1:] // to one of its items
	}
	if source.Kind.GroupKind() != secretKind || source.derived || len(path) < 2 || path[0].Name != "metadata" {
		return false
	}
	return path[1].Name != "" && path[1].Name != "annotations"
}

// secretlyNamed says whether what the items of a collection are called may be from a
// Secret. All iterators are in their names.
func (g *Graph) secretlyNamed(n *Node) bool {
	if !n.derived {
		return false
	}
	refs := slices.Clone(n.items.identity.Refs())
	for _, d := range n.items.dimensions {
		refs = append(refs, d.list.Refs()...)
	}
	return g.conceals(refs)
}

// hidden stands for what isn't told.
const hidden = "(not shown: it may hold what a Secret holds)"
