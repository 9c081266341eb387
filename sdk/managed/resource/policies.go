package resource

import (
	"fmt"
	"slices"
	"strings"
)

// Action is an action on an external resource.
//
// +kubebuilder:validation:Enum=Observe;Create;Update;Delete;LateInitialize;*
type Action string

// Actions.
const (
	ActionObserve        Action = "Observe"
	ActionCreate         Action = "Create"
	ActionUpdate         Action = "Update"
	ActionDelete         Action = "Delete"
	ActionLateInitialize Action = "LateInitialize"
	ActionAll            Action = "*"
)

// Policies are the allowed actions, in any order. nil stands for all; an empty list
// pauses the resource.
type Policies []Action

// validSets are the valid sets, each sorted by the order of actions. All but the empty one
// include Observe.
var validSets = [][]Action{
	{},
	{ActionAll},
	{ActionObserve},
	{ActionObserve, ActionCreate},
	{ActionObserve, ActionUpdate},
	{ActionObserve, ActionDelete},
	{ActionObserve, ActionLateInitialize},
	{ActionObserve, ActionCreate, ActionUpdate},
	{ActionObserve, ActionCreate, ActionDelete},
	{ActionObserve, ActionCreate, ActionLateInitialize},
	{ActionObserve, ActionUpdate, ActionLateInitialize},
	{ActionObserve, ActionCreate, ActionUpdate, ActionDelete},
	{ActionObserve, ActionCreate, ActionUpdate, ActionLateInitialize},
	{ActionObserve, ActionCreate, ActionDelete, ActionLateInitialize},
	{ActionObserve, ActionCreate, ActionUpdate, ActionDelete, ActionLateInitialize},
}

// order is the order of actions in sets here.
var order = []Action{ActionAll, ActionObserve, ActionCreate, ActionUpdate, ActionDelete, ActionLateInitialize}

// sorted returns the set in order, without duplicates.
func (p Policies) sorted() []Action {
	out := []Action{}
	for _, a := range order {
		if slices.Contains(p, a) {
			out = append(out, a)
		}
	}
	return out
}

// Validate returns an error unless the set is one of the fifteen valid ones, or nil, which is
// the default.
func (p Policies) Validate() error {
	if p == nil {
		return nil
	}
	for _, a := range p {
		if !slices.Contains(order, a) {
			return fmt.Errorf("spec.managementPolicies: unknown action %q: use %s, or \"*\" alone", a, names(order[1:]))
		}
	}
	set := p.sorted()
	if slices.ContainsFunc(validSets, func(l []Action) bool { return slices.Equal(l, set) }) {
		return nil
	}
	switch {
	case slices.Contains(set, ActionAll):
		return fmt.Errorf(`spec.managementPolicies: "*" already stands for all actions: remove it, or remove %s`, names(set[1:]))
	case !slices.Contains(set, ActionObserve):
		return fmt.Errorf("spec.managementPolicies: %s: every action requires Observe: add Observe", names(set))
	}
	return fmt.Errorf("spec.managementPolicies: invalid combination %s: Delete together with Update or LateInitialize requires Create: add Create, or remove Delete", names(set))
}

func names(set []Action) string {
	texts := make([]string, len(set))
	for i, a := range set {
		texts[i] = string(a)
	}
	return strings.Join(texts, ", ")
}

// Allow reports whether an action may be taken.
func (p Policies) Allow(a Action) bool {
	return p == nil || slices.Contains(p, ActionAll) || slices.Contains(p, a)
}

// Paused reports whether no action may be taken.
func (p Policies) Paused() bool { return p != nil && len(p) == 0 }

// Exclusive reports whether the object may create or delete the external resource, so that no
// other object may have the same one.
func (p Policies) Exclusive() bool { return p.Allow(ActionCreate) || p.Allow(ActionDelete) }

// DeletionPolicy is the older field for what happens to the external resource when
// its object is deleted.
//
// +kubebuilder:validation:Enum=Orphan;Delete
type DeletionPolicy string

// Deletion policies. Delete is the default.
const (
	DeletionOrphan DeletionPolicy = "Orphan"
	DeletionDelete DeletionPolicy = "Delete"
)

// Deletes reports whether the external resource is deleted with its object. If the management
// policies and the older deletion policy contradict each other, the one that differs from its
// default applies.
func Deletes(p Policies, legacy DeletionPolicy) bool {
	if legacy != DeletionOrphan {
		return p.Allow(ActionDelete)
	}
	all := p == nil || slices.Equal(p.sorted(), []Action{ActionAll})
	return !all && slices.Contains(p, ActionDelete)
}
