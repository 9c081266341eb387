package graph

import "github.com/espalier-dev/espalier/internal/diag"

// checkIdentity refuses omit() where an object is found by what it would leave out: its
// name, and its namespace where the instance has none to give.
func (c *compilation) checkIdentity(d *draft) {
	if c.graph.guest != nil {
		return
	}
	metadata := d.documentPath().Field("metadata")
	for _, e := range d.template.Expressions() {
		if !e.Program.Omits() {
			continue
		}
		for _, field := range []string{"name", "namespace"} {
			needed := field == "name" || d.Known && d.Namespaced && !c.graph.Namespaced
			if needed && e.Path == metadata.Field(field) {
				c.problems.Add(diag.Diagnostic{
					Path: e.Path, Expr: e.Program.Source(),
					Problem: "omit() cannot be used at path \"metadata." + field + "\": an object is found by it",
				})
			}
		}
	}
}
