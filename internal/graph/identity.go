package graph

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

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

// checkLiteralNames checks names and namespaces that are written out: they are the same
// for every instance. That one is missing is checked elsewhere.
func (c *compilation) checkLiteralNames(d *draft, metadata map[string]any, at object.Path) {
	for _, part := range []struct {
		field string
		check func(string) string
	}{{"name", d.names.Check}, {"namespace", object.CheckNamespace}} {
		text, _ := metadata[part.field].(string)
		if text == "" || computed(text) {
			continue
		}
		if why := part.check(text); why != "" {
			c.problems.Addf(at.Field(part.field), "%q is invalid: %s", diag.Cut(text, longestName), why)
		}
	}
}

// misnamed says which field keeps a rendered object from having a URL: its name or its
// namespace is empty, or no API server would take it. A request for such a URL would be
// answered by another handler or by none, so that the answer would not name the field. A
// guest's host checks what it gets.
func (c *composition) misnamed(n *Node, o *unstructured.Unstructured) (field, why string) {
	name, namespace := o.GetName(), o.GetNamespace()
	if c.graph.guest != nil {
		if name == "" && (n.External || n.items != nil) {
			return "name", n.names.Check("")
		}
		return "", ""
	}
	if why := n.names.Check(name); why != "" {
		return "name", n.quoted(name) + why
	}
	switch {
	case namespace != "":
		if why := object.CheckNamespace(namespace); why != "" {
			return "namespace", n.quoted(namespace) + why
		}
	case n.Namespaced:
		return "namespace", fmt.Sprintf("it is empty; %s is namespaced, and instances of %s are cluster-scoped", n.Kind.Kind, c.graph.Kind.Kind)
	}
	return "", ""
}

// quoted is a name with which something is wrong, as a message begins with it. It may be
// from a Secret.
func (n *Node) quoted(name string) string {
	switch {
	case name == "":
		return ""
	case n.derived:
		return "it is invalid " + hidden + ": "
	}
	return fmt.Sprintf("%q is invalid: ", diag.Cut(strings.ToValidUTF8(name, "�"), longestName))
}

// longestName bounds how much of a wrong name a message repeats, in bytes.
const longestName = 100
