package graph

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/expr"
)

// Messages are read by people who may not read Secrets, and are kept in status,
// events and logs. So values that come from a Secret are never told, nor are the
// texts of errors that may quote them.

var secretKind = schema.GroupKind{Kind: "Secret"}

// concealing finds the nodes whose objects hold what a Secret holds: Secrets, and
// what is rendered from more of them than their metadata. It is called in
// topological order.
func (g *Graph) concealing(n *Node) bool {
	return n.Kind.GroupKind() == secretKind || g.conceals(n.refs)
}

// conceals says whether something that is read may be from a Secret.
func (g *Graph) conceals(refs []expr.Ref) bool {
	for _, r := range refs {
		if source := g.node(r.Root); source != nil && source.conceals && !metadataOnly(r) {
			return true
		}
	}
	return false
}

func metadataOnly(r expr.Ref) bool {
	return len(r.Path) > 0 && r.Path[0].Name == "metadata"
}

// hidden stands for what isn't told.
const hidden = "(not shown: it may hold what a Secret holds)"
