package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Action is a write of a CustomResourceDefinition.
type Action string

// Actions.
const (
	Install Action = "Install"
	Update  Action = "Update"
	Remove  Action = "Remove"
)

// Step is one write.
type Step struct {
	Action Action
	Key    Key
	// CRD is the name of the CustomResourceDefinition, and Activation the activation that it belongs
	// to.
	CRD, Activation string
}

// Users is what keeps a kind from being removed.
type Users struct {
	// Objects is how many exist.
	Objects int
	// Bindings are the names of the Bindings of the kind. Where no object exists, these are of objects that are gone.
	Bindings []string
	// Unreadable says what cannot be read; Syncing: the objects are being read.
	Unreadable string
	Syncing    bool
}

// Facts are what a plan depends on beside what is wanted.
type Facts struct {
	// CRDs are the CustomResourceDefinitions of ours, and those with the names of wanted ones, by
	// name.
	CRDs map[string]CRD
	// Users are the users of kinds that are not wanted.
	Users map[Key]Users
	// Digest returns the digest of the configuration of a kind that belongs to an activation.
	Digest func(key Key, activation string) string
	// Starting are kinds with objects that are not known yet, and Forbidden says why a kind cannot be read.
	Starting  map[Key]bool
	Forbidden map[Key]string
	// Failures are the errors of the last write, by kind.
	Failures map[Key]string
}

// Plan is what to do now.
type Plan struct {
	// Steps are the writes of CustomResourceDefinitions, in order.
	Steps []Step
	// Serve are exactly the kinds to serve, sorted.
	Serve []Key
	// Statuses are the statuses of activations, by name, without conditions.
	Statuses map[string]Status
	// Release are the activations that are being deleted and have no kinds left, sorted.
	Release []string
}

// Compute decides what to do.
func Compute(w Wanted, f Facts) Plan {
	p := Plan{Statuses: map[string]Status{}}
	b := builder{Wanted: w, Facts: f, plan: &p, entries: map[string][]entry{}}
	b.wantedKinds()
	b.unwantedKinds()
	for _, c := range f.CRDs {
		if c.Ours && c.Established {
			p.Serve = append(p.Serve, c.Key)
		}
	}
	slices.SortFunc(p.Serve, compareKeys)
	for _, a := range w.Activations {
		if a.Deleting && len(b.entries[a.Name]) == 0 && !b.ownsAny(a.Name) {
			p.Release = append(p.Release, a.Name)
		}
		p.Statuses[a.Name] = b.status(a)
	}
	return p
}

type builder struct {
	Wanted
	Facts
	plan *Plan
	// entries are the states of the kinds of activations.
	entries map[string][]entry
}

type entry struct {
	resource.ActivatedType
	wanted bool
}

func (b *builder) entry(activation string, wanted bool, t resource.ActivatedType) {
	b.entries[activation] = append(b.entries[activation], entry{t, wanted})
}

func (b *builder) step(action Action, key Key, crd, activation string) {
	b.plan.Steps = append(b.plan.Steps, Step{action, key, crd, activation})
}

func (b *builder) wantedKinds() {
	for _, key := range slices.SortedFunc(maps.Keys(b.kinds), compareKeys) {
		kind := b.kinds[key]
		state := resource.ActivatedType{Type: key.Type, Kind: kind.GVK.GroupKind().String(), State: resource.StateInstalling}
		owner := kind.by[0]
		crd, exists := b.CRDs[kind.CRD]
		if exists && slices.Contains(kind.by, crd.Activation) {
			owner = crd.Activation
		}
		switch {
		case !exists:
			b.step(Install, key, kind.CRD, owner)
			state.Message = "waiting for the API server to serve the kind"
		case !crd.Ours:
			state.State = resource.StateConflict
			state.Message = fmt.Sprintf("CustomResourceDefinition %s exists, and another program has installed it; delete it if nothing uses it", crd.Name)
		case crd.Deleting:
			state.Message = "its CustomResourceDefinition is being deleted, and is installed again after that"
		case crd.Activation != owner || crd.Digest != b.Digest(key, owner):
			b.step(Update, key, kind.CRD, owner)
			state = b.servedState(state, key, crd)
		default:
			state = b.servedState(state, key, crd)
		}
		if failure := b.Failures[key]; failure != "" {
			state.State, state.Message = resource.StateFailed, failure
		}
		for _, activation := range kind.by {
			b.entry(activation, true, state)
		}
	}
}

func (b *builder) servedState(state resource.ActivatedType, key Key, c CRD) resource.ActivatedType {
	switch {
	case !c.Established:
		state.Message = cmp.Or(c.Message, "waiting for the API server to serve the kind")
	case b.Forbidden[key] != "":
		state.State, state.Message = resource.StateForbidden, b.Forbidden[key]
	case b.Starting[key]:
		state.Message = "its objects are being read"
	default:
		state.State = resource.StateServed
	}
	return state
}

func (b *builder) unwantedKinds() {
	for _, c := range b.Unwanted(slices.SortedFunc(maps.Values(b.CRDs), func(x, y CRD) int { return compareKeys(x.Key, y.Key) })) {
		state := resource.ActivatedType{Type: c.Key.Type, Kind: c.Kind.GroupKind().String(), State: resource.StateDeactivated}
		state.Message = b.blocker(c)
		if state.Message == "" && !c.Deleting {
			b.step(Remove, c.Key, c.Name, c.Activation)
		}
		if failure := b.Failures[c.Key]; failure != "" && state.Message == "" {
			state.State, state.Message = resource.StateFailed, failure
		}
		if state.Message == "" {
			state.Message = "its CustomResourceDefinition is being deleted"
		}
		if activation := b.reportTo(c.Activation); activation != "" {
			b.entry(activation, false, state)
		}
	}
}

// It is empty if nothing keeps the kind.
func (b *builder) blocker(c CRD) string {
	users := b.Users[c.Key]
	switch {
	case c.Deleting:
		return ""
	case b.held[c.Key]:
		return "it is kept: cannot determine whether a definition names it"
	case users.Objects > 0:
		return describeObjects(users.Objects, c.Kind.Kind)
	case len(users.Bindings) > 0:
		return describeBindings(users.Bindings)
	case users.Unreadable != "":
		return "cannot determine whether it is in use: " + users.Unreadable
	case users.Syncing:
		return "its objects are being read"
	}
	return ""
}

func describeObjects(n int, kind string) string {
	if n == 1 {
		return fmt.Sprintf("1 object of kind %s exists: delete or orphan it first", kind)
	}
	return fmt.Sprintf("%d objects of kind %s exist: delete or orphan them first", n, kind)
}

// maxBindings is how many Bindings a message names.
const maxBindings = 3

func describeBindings(names []string) string {
	if len(names) == 1 {
		return "1 Binding of a deleted object is left: it reserves a name, or the outcome of an operation is unknown; see kubectl describe bindings.espalier.dev " + names[0]
	}
	first := slices.Sorted(slices.Values(names))[:min(len(names), maxBindings)]
	return fmt.Sprintf("%d Bindings of deleted objects are left: they reserve names, or the outcome of an operation is unknown; see kubectl describe bindings.espalier.dev %s", len(names), strings.Join(first, " "))
}

// The kind's own activation may be gone: then another one's status lists the kind. It is empty if there are no
// activations.
func (b *builder) reportTo(activation string) string {
	for _, a := range b.Activations {
		if a.Name == activation {
			return activation
		}
	}
	if len(b.Activations) > 0 {
		return b.Activations[0].Name
	}
	return ""
}

func (b *builder) ownsAny(activation string) bool {
	for _, c := range b.CRDs {
		if c.Ours && c.Activation == activation {
			return true
		}
	}
	return false
}
