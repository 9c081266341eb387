package language

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/graph"
	specschema "github.com/espalier-dev/espalier/internal/graph/schema"
	"github.com/espalier-dev/espalier/internal/object"
)

// It is nil if it is unknown. Where the object contains another one, such as a template, it continues in the schema of
// that one's kind.
func (c *Checked) schemaAt(o map[string]any, path object.Path) *spec.Schema {
	s := c.schemaOf(gvkOf(o))
	isGraph := gvkOf(o) == graph.GraphKind
	var nodes *spec.Schema // of a Graph: a graph in it has the same, which its schema cannot say
	var v any = o
	for _, step := range path.Segments() {
		s = below(s, step)
		switch {
		case isGraph && nodes == nil && step == "nodes":
			nodes = s
		case nodes != nil && step == "graph" && s != nil && len(s.Properties) == 0:
			s = &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: map[string]spec.Schema{"nodes": *nodes}}}
		}
		switch step := step.(type) {
		case string:
			fields, _ := v.(map[string]any)
			v = fields[step]
		case int:
			items, _ := v.([]any)
			v = nil
			if step < len(items) {
				v = items[step]
			}
		}
		if fields, isObject := v.(map[string]any); isObject && (s == nil || len(s.Properties) == 0) {
			if inner := c.schemaOf(gvkOf(fields)); inner != nil {
				s = inner
			}
		}
	}
	return s
}

// It is nil if it is unknown.
func (c *Checked) schemaOf(gvk schema.GroupVersionKind) *spec.Schema {
	if gvk.Kind == "" || gvk.Version == "" {
		return nil
	}
	kind, known := c.lookUp(gvk)
	if !known || kind.Schema == nil {
		return nil
	}
	out := specschema.WithObjectMeta(kind.Schema)
	out.Properties["metadata"] = *c.workspace.MetadataSchema()
	for _, name := range []string{"apiVersion", "kind"} {
		if p, has := kind.Schema.Properties[name]; has {
			out.Properties[name] = p
		}
	}
	return out
}

func below(s *spec.Schema, step any) *spec.Schema {
	if s = unwrap(s); s == nil {
		return nil
	}
	if _, isIndex := step.(int); isIndex {
		if s.Items == nil {
			return nil
		}
		return s.Items.Schema
	}
	name, _ := step.(string)
	if p, has := s.Properties[name]; has {
		return &p
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Schema
	}
	return nil
}

// An allOf of one gives a description to it.
func unwrap(s *spec.Schema) *spec.Schema {
	for s != nil && len(s.Type) == 0 && len(s.Properties) == 0 && len(s.AllOf) == 1 {
		s = &s.AllOf[0]
	}
	return s
}

func typeOf(s *spec.Schema) string {
	inner := unwrap(s)
	if inner == nil {
		return "any value"
	}
	intOrString, _ := inner.Extensions.GetBool("x-kubernetes-int-or-string")
	switch {
	case intOrString || inner.Format == "int-or-string":
		return "integer or string"
	case inner.Items != nil && inner.Items.Schema != nil:
		return "list of " + typeOf(inner.Items.Schema)
	case len(inner.Properties) == 0 && inner.AdditionalProperties != nil && inner.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(inner.AdditionalProperties.Schema)
	case len(inner.Type) == 0 && len(inner.Properties) > 0:
		return "object"
	case len(inner.Type) == 0:
		return "any value"
	}
	return strings.Join(inner.Type, " or ")
}

// The text is Markdown.
func describeField(name string, s *spec.Schema) string {
	var b strings.Builder
	fmt.Fprintf(&b, "```\n%s: %s\n```\n", name, typeOf(s))
	inner := unwrap(s)
	if inner == nil {
		return b.String()
	}
	if doc := cmp.Or(s.Description, inner.Description); doc != "" {
		b.WriteString("\n" + doc + "\n")
	}
	if values := enumOf(inner); len(values) > 0 {
		b.WriteString("\nOne of: " + strings.Join(values, ", ") + "\n")
	}
	if inner.Default != nil {
		fmt.Fprintf(&b, "\nDefault: `%v`\n", inner.Default)
	}
	return b.String()
}

func enumOf(s *spec.Schema) []string {
	var out []string
	for _, v := range s.Enum {
		out = append(out, fmt.Sprint(v))
	}
	if len(out) == 0 && slices.Equal(s.Type, spec.StringOrArray{"boolean"}) {
		out = []string{"true", "false"}
	}
	return out
}

// They are sorted, required fields first.
func fieldsOf(s *spec.Schema) []string {
	s = unwrap(s)
	if s == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(s.Properties), func(a, b string) int {
		rank := func(name string) int {
			if slices.Contains(s.Required, name) {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
}
