package xrd

import (
	"reflect"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// ChangedFields are Crossplane's spec fields that differ between the instance and before.
func (i Instance) ChangedFields(before Instance) []inventory.Field {
	p := i.layout
	var out []inventory.Field
	for _, place := range []FieldPath{
		p.CompositionRef, p.CompositionSelector, p.CompositionRevisionRef, p.CompositionRevisionSelector, p.CompositionUpdatePolicy,
		p.ResourceRefs, p.ClaimRef, p.ResourceRef, p.DeletePolicy, p.ConnectionSecretRef,
	} {
		if len(place) == 0 {
			continue
		}
		if value := i.fieldAt(place); !reflect.DeepEqual(value, before.fieldAt(place)) {
			out = append(out, inventory.Field{Path: place, Value: value})
		}
	}
	return out
}

// Snapshot is a definition with all compositions for its composite kind and their revisions,
// at one time. It is immutable.
type Snapshot struct {
	Definition   *v1.CompositeResourceDefinition
	Compositions []*v1.Composition
	Revisions    []*v1.CompositionRevision
	// ForeignComposites says that the composite kind is served, and is not the definition's.
	ForeignComposites bool
}
