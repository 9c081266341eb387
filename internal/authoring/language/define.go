package language

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/apiextensions"
	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// Location is a part of a text of the workspace.
type Location struct {
	Name  string
	Range Range
}

// Definition returns where what is at a position is defined: of a name in an expression, the resource, iterator or field; of a kind, the
// definition that the workspace has of it; of a field, its place in that definition.
func (c *Checked) Definition(name string, text *Text, at Position) []Location {
	if len(text.text) > MaxTextBytes {
		return nil
	}
	p := c.at(name, text, text.Offset(at))
	switch {
	case p.document == nil || p.isNew:
		return nil
	case p.inside:
		return c.definitionOfName(name, p)
	}
	steps := p.path.Segments()
	if len(steps) == 0 {
		return nil
	}
	if steps[len(steps)-1] == "kind" && !p.isName {
		o, _ := valueAt(p.document.Object, parentOf(p.path)).(map[string]any)
		return c.definitionOfField(gvkOf(o), nil)
	}
	return c.definitionOfField(c.innermost(p.document.Object, steps))
}

// inside is the path of the field in the innermost object around it.
func (c *Checked) innermost(o map[string]any, steps []any) (gvk schema.GroupVersionKind, inside []any) {
	gvk, inside = gvkOf(o), steps
	var v any = o
	for i, step := range steps {
		v = valueAt(v, appendStep("", step))
		fields, _ := v.(map[string]any)
		if inner := gvkOf(fields); inner.Kind != "" && inner.Version != "" && i+1 < len(steps) {
			gvk, inside = inner, steps[i+1:]
		}
	}
	return gvk, inside
}

func (c *Checked) definitionOfName(name string, p place) []Location {
	d := c.definitionAt(p)
	if d == nil {
		return nil
	}
	env := d.EnvAt(p.path)
	if env == nil {
		return nil
	}
	found, ok := env.Describe(p.expression, p.offset-p.begin)
	if !ok || found.Ref.Root == "" {
		return nil
	}
	here := func(path object.Path) []Location {
		return []Location{{Name: name, Range: p.text.rangeOf(p.document.Range(path))}}
	}
	steps := stepsOf(found.Ref)
	if at, kind, isNode := d.NodeWithID(found.Ref.Root); isNode {
		if len(steps) > 0 {
			if other := c.definitionOfField(kind, steps); len(other) > 0 {
				return other
			}
		}
		return here(at.Field("id"))
	}
	switch {
	case found.Ref.Root == "schema" && len(steps) == 0:
		return here("spec.schema.kind")
	case found.Ref.Root == "schema":
		return here(withSteps("spec.schema", steps))
	}
	return c.definitionOfIterator(p, d.NodeAround(p.path), found.Ref.Root, here)
}

func (c *Checked) definitionOfIterator(p place, node object.Path, name string, here func(object.Path) []Location) []Location {
	if node == "" {
		return nil
	}
	at := node.Field("forEach")
	iterators, _ := valueAt(p.document.Object, at).([]any)
	for i, it := range iterators {
		if fields, _ := it.(map[string]any); fields[name] != nil {
			return here(at.Index(i).Field(name))
		}
	}
	return nil
}

// They end before a step that is neither a name nor an index.
func stepsOf(r expr.Ref) []any {
	var out []any
	for _, s := range r.Path {
		switch {
		case s.Each:
			return out
		case s.Name != "":
			out = append(out, s.Name)
		default:
			out = append(out, s.Index)
		}
	}
	return out
}

func withSteps(path object.Path, steps []any) object.Path {
	for _, step := range steps {
		path = appendStep(path, step)
	}
	return path
}

// The workspace has the definition. Without steps, it is the place of the kind.
func (c *Checked) definitionOfField(gvk schema.GroupVersionKind, steps []any) []Location {
	for _, d := range c.workspace.Documents() {
		at, defines := placeInDefinition(d, gvk, steps)
		f := c.files[d.File.Name]
		if !defines || f == nil {
			continue
		}
		return []Location{{Name: d.File.Name, Range: f.text.rangeOf(d.Range(at))}}
	}
	return nil
}

// The bool reports whether the document defines the kind.
func placeInDefinition(d *workspace.Document, gvk schema.GroupVersionKind, steps []any) (object.Path, bool) {
	spec, _ := d.Object.Object["spec"].(map[string]any)
	own := d.Object.GroupVersionKind()
	switch {
	case spec == nil:
		return "", false
	case isGraph(own):
		s, _ := graph.Read(spec)
		if s.Schema == nil || s.Schema.InstanceKind() != gvk {
			return "", false
		}
		if len(steps) == 0 {
			return "spec.schema.kind", true
		}
		return withSteps("spec.schema", steps), true
	case own.GroupKind() == crd.Kind.GroupKind(), own.Group == apiextensions.Group && own.Kind == v1.DefinitionKind:
		return placeInCRD(spec, gvk, steps)
	}
	return "", false
}

// It is placeInDefinition for a CustomResourceDefinition or a CompositeResourceDefinition.
func placeInCRD(spec map[string]any, gvk schema.GroupVersionKind, steps []any) (object.Path, bool) {
	if spec["group"] != gvk.Group {
		return "", false
	}
	for _, names := range []string{"names", "claimNames"} {
		kinds, _ := spec[names].(map[string]any)
		if kinds["kind"] != gvk.Kind {
			continue
		}
		at := object.Path("spec").Field(names, "kind")
		versions, _ := spec["versions"].([]any)
		for i, v := range versions {
			version, _ := v.(map[string]any)
			if version["name"] == gvk.Version && len(steps) > 0 {
				at = object.Path("spec.versions").Index(i).Field("schema", "openAPIV3Schema")
				for _, step := range steps {
					if name, isField := step.(string); isField {
						at = at.Field("properties", name)
					} else {
						at = at.Field("items")
					}
				}
			}
		}
		return at, true
	}
	return "", false
}
