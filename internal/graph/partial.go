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
	c := newCompilation(spec, Graph{})
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
	if !beginsWith(steps, "spec", "resources") || len(steps) < 4 {
		return p.c.env
	}
	index, isIndex := steps[2].(int)
	if !isIndex || index >= len(p.c.drafts) {
		return p.c.env
	}
	return p.c.envOfField(p.c.drafts[index], steps[3:])
}

func (c *compilation) envOfField(d *draft, field []any) *expr.Env {
	env := c.env
	switch {
	case field[0] == "readyWhen" && d.Collection:
		if with, err := env.With(expr.Declaration{Name: eachVariable, Schema: d.objectSchema()}); err == nil {
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

// NodeWithID returns the index of a node in the definition's list, and its kind, which is empty if it is not known.
func (p *Partial) NodeWithID(id string) (index int, kind schema.GroupVersionKind, found bool) {
	index = slices.IndexFunc(p.c.drafts, func(d *draft) bool { return d.ID == id })
	if index < 0 {
		return 0, schema.GroupVersionKind{}, false
	}
	return index, p.c.drafts[index].Kind, true
}
