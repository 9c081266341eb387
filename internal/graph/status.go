package graph

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

func compileStatus(c *compilation) {
	const at = "spec.schema.status"
	fields, ok := c.decode(c.spec.Schema.Status, at)
	if !ok || c.env == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch {
		case name == report.StateField && c.graph.embedded == nil:
			c.graph.Warnings.Addf(at+".state", "is not used: Espalier sets this field")
			delete(fields, name)
		case name == report.ConditionsField:
			c.compileConditions(fields[name], at+".conditions")
			delete(fields, name)
		}
	}
	if c.graph.embedded == nil {
		c.checkComputed(fields, at)
	}
	template, problems := c.env.Template(fields, nil, at)
	c.problems.Add(problems...)
	if template == nil {
		return
	}
	c.problems.Add(template.ForbidOmit()...)
	c.graph.status = template
	inferred := template.Schema()
	if inferred == nil {
		inferred = &apiextensionsv1.JSONSchemaProps{Type: "object"}
	}
	c.graph.Status, c.graph.StatusFields = inferred, report.UndeclaredFields(inferred)
}

// checkComputed refuses strings without an expression: they are mostly types such as
// "string", which the compiler infers.
func (c *compilation) checkComputed(value any, at object.Path) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			c.checkComputed(v[name], at.Field(name))
		}
	case []any:
		for i, item := range v {
			c.checkComputed(item, at.Index(i))
		}
	case string:
		if !hasExpression(v) {
			c.problems.Add(diag.Diagnostic{
				Path: at, Problem: "failed to build instance status schema: status fields without expressions are not supported",
				Expected: "an expression such as ${vpc.status.id}, which has an inferred type; a constant text is ${'text'}",
			})
		}
	}
}
