// Package activation decides which ManagedResourceDefinitions become active: a policy names them, or their kind is one that a
// definition composes. None becomes inactive again: its objects would be lost.
//
// Pure: it decides from values alone.
package activation

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Definition is a ManagedResourceDefinition.
type Definition struct {
	Name   string
	Kind   schema.GroupKind
	Active bool
}

// Policy is a ManagedResourceActivationPolicy.
type Policy struct {
	Name string
	// Patterns have the syntax of path.Match.
	Patterns []string
}

// Status is the status of a policy.
type Status struct {
	// Activated are the definitions that it matches, sorted.
	Activated []string
	// Problem says which patterns are malformed.
	Problem string
}

// Plan is what to do.
type Plan struct {
	// Activate are the definitions to activate, sorted.
	Activate []string
	// Statuses are the statuses of all policies, by name.
	Statuses map[string]Status
}

// Compute decides for all definitions and policies together.
func Compute(definitions []Definition, policies []Policy, composed []schema.GroupKind) Plan {
	p := Plan{Statuses: map[string]Status{}}
	wanted := map[string]bool{}
	for _, policy := range policies {
		status := policy.match(definitions)
		p.Statuses[policy.Name] = status
		for _, name := range status.Activated {
			wanted[name] = true
		}
	}
	for _, d := range definitions {
		if !d.Active && (wanted[d.Name] || slices.Contains(composed, d.Kind)) {
			p.Activate = append(p.Activate, d.Name)
		}
	}
	slices.Sort(p.Activate)
	return p
}

func (p Policy) match(definitions []Definition) (s Status) {
	var malformed []string
	for _, pattern := range p.Patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			malformed = append(malformed, fmt.Sprintf("%q", pattern))
		}
	}
	if len(malformed) > 0 {
		s.Problem = "spec.activate has malformed patterns: " + strings.Join(malformed, ", ")
	}
	for _, d := range definitions {
		if slices.ContainsFunc(p.Patterns, func(pattern string) bool { ok, _ := path.Match(pattern, d.Name); return ok }) {
			s.Activated = append(s.Activated, d.Name)
		}
	}
	slices.Sort(s.Activated)
	return s
}
