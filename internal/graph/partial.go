package graph

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph/expr"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// Partial is a definition as far as it compiles, also with problems: for editors. It is immutable.
type Partial struct{ c *compilation }

// CompilePartially compiles a definition as far as possible.
func CompilePartially(spec *v1alpha1.DefinitionSpec, kinds Kinds) *Partial {
	return compilePartially(spec, kinds, Graph{})
}

// CompileGraphPartially is CompilePartially for the spec of a Graph.
func CompileGraphPartially(spec *v1alpha1.GraphSpec, kinds Kinds) *Partial {
	definition, host, _ := asDefinition(spec)
	return compilePartially(definition, kinds, Graph{standalone: host})
}

func compilePartially(spec *v1alpha1.DefinitionSpec, kinds Kinds, host Graph) *Partial {
	c := newCompilation(spec, host)
	c.kinds = kinds
	if spec.Schema != nil {
		for _, pass := range compilerPasses {
			pass.run(c)
		}
	}
	return &Partial{c: c}
}

// WithoutStatus returns what the kind of the instances follows from, for its schema only; nil if that has problems, here or
// when the definition was read. Any field of the status is accepted, because the types of its fields follow from the nodes.
func (p *Partial) WithoutStatus(read diag.List) *Graph {
	if p.c.spec.Schema == nil {
		return nil
	}
	for _, problem := range slices.Concat(read, p.c.problems) {
		steps := problem.Path.Segments()
		isOfSchema := len(steps) < 2 || beginsWith(steps, "spec", "schema")
		if isOfSchema && !beginsWith(steps, "spec", "schema", "status") {
			return nil
		}
	}
	isOpen := true
	status := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &isOpen, Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	declared, _ := (&compilation{}).decode(p.c.spec.Schema.Status, "spec.schema.status")
	for name := range declared { // also one with the name of a field of the engine
		status.Properties[name] = apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &isOpen}
	}
	out := *p.c.graph
	out.Status = &status
	return &out
}

// EnvAt returns the environment of the expressions in a field of the definition; nil if there is none.
func (p *Partial) EnvAt(path object.Path) *expr.Env {
	if p.c.env == nil {
		return nil
	}
	steps := path.Segments()
	if beginsWith(steps, "spec", "schema", "status", report.ConditionsField) {
		if env, err := p.c.env.ForConditions(); err == nil {
			return env
		}
	}
	d := p.nodeAt(steps)
	if d == nil {
		return p.c.env
	}
	return p.c.envOfField(d, steps[len(d.at.Segments()):])
}

// nodeAt returns the node that has a field, other than its whole; nil if none has.
func (p *Partial) nodeAt(steps []any) *draft {
	i := slices.IndexFunc(p.c.drafts, func(d *draft) bool {
		at := d.at.Segments()
		return len(steps) > len(at) && beginsWith(steps, at...)
	})
	if i < 0 {
		return nil
	}
	return p.c.drafts[i]
}

func (c *compilation) envOfField(d *draft, field []any) *expr.Env {
	env := c.envOf(d)
	switch {
	case field[0] == "readyWhen" && d.Collection:
		if with, err := env.With(d.itemDeclaration()); err == nil {
			return with
		}
	case field[0] == "readyWhen":
		return env
	case field[0] == "waitFor" && field[len(field)-1] == "rule":
		if with, err := env.With(expr.Declaration{Name: "self"}); err == nil {
			return with
		}
	case field[0] == "forEach" && len(field) > 1:
		if i, isIndex := field[1].(int); isIndex && i < len(d.dimensionEnvs) {
			return d.dimensionEnvs[i]
		}
	}
	if d.env != nil {
		return d.env
	}
	return env
}

func beginsWith(steps []any, prefix ...any) bool {
	return len(steps) >= len(prefix) && slices.Equal(steps[:len(prefix)], prefix)
}

// NodeWithID returns the field of a node in the definition, and its kind, which is empty if it is not known.
func (p *Partial) NodeWithID(id string) (at object.Path, kind schema.GroupVersionKind, found bool) {
	d := p.c.draftByID(id)
	if d == nil {
		return "", schema.GroupVersionKind{}, false
	}
	return d.at, d.Kind, true
}

// NodeAround returns the field of the node in which a field is; empty if it is in none.
func (p *Partial) NodeAround(path object.Path) object.Path {
	if d := p.nodeAt(path.Segments()); d != nil {
		return d.at
	}
	return ""
}

// NamesAt are the ids that waitFor of the node around a field can name.
func (p *Partial) NamesAt(path object.Path) []string {
	d := p.nodeAt(path.Segments())
	switch {
	case d == nil:
		return nil
	case d.frame != nil:
		return slices.Clone(d.frame.nodes)
	}
	return p.c.nodeIDs()
}
