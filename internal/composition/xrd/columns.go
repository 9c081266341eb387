package xrd

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Options configure the CustomResourceDefinitions.
type Options struct {
	// AdditionalPrinterColumns adds printer columns besides those of Crossplane.
	AdditionalPrinterColumns bool
}

type column = extv1.CustomResourceColumnDefinition

func (o Options) additionalColumns(d *v1.CompositeResourceDefinition) []column {
	if !o.AdditionalPrinterColumns {
		return nil
	}
	return report.PrinterColumns(UndeclaredStatusFields(d))
}

// compositeColumns come after the author's.
func compositeColumns(scope v1.Scope, more []column) []column {
	p := LayoutOf(scope)
	columns := []column{
		conditionColumn("SYNCED", v1.TypeSynced),
		conditionColumn("READY", v1.TypeReady),
		{Name: "COMPOSITION", Type: "string", JSONPath: p.CompositionRef.jsonPath() + ".name"},
		{Name: "COMPOSITIONREVISION", Type: "string", JSONPath: p.CompositionRevisionRef.jsonPath() + ".name", Priority: 1},
	}
	return append(append(columns, more...), ageColumn())
}

// claimColumns come after the author's.
func claimColumns(more []column) []column {
	columns := []column{
		conditionColumn("SYNCED", v1.TypeSynced),
		conditionColumn("READY", v1.TypeReady),
		{Name: "CONNECTION-SECRET", Type: "string", JSONPath: ClaimLayout().ConnectionSecretRef.jsonPath() + ".name"},
	}
	return append(append(columns, more...), ageColumn())
}

func conditionColumn(name, kind string) column {
	return column{Name: name, Type: "string", JSONPath: ".status.conditions[?(@.type=='" + kind + "')].status"}
}

func ageColumn() column {
	return column{Name: "AGE", Type: "date", JSONPath: ".metadata.creationTimestamp"}
}
