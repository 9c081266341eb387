package xrd

import (
	"strings"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Place is where a field is in an object, from its root. The zero Place is of a field
// that objects of the kind don't have.
type Place []string

// Path is the place as people write it.
func (p Place) Path() object.Path { return object.Path("").Field(p...) }

func (p Place) jsonPath() string { return "." + strings.Join(p, ".") }

// Places are where objects of a kind keep what belongs to the machinery, so that one
// code reads and writes composites of any layout, and claims.
type Places struct {
	// Namespaced says that composed objects are in the object's own namespace, which is
	// why references to them have none.
	Namespaced bool

	CompositionRef              Place
	CompositionSelector         Place
	CompositionRevisionRef      Place
	CompositionRevisionSelector Place
	CompositionUpdatePolicy     Place

	// ResourceRefs are of composites, PendingResources as well.
	ResourceRefs     Place
	PendingResources Place

	// ClaimRef is of composites that can be claimed; ResourceRef and DeletePolicy are
	// of claims.
	ClaimRef     Place
	ResourceRef  Place
	DeletePolicy Place

	// ConnectionSecretRef, LastPublishedTime and ClaimConditionTypes are of claims and of
	// composites that can be claimed.
	ConnectionSecretRef Place
	LastPublishedTime   Place
	ClaimConditionTypes Place

	Conditions Place
}

// PlacesOf are those of composites of a scope.
func PlacesOf(scope v1.Scope) Places {
	if scope != v1.LegacyClusterScope {
		p := choosingBelow("spec", "crossplane")
		p.Namespaced = scope == v1.NamespacedScope
		p.ResourceRefs = Place{"spec", "crossplane", "resourceRefs"}
		p.PendingResources = Place{"status", "crossplane", "pendingResources"}
		return p
	}
	p := claimable()
	p.ResourceRefs = Place{"spec", "resourceRefs"}
	p.PendingResources = Place{"status", "pendingResources"}
	p.ClaimRef = Place{"spec", "claimRef"}
	return p
}

// ClaimPlaces are those of claims.
func ClaimPlaces() Places {
	p := claimable()
	p.Namespaced = true
	p.ResourceRef = Place{"spec", "resourceRef"}
	p.DeletePolicy = Place{"spec", "compositeDeletePolicy"}
	return p
}

// claimable are the places that claims share with the composites that they claim.
func claimable() Places {
	p := choosingBelow("spec")
	p.ConnectionSecretRef = Place{"spec", "writeConnectionSecretToRef"}
	p.LastPublishedTime = Place{"status", "connectionDetails", "lastPublishedTime"}
	p.ClaimConditionTypes = Place{"status", "claimConditionTypes"}
	return p
}

func choosingBelow(parent ...string) Places {
	below := func(name string) Place { return append(append(Place{}, parent...), name) }
	return Places{
		CompositionRef:              below("compositionRef"),
		CompositionSelector:         below("compositionSelector"),
		CompositionRevisionRef:      below("compositionRevisionRef"),
		CompositionRevisionSelector: below("compositionRevisionSelector"),
		CompositionUpdatePolicy:     below("compositionUpdatePolicy"),
		Conditions:                  Place{"status", "conditions"},
	}
}

// Put sets the field in a status, or adds it; it does nothing where objects of the kind
// don't have it.
func (p Place) Put(status map[string]any, value any) {
	if len(p) < 2 || p[0] != "status" {
		return
	}
	at := status
	for _, name := range p[1 : len(p)-1] {
		below, ok := at[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			at[name] = below
		}
		at = below
	}
	at[p[len(p)-1]] = value
}
