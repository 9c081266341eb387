package xrd

import (
	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Room is which of the engine's status fields the author's schema leaves free in all
// versions.
func Room(d *v1.CompositeResourceDefinition) report.FieldSet {
	room := report.AllFields
	for i := range d.Spec.Versions {
		author, err := parseSchema(&d.Spec.Versions[i])
		if err != nil {
			continue
		}
		status := author.Properties["status"]
		left := report.UndeclaredFields(&status)
		room = room.Intersect(left)
	}
	return room
}

// progressSchemas are the schemas of the engine's status fields that are free.
func progressSchemas(room report.FieldSet) schemas { return report.Fields(room) }
