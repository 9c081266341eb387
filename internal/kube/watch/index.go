package watch

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

type route struct {
	by        by
	namespace string
	name      string
	owner     string
	labels    string // a selector as a string, so routes are comparable
}

type by uint8

const (
	byName by = iota + 1
	byOwner
	byLabels
)

// index finds the subscribers of an object. A lookup by name or by owner takes constant
// time; a lookup by selector takes time in the number of distinct label keys of selectors,
// plus the number of selectors without an equality.
//
// A subscriber may be added to a route several times and stays until it was removed as
// often: a lease's old and new sets overlap.
//
// It has no lock; its owner guards it.
type index[S comparable] struct {
	ownerLabel string
	names      map[objectName]*countedSet[S]
	owners     map[string]*countedSet[S]
	groups     map[route]*group[S]
	keyed      map[string]map[bucket]map[*group[S]]struct{} // label key → namespace and value
	scanned    map[string]map[*group[S]]struct{}            // by namespace
}

type objectName struct{ namespace, name string }

type bucket struct{ namespace, value string }

// The namespace is empty for all namespaces.
type group[S comparable] struct {
	namespace string
	selector  labels.Selector
	key       string // the label that it is indexed by; empty without an equality
	value     string
	members   countedSet[S]
}

func newIndex[S comparable](ownerLabel string) *index[S] {
	return &index[S]{ownerLabel: ownerLabel}
}

func (x *index[S]) add(s S, r route) {
	switch r.by {
	case byName:
		name := objectName{r.namespace, r.name}
		ensure(&x.names, name, func() *countedSet[S] { return &countedSet[S]{} }).add(s)
	case byOwner:
		ensure(&x.owners, r.owner, func() *countedSet[S] { return &countedSet[S]{} }).add(s)
	case byLabels:
		ensure(&x.groups, r, func() *group[S] { return x.addGroup(r) }).members.add(s)
	}
}

// It undoes one add of the same route. Without one it does nothing.
func (x *index[S]) remove(s S, r route) {
	switch r.by {
	case byName:
		drop(x.names, objectName{r.namespace, r.name}, s)
	case byOwner:
		drop(x.owners, r.owner, s)
	case byLabels:
		if g := x.groups[r]; g != nil {
			g.members.remove(s)
			if g.members.len() == 0 {
				x.removeGroup(r, g)
			}
		}
	}
}

type identity struct {
	objectName
	labels labelSet
}

// The caller looks up both the old and the new form of a changed object: one that stops matching is an event too.
func (x *index[S]) find(at identity, out *uniqueSet[S]) {
	out.addAll(x.names[at.objectName])
	if len(x.owners) > 0 {
		if owner, ok := at.labels.Lookup(x.ownerLabel); ok {
			out.addAll(x.owners[owner])
		}
	}
	for key, filed := range x.keyed {
		value, ok := at.labels.Lookup(key)
		if !ok {
			continue
		}
		addMatching(filed[bucket{at.namespace, value}], at, out)
		addMatching(filed[bucket{"", value}], at, out)
	}
	if len(x.scanned) > 0 {
		addMatching(x.scanned[at.namespace], at, out)
		addMatching(x.scanned[""], at, out)
	}
}

func addMatching[S comparable](groups map[*group[S]]struct{}, at identity, out *uniqueSet[S]) {
	for g := range groups {
		// A cluster-scoped object has the namespace that stands for all, so its
		// groups come twice; uniqueSet keeps one of each.
		if g.selector.Matches(at.labels) {
			out.addAll(&g.members)
		}
	}
}

func (x *index[S]) addGroup(r route) *group[S] {
	g := &group[S]{namespace: r.namespace, selector: parsed(r.labels)}
	g.key, g.value = equality(g.selector)
	if g.key == "" {
		in := ensure(&x.scanned, g.namespace, newSet[*group[S]])
		in[g] = struct{}{}
		return g
	}
	filed := ensure(&x.keyed, g.key, func() map[bucket]map[*group[S]]struct{} {
		return map[bucket]map[*group[S]]struct{}{}
	})
	ensure(&filed, bucket{g.namespace, g.value}, newSet[*group[S]])[g] = struct{}{}
	return g
}

func (x *index[S]) removeGroup(r route, g *group[S]) {
	delete(x.groups, r)
	if g.key == "" {
		discard(x.scanned, g.namespace, g)
		return
	}
	discard(x.keyed[g.key], bucket{g.namespace, g.value}, g)
	if len(x.keyed[g.key]) == 0 {
		delete(x.keyed, g.key)
	}
}

// The selector is valid: Selector.String has written it.
func parsed(selector string) labels.Selector {
	s, err := labels.Parse(selector)
	if err != nil {
		return labels.Nothing()
	}
	return s
}

// They are empty if there is no label with only one accepted value.
func equality(selector labels.Selector) (key, value string) {
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		op, values := r.Operator(), r.ValuesUnsorted()
		if (op == selection.Equals || op == selection.DoubleEquals || op == selection.In) && len(values) == 1 {
			return r.Key(), values[0]
		}
	}
	return "", ""
}
