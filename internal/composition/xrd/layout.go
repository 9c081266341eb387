package xrd

import (
	"strings"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/object"
)

// FieldPath is the path of a field from the root of an object. The zero FieldPath stands for a field that the kind
// lacks.
type FieldPath []string

// Path is the path in the notation of messages: spec.compositionRef.
func (p FieldPath) Path() object.Path { return object.Path("").Field(p...) }

func (p FieldPath) jsonPath() string { return "." + strings.Join(p, ".") }

// Layout contains the paths of Crossplane's fields in the objects of a kind, so the same code reads and writes
// composites of all scopes and claims.
type Layout struct {
	// Namespaced says that composed objects are in the object's own namespace; references
	// to them have no namespace.
	Namespaced bool

	CompositionRef              FieldPath
	CompositionSelector         FieldPath
	CompositionRevisionRef      FieldPath
	CompositionRevisionSelector FieldPath
	CompositionUpdatePolicy     FieldPath

	// ResourceRefs and PendingResources are fields of composites.
	ResourceRefs     FieldPath
	PendingResources FieldPath

	// ClaimRef is a field of composites that can be claimed; ResourceRef and DeletePolicy
	// are fields of claims.
	ClaimRef     FieldPath
	ResourceRef  FieldPath
	DeletePolicy FieldPath

	// ConnectionSecretRef, LastPublishedTime and ClaimConditionTypes are fields of claims and
	// of composites that can be claimed.
	ConnectionSecretRef FieldPath
	LastPublishedTime   FieldPath
	ClaimConditionTypes FieldPath

	Conditions FieldPath
}

// LayoutOf is the layout of composites of a scope.
func LayoutOf(scope v1.Scope) Layout {
	if scope != v1.LegacyClusterScope {
		p := selectionLayout("spec", "crossplane")
		p.Namespaced = scope == v1.NamespacedScope
		p.ResourceRefs = FieldPath{"spec", "crossplane", "resourceRefs"}
		p.PendingResources = FieldPath{"status", "crossplane", "pendingResources"}
		return p
	}
	p := claimableLayout()
	p.ResourceRefs = FieldPath{"spec", "resourceRefs"}
	p.PendingResources = FieldPath{"status", "pendingResources"}
	p.ClaimRef = FieldPath{"spec", "claimRef"}
	return p
}

// ClaimLayout is the layout of claims.
func ClaimLayout() Layout {
	p := claimableLayout()
	p.Namespaced = true
	p.ResourceRef = FieldPath{"spec", "resourceRef"}
	p.DeletePolicy = FieldPath{"spec", "compositeDeletePolicy"}
	return p
}

func claimableLayout() Layout {
	p := selectionLayout("spec")
	p.ConnectionSecretRef = FieldPath{"spec", "writeConnectionSecretToRef"}
	p.LastPublishedTime = FieldPath{"status", "connectionDetails", "lastPublishedTime"}
	p.ClaimConditionTypes = FieldPath{"status", "claimConditionTypes"}
	return p
}

func selectionLayout(parent ...string) Layout {
	below := func(name string) FieldPath { return append(append(FieldPath{}, parent...), name) }
	return Layout{
		CompositionRef:              below("compositionRef"),
		CompositionSelector:         below("compositionSelector"),
		CompositionRevisionRef:      below("compositionRevisionRef"),
		CompositionRevisionSelector: below("compositionRevisionSelector"),
		CompositionUpdatePolicy:     below("compositionUpdatePolicy"),
		Conditions:                  FieldPath{"status", "conditions"},
	}
}

// SetInStatus sets the field in a status. It does nothing if the kind lacks the field.
func (p FieldPath) SetInStatus(status map[string]any, value any) {
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
