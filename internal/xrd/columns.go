package xrd

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

type column = extv1.CustomResourceColumnDefinition

func condition(name, kind string) column {
	return column{Name: name, Type: "string", JSONPath: ".status.conditions[?(@.type=='" + kind + "')].status"}
}

func age() column { return column{Name: "AGE", Type: "date", JSONPath: ".metadata.creationTimestamp"} }

// compositeColumns come after the author's.
func compositeColumns(scope v1.Scope) []column {
	p := PlacesOf(scope)
	return []column{
		condition("SYNCED", v1.TypeSynced),
		condition("READY", v1.TypeReady),
		{Name: "COMPOSITION", Type: "string", JSONPath: p.CompositionRef.jsonPath() + ".name"},
		{Name: "COMPOSITIONREVISION", Type: "string", JSONPath: p.CompositionRevisionRef.jsonPath() + ".name", Priority: 1},
		age(),
	}
}

// claimColumns come after the author's.
func claimColumns() []column {
	return []column{
		condition("SYNCED", v1.TypeSynced),
		condition("READY", v1.TypeReady),
		{Name: "CONNECTION-SECRET", Type: "string", JSONPath: ClaimPlaces().ConnectionSecretRef.jsonPath() + ".name"},
		age(),
	}
}
