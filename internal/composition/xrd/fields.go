package xrd

import (
	"reflect"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// Fields are the machinery's fields in which the instance differs from what it was.
func (i Instance) Fields(before Instance) []inventory.Field {
	p := i.places
	var out []inventory.Field
	for _, place := range []Place{
		p.CompositionRef, p.CompositionSelector, p.CompositionRevisionRef, p.CompositionRevisionSelector, p.CompositionUpdatePolicy,
		p.ResourceRefs, p.ClaimRef, p.ResourceRef, p.DeletePolicy, p.ConnectionSecretRef,
	} {
		if len(place) == 0 {
			continue
		}
		if value := i.get(place); !reflect.DeepEqual(value, before.get(place)) {
			out = append(out, inventory.Field{Path: place, Value: value})
		}
	}
	return out
}

// Snapshot is what the objects of a definition's kinds are composed by, as it is at one
// time. It is never changed.
type Snapshot struct {
	Definition   *v1.CompositeResourceDefinition
	Compositions []*v1.Composition
	Revisions    []*v1.CompositionRevision
}
