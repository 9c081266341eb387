// Package plan decides which kinds of a catalog are installed, served and removed, and what the
// statuses of activations say.
//
// Pure: it decides from values alone.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Key identifies a kind of a catalog.
type Key struct {
	Type          string
	ClusterScoped bool
}

func compareKeys(a, b Key) int {
	if c := cmp.Compare(a.Type, b.Type); c != 0 || a.ClusterScoped == b.ClusterScoped {
		return c
	}
	if b.ClusterScoped {
		return -1
	}
	return 1
}

// Kind is a kind of a catalog.
type Kind struct {
	GVK schema.GroupVersionKind
	// CRD is the name of its CustomResourceDefinition.
	CRD string
}

// Catalog is the catalog of a provider.
type Catalog interface {
	Match(pattern string) ([]string, error)
	TypeOf(kind schema.GroupKind) (name string, clusterScoped, ok bool)
	// Kind returns the kind of a key. The error says why the type cannot be served.
	Kind(key Key) (Kind, error)
}

// Activation is an object that activates types.
type Activation struct {
	Name     string
	Spec     resource.ActivationSpec
	Deleting bool
}

func (a Activation) maxKinds() int { return int(cmp.Or(a.Spec.MaxKinds, resource.DefaultMaxKinds)) }

func (a Activation) scopes() []bool {
	var out []bool
	for _, scope := range []resource.ActivationScope{resource.ScopeNamespaced, resource.ScopeCluster} {
		if slices.Contains(a.Spec.Scopes, scope) || len(a.Spec.Scopes) == 0 && scope == resource.ScopeNamespaced {
			out = append(out, scope == resource.ScopeCluster)
		}
	}
	return out
}

// Demand are the kinds that definitions name.
type Demand struct {
	Kinds []schema.GroupKind
	// Unreadable says which definitions cannot be read; empty if all can. Syncing: they are being
	// read.
	Unreadable string
	Syncing    bool
}

func (d Demand) known() bool { return d.Unreadable == "" && !d.Syncing }

// CRD is a CustomResourceDefinition.
type CRD struct {
	Name string
	Key  Key
	Kind schema.GroupVersionKind
	// Activation is the activation that it belongs to. Ours: this program has installed it.
	Activation string
	Ours       bool
	// Digest is the digest of the applied configuration.
	Digest                string
	Deleting, Established bool
	// Message says why it is not established.
	Message string
}

// Wanted is which kinds are activated, and by which activations.
type Wanted struct {
	// Activations are sorted by name.
	Activations []Activation
	Demand      Demand
	// kinds are the activated kinds, with the names of their activations, sorted.
	kinds map[Key]wantedKind
	// held are the kinds that definitions may activate and that are kept while it is unknown which ones these name.
	held map[Key]bool
	// problems are what keeps activations from activating kinds, by name of the activation.
	problems map[string][]resource.ActivatedType
}

type wantedKind struct {
	Kind
	by []string
}

// Want expands the patterns of activations. A kind that is installed already has precedence where
// an activation's number of kinds is limited.
func Want(activations []Activation, demand Demand, catalog Catalog, installed []CRD) Wanted {
	activations = slices.SortedFunc(slices.Values(activations), func(a, b Activation) int { return cmp.Compare(a.Name, b.Name) })
	w := Wanted{Activations: activations, Demand: demand, kinds: map[Key]wantedKind{}, held: map[Key]bool{}, problems: map[string][]resource.ActivatedType{}}
	exists := map[Key]bool{}
	for _, c := range installed {
		exists[c.Key] = c.Ours
	}
	demanded := map[Key]bool{}
	for _, kind := range demand.Kinds {
		if name, clusterScoped, ok := catalog.TypeOf(kind); ok {
			demanded[Key{name, clusterScoped}] = true
		}
	}
	for _, a := range activations {
		if !a.Deleting {
			w.expand(a, catalog, exists, demanded)
		}
	}
	return w
}

func (w *Wanted) expand(a Activation, catalog Catalog, exists, demanded map[Key]bool) {
	named := w.supported(a, catalog, w.match(a, a.Spec.Types, catalog))
	count := 0
	for _, key := range named {
		if len(named) > a.maxKinds() && !exists[key] {
			continue
		}
		count++
		w.add(a, catalog, key)
	}
	if len(named) > a.maxKinds() {
		w.problem(a, resource.ActivatedType{State: resource.StateTooMany, Message: fmt.Sprintf(
			"types matches %s, and maxKinds is %d: no further kind is installed. Use narrower patterns, or increase maxKinds",
			diag.Counted(len(named), "kind", "kinds"), a.maxKinds())})
	}
	possible := w.match(a, a.Spec.OnDemand, catalog)
	for _, key := range possible {
		if !w.Demand.known() && exists[key] {
			w.held[key] = true
		}
	}
	possible = slices.DeleteFunc(possible, func(key Key) bool { return !demanded[key] || slices.Contains(named, key) })
	possible = w.supported(a, catalog, possible)
	slices.SortStableFunc(possible, func(x, y Key) int {
		switch {
		case exists[x] == exists[y]:
			return 0
		case exists[x]:
			return -1
		}
		return 1
	})
	for _, key := range possible {
		if count >= a.maxKinds() {
			kind, _ := catalog.Kind(key)
			w.problem(a, resource.ActivatedType{Type: key.Type, Kind: kind.GVK.GroupKind().String(), State: resource.StateTooMany, Message: fmt.Sprintf(
				"a definition names it, and %s already, which is spec.maxKinds: increase it, or narrow spec.types", diag.Counted(count, "kind exists", "kinds exist"))})
			continue
		}
		count++
		w.add(a, catalog, key)
	}
}

// The kinds are sorted.
func (w *Wanted) match(a Activation, patterns []resource.TypePattern, catalog Catalog) []Key {
	found := map[Key]bool{}
	for _, pattern := range patterns {
		names, err := catalog.Match(string(pattern))
		switch {
		case err != nil:
			w.problem(a, resource.ActivatedType{Type: string(pattern), State: resource.StateUnknown, Message: err.Error()})
		case len(names) == 0:
			message := "the type is unknown or cannot be served; check its spelling"
			if strings.Contains(string(pattern), "*") {
				message = "no type that can be served matches the pattern; check its spelling"
			}
			w.problem(a, resource.ActivatedType{Type: string(pattern), State: resource.StateUnknown, Message: message})
		}
		for _, name := range names {
			for _, clusterScoped := range a.scopes() {
				found[Key{name, clusterScoped}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), compareKeys)
}

// It records why other kinds cannot be served.
func (w *Wanted) supported(a Activation, catalog Catalog, keys []Key) []Key {
	if len(keys) > a.maxKinds() {
		return keys // too many to look at each
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key Key) bool {
		_, err := catalog.Kind(key)
		if err != nil {
			w.problem(a, resource.ActivatedType{Type: key.Type, State: resource.StateUnsupported, Message: err.Error()})
		}
		return err != nil
	})
}

func (w *Wanted) problem(a Activation, t resource.ActivatedType) {
	w.problems[a.Name] = append(w.problems[a.Name], t)
}

func (w *Wanted) add(a Activation, catalog Catalog, key Key) {
	kind, err := catalog.Kind(key)
	if err != nil {
		return
	}
	w.kinds[key] = wantedKind{kind, append(w.kinds[key].by, a.Name)}
}

// Unwanted returns the CustomResourceDefinitions of ours that no activation activates any more.
func (w Wanted) Unwanted(installed []CRD) []CRD {
	return slices.DeleteFunc(slices.Clone(installed), func(c CRD) bool {
		_, wanted := w.kinds[c.Key]
		return wanted || !c.Ours
	})
}

// Kinds returns the activated kinds, in no order.
func (w Wanted) Kinds() []Kind {
	var out []Kind
	for _, kind := range w.kinds {
		out = append(out, kind.Kind)
	}
	return out
}

// Has reports whether a kind is activated.
func (w Wanted) Has(key Key) bool {
	_, wanted := w.kinds[key]
	return wanted
}
