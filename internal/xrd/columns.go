package xrd

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/report"
)

type column = extv1.CustomResourceColumnDefinition

func condition(name, kind string) column {
	return column{Name: name, Type: "string", JSONPath: ".status.conditions[?(@.type=='" + kind + "')].status"}
}

// removed tells how far the deletion of an object has come, while it is being deleted.
func removed(room report.Room) []column {
	if !room.Deletion {
		return nil
	}
	return []column{{Name: "REMOVED", Type: "string", JSONPath: ".status." + report.DeletionField + ".progress", Description: "How many of its objects are gone, of how many, while it is being deleted"}}
}

func age() column { return column{Name: "AGE", Type: "date", JSONPath: ".metadata.creationTimestamp"} }

// compositeColumns come after the author's.
func compositeColumns(scope v1.Scope, room report.Room) []column {
	p := PlacesOf(scope)
	columns := []column{
		condition("SYNCED", v1.TypeSynced),
		condition("READY", v1.TypeReady),
		{Name: "COMPOSITION", Type: "string", JSONPath: p.CompositionRef.jsonPath() + ".name"},
		{Name: "COMPOSITIONREVISION", Type: "string", JSONPath: p.CompositionRevisionRef.jsonPath() + ".name", Priority: 1},
	}
	return append(append(columns, removed(room)...), age())
}

// claimColumns come after the author's.
func claimColumns(room report.Room) []column {
	columns := []column{
		condition("SYNCED", v1.TypeSynced),
		condition("READY", v1.TypeReady),
		{Name: "CONNECTION-SECRET", Type: "string", JSONPath: ClaimPlaces().ConnectionSecretRef.jsonPath() + ".name"},
	}
	return append(append(columns, removed(room)...), age())
}
