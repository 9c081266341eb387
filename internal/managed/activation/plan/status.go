package plan

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Status is the status of an activation, and its condition Ready.
type Status struct {
	Ready   metav1.ConditionStatus
	Reason  resource.ActivationReason
	Message string
	Kinds   resource.ActivatedKinds
	Types   []resource.ActivatedType
}

// Progress is what the activation needs; nothing while it is being deleted.
func (s Status) Progress() condition.Progress {
	root := v1alpha1.Condition{Status: s.Ready, Reason: string(s.Reason), Message: s.Message}
	switch s.Reason {
	case resource.Deleting:
		return condition.Progress{}
	case resource.Installing, resource.InstallationFailed: // which is retried
		return condition.ProgressOf(root, false)
	default:
		return condition.ProgressOf(root, true)
	}
}

// These are the reasons of Ready for the states of types, the most important first. A state without a reason does not
// keep an activation from being ready.
var reasons = []struct {
	state  resource.ActivationState
	reason resource.ActivationReason
}{
	{resource.StateUnknown, resource.UnknownType},
	{resource.StateUnsupported, resource.UnsupportedType},
	{resource.StateConflict, resource.Conflict},
	{resource.StateTooMany, resource.TooManyKinds},
	{resource.StateFailed, resource.InstallationFailed},
	{resource.StateForbidden, resource.KindForbidden},
	{resource.StateInstalling, resource.Installing},
}

// maxTypes is how many types a status has at most, as its schema says.
const maxTypes = 100

func (b *builder) status(a Activation) Status {
	var s Status
	all := slices.Clone(b.problems[a.Name])
	for _, e := range b.entries[a.Name] {
		all = append(all, e.ActivatedType)
		switch {
		case !e.wanted:
			s.Kinds.Deactivated++
		case e.State == resource.StateServed:
			s.Kinds.Served++
			s.Kinds.Activated++
		default:
			s.Kinds.Activated++
		}
	}
	slices.SortStableFunc(all, func(x, y resource.ActivatedType) int {
		return cmp.Or(cmp.Compare(rank(x.State), rank(y.State)), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Kind, y.Kind))
	})
	all = slices.Compact(all)
	s.Types = all[:min(len(all), maxTypes)]
	s.Ready, s.Reason, s.Message = b.ready(a, s.Kinds, all)
	return s
}

// States with a problem come first, and served kinds last.
func rank(state resource.ActivationState) int {
	for i, r := range reasons {
		if r.state == state {
			return i
		}
	}
	if state == resource.StateDeactivated {
		return len(reasons)
	}
	return len(reasons) + 1
}

func (b *builder) ready(a Activation, kinds resource.ActivatedKinds, all []resource.ActivatedType) (status metav1.ConditionStatus,
	reason resource.ActivationReason, message string) {
	if a.Deleting {
		return metav1.ConditionFalse, resource.Deleting, cmp.Or(deactivation(all), "its kinds are removed, or belong to another activation now")
	}
	for _, r := range reasons {
		if n, first := find(all, r.state); n > 0 {
			return metav1.ConditionFalse, r.reason, describe(first) + more(n)
		}
	}
	if b.Demand.Unreadable != "" && len(a.Spec.OnDemand) > 0 {
		return metav1.ConditionUnknown, resource.DefinitionsUnreadable, "cannot determine which kinds definitions name: " + b.Demand.Unreadable
	}
	message = fmt.Sprintf("%d kinds are served", kinds.Served)
	if kinds.Served == 1 {
		message = "1 kind is served"
	}
	if left := deactivation(all); left != "" {
		message += "; " + left
	}
	return metav1.ConditionTrue, resource.Active, message
}

// It is empty if there are none.
func deactivation(all []resource.ActivatedType) string {
	for _, state := range []resource.ActivationState{resource.StateDeactivated, resource.StateFailed} {
		if n, first := find(all, state); n > 0 {
			return "no longer activated: " + describe(first) + more(n)
		}
	}
	return ""
}

// n is how many types have the state.
func find(all []resource.ActivatedType, state resource.ActivationState) (n int, first resource.ActivatedType) {
	for _, t := range all {
		if t.State != state {
			continue
		}
		if n == 0 {
			first = t
		}
		n++
	}
	return n, first
}

func describe(t resource.ActivatedType) string {
	if t.Type == "" {
		return t.Message
	}
	return t.Type + ": " + t.Message
}

func more(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n-1)
}
