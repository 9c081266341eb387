package xrd

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

type column = extv1.CustomResourceColumnDefinition

func condition(name, kind string) column {
	return column{Name: name, Type: "string", JSONPath: ".status.conditions[?(@.type=='" + kind + "')].status"}
}

// Options are what whoever serves kinds decides of them.
type Options struct {
	// MoreColumns has kubectl get show more than the dialect's columns.
	MoreColumns bool
}

// more are the columns that are shown besides those of the dialect.
func (o Options) more(d *v1.CompositeResourceDefinition) []column {
	if !o.MoreColumns {
		return nil
	}
	return report.MoreColumns(Room(d))
}

func age() column { return column{Name: "AGE", Type: "date", JSONPath: ".metadata.creationTimestamp"} }

// compositeColumns come after the author's.
func compositeColumns(scope v1.Scope, more []column) []column {
	p := PlacesOf(scope)
	columns := []column{
		condition("SYNCED", v1.TypeSynced),
		condition("READY", v1.TypeReady),
		{Name: "COMPOSITION", Type: "string", JSONPath: p.CompositionRef.jsonPath() + ".name"},
		{Name: "COMPOSITIONREVISION", Type: "string", JSONPath: p.CompositionRevisionRef.jsonPath() + ".name", Priority: 1},
	}
	return append(append(columns, more...), age())
}

// claimColumns come after the author's.
func claimColumns(more []column) []column {
	columns := []column{
		condition("SYNCED", v1.TypeSynced),
		condition("READY", v1.TypeReady),
		{Name: "CONNECTION-SECRET", Type: "string", JSONPath: ClaimPlaces().ConnectionSecretRef.jsonPath() + ".name"},
	}
	return append(append(columns, more...), age())
}
