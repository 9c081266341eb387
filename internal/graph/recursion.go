package graph

// checkRecursion refuses a definition if each instance creates another instance of the same kind. With a condition
// the instances may end; the limit of nested instances ends the rest.
func checkRecursion(c *compilation) {
	if c.graph.embedded != nil || c.graph.standalone != nil {
		return
	}
	conditional := c.graph.conditionalNodes()
	for _, n := range c.graph.Nodes {
		if !n.hasOwnObjects() || n.Kind.GroupKind() != c.graph.Kind.GroupKind() || conditional[n.ID] || n.forEach != nil {
			continue
		}
		c.problems.Addf(c.draftByID(n.ID).documentPath(),
			"creates another %s for each %[1]s, without end: set includeWhen, or refer to an existing %[1]s with %s", n.Kind.Kind, c.words.reference)
	}
}
