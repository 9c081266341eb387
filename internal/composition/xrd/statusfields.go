package xrd

import (
	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// UndeclaredStatusFields are the status fields of the instance reconciler that no version of the author's
// schema declares. Only these are added to the schema and written.
func UndeclaredStatusFields(d *v1.CompositeResourceDefinition) report.FieldSet {
	undeclared := report.AllFields
	for i := range d.Spec.Versions {
		author, err := parseSchema(&d.Spec.Versions[i])
		if err != nil {
			continue
		}
		status := author.Properties["status"]
		undeclared = undeclared.Intersect(report.UndeclaredFields(&status))
	}
	return undeclared
}

func progressSchemas(fields report.FieldSet) schemas { return report.Fields(fields) }
