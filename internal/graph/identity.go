package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// checkIdentity refuses omit() for the fields that identify an object: its name, and its
// namespace if the instance is cluster-scoped.
func (c *compilation) checkIdentity(d *draft) {
	if c.graph.embedded != nil {
		return
	}
	metadata := d.documentPath().Field("metadata")
	for _, e := range d.template.Expressions() {
		if !e.Program.Omits() {
			continue
		}
		for _, field := range []string{"name", "namespace"} {
			needed := field == "name" || d.KindKnown && d.Namespaced && !c.graph.Namespaced
			if needed && e.Path == metadata.Field(field) {
				c.problems.Add(diag.Diagnostic{
					Path: e.Path, Expr: e.Program.Source(),
					Problem: "omit() cannot be used at path \"metadata." + field + "\": it identifies the object",
				})
			}
		}
	}
}

// checkLiteralNames checks names and namespaces without expressions. A missing name is
// reported elsewhere.
func (c *compilation) checkLiteralNames(d *draft, metadata map[string]any, at object.Path) {
	for _, part := range []struct {
		field string
		check func(string) string
	}{{"name", d.nameRule.Check}, {"namespace", object.CheckNamespace}} {
		text, _ := metadata[part.field].(string)
		if text == "" || hasExpression(text) {
			continue
		}
		if why := part.check(text); why != "" {
			c.problems.Addf(at.Field(part.field), "%q is invalid: %s", diag.Truncate(text, maxShownName), why)
		}
	}
}

// checkLiteralLabels checks labels and the keys of annotations without expressions: the API server refuses every object with an invalid one.
func (c *compilation) checkLiteralLabels(metadata map[string]any, at object.Path) {
	for _, field := range []string{"annotations", "labels"} {
		values, _ := metadata[field].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if why := object.CheckMetadataKey(field, key); why != "" && !hasExpression(key) {
				c.problems.Addf(at.Field(field, key), "the key %q is invalid: %s", diag.Truncate(key, maxShownName), why)
			}
			text, _ := values[key].(string)
			if why := object.CheckLabelValue(text); field == "labels" && why != "" && !hasExpression(text) {
				c.problems.Addf(at.Field(field, key), "%q is invalid: %s", diag.Truncate(text, maxShownName), why)
			}
		}
	}
}

// checkServerFields refuses fields that only the API server sets: it refuses every object with one, or every update.
// It ignores the other fields that it assigns, such as the creationTimestamp: null that kubectl create prints.
func (c *compilation) checkServerFields(d *draft, metadata map[string]any, at object.Path) {
	for _, field := range []string{"deletionGracePeriodSeconds", "deletionTimestamp", "managedFields", "resourceVersion", "uid"} {
		if value := metadata[field]; value != nil && value != "" {
			c.problems.Addf(at.Field(field), "the API server assigns it: remove it from the %s", d.documentName())
		}
	}
}

// invalidName returns the field that keeps a rendered object from having a URL, and why:
// its name or its namespace is empty or invalid. The API server would route a request for
// such a URL to another handler or to none, and its answer would not name the field. The
// host of an embedded graph checks what it gets.
func (c *composition) invalidName(n *Node, o *unstructured.Unstructured) (field, why string) {
	name, namespace := o.GetName(), o.GetNamespace()
	if c.graph.embedded != nil {
		if name == "" && (n.External || n.forEach != nil) {
			return "name", n.nameRule.Check("")
		}
		return "", ""
	}
	if why := n.nameRule.Check(name); why != "" {
		return "name", n.invalidNamePrefix(name) + why
	}
	switch {
	case namespace != "":
		if why := object.CheckNamespace(namespace); why != "" {
			return "namespace", n.invalidNamePrefix(namespace) + why
		}
	case n.Namespaced:
		return "namespace", fmt.Sprintf("it is empty; %s is namespaced, and instances of %s are cluster-scoped", n.Kind.Kind, c.graph.Kind.Kind)
	}
	return "", ""
}

// invalidNamePrefix begins a message about an invalid name. It hides a name that may come
// from a Secret.
func (n *Node) invalidNamePrefix(name string) string {
	switch {
	case name == "":
		return ""
	case n.readsSecret:
		return "it is invalid " + redacted + ": "
	}
	return fmt.Sprintf("%q is invalid: ", diag.Truncate(strings.ToValidUTF8(name, "�"), maxShownName))
}

// maxShownName is in bytes.
const maxShownName = 100
