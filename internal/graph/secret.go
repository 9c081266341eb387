package graph

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph/expr"
)

// Messages are stored in status, events and logs, where users who are not allowed to read Secrets read them. So
// messages never contain values that come from a Secret, nor the texts of errors that may quote such values.

var secretKind = schema.GroupKind{Kind: "Secret"}

// mayReadSecret reports whether a value at one of the paths may come from a Secret: from a Secret itself other than
// its metadata, or from an object with a template that reads one. Nodes must be added to the graph in topological
// order before it is called.
func (g *Graph) mayReadSecret(refs []expr.Ref) bool {
	for _, r := range refs {
		if source := g.node(r.Root); source != nil && source.mayHoldSecret && !isSecretMetadata(source, r) {
			return true
		}
	}
	return false
}

// isSecretMetadata reports whether a path leads to the metadata of a Secret, which is not secret, except for
// annotations: kubectl stores the applied object in one.
func isSecretMetadata(source *Node, r expr.Ref) bool {
	path := r.Path
	if source.Collection && len(path) > 0 {
		path = path[1:] // to one of its items
	}
	if source.Kind.GroupKind() != secretKind || source.readsSecret || len(path) < 2 || path[0].Name != "metadata" {
		return false
	}
	return path[1].Name != "" && path[1].Name != "annotations"
}

// itemNamesMayBeSecret reports whether the names of a collection's items may come from a Secret: all iterators are
// part of the names.
func (g *Graph) itemNamesMayBeSecret(n *Node) bool {
	if !n.readsSecret {
		return false
	}
	refs := slices.Clone(n.forEach.identity.Refs())
	for _, d := range n.forEach.dimensions {
		refs = append(refs, d.list.Refs()...)
	}
	return g.mayReadSecret(refs)
}

// redactedText is the text of an evaluation's error without values: the field, the expression, the function that failed and the kind
// of the error.
func redactedText(err error) string {
	var (
		failed   *expr.Failure
		mismatch *expr.Mismatch
		limit    *expr.LimitExceeded
	)
	switch {
	case errors.As(err, &failed):
		return failed.Redacted() + " " + redacted
	case errors.As(err, &mismatch):
		return mismatch.Redacted()
	case errors.As(err, &limit):
		return limit.Error()
	}
	return "an expression has no value for these inputs " + redacted
}

const redacted = "(not shown: it may contain Secret data)"
