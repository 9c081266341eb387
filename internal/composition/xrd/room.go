package xrd

import (
	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Room is what the author's status leaves, in all versions, of the fields in which the
// engine tells how it gets on.
func Room(d *v1.CompositeResourceDefinition) report.Room {
	room := report.AllRoom
	for i := range d.Spec.Versions {
		author, err := parse(&d.Spec.Versions[i])
		if err != nil {
			continue
		}
		status := author.Properties["status"]
		left := report.RoomIn(&status)
		room = room.Within(left)
	}
	return room
}

// progress are the engine's fields in a status, as far as there is room.
func progress(room report.Room) fields { return report.Fields(room) }
