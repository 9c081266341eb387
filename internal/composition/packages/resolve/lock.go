package resolve

import (
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/api/pkg/v1beta1"
)

// Locked is an active revision with its dependencies.
type Locked struct {
	Revision string
	Package
	Dependencies []Dependency
}

// Lock returns the content of the Lock, sorted by revision.
func Lock(active []Locked) []v1beta1.LockPackage {
	out := make([]v1beta1.LockPackage, 0, len(active))
	for _, a := range active {
		p := v1beta1.LockPackage{Name: a.Revision, APIVersion: &a.APIVersion, Kind: &a.Kind, Source: a.Source, Version: a.Version, Dependencies: []v1beta1.LockDependency{}}
		for _, d := range a.Dependencies {
			p.Dependencies = append(p.Dependencies, v1beta1.LockDependency{Package: d.Source, APIVersion: &d.APIVersion, Kind: &d.Kind, Constraints: d.Constraint})
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b v1beta1.LockPackage) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// FromLock returns the dependencies of a revision that the Lock has. Entries of older versions of Crossplane name a type instead
// of apiVersion and kind.
func FromLock(p v1beta1.LockPackage, apiVersion string) []Dependency {
	out := []Dependency{}
	for _, d := range p.Dependencies {
		next := Dependency{APIVersion: apiVersion, Source: d.Package, Constraint: d.Constraints}
		switch {
		case d.Kind != nil:
			next.Kind = *d.Kind
		case d.Type != nil:
			next.Kind = string(*d.Type)
		}
		if d.APIVersion != nil {
			next.APIVersion = *d.APIVersion
		}
		out = append(out, next)
	}
	return out
}
