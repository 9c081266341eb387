package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// key names an object in the model. A composed resource, whose name is random, is named after its
// composite and its name in the composition, separated by "#".
type key struct{ kind, namespace, name string }

func (k key) String() string { return k.kind + " " + k.namespace + "/" + k.name }

func compareKeys(a, b key) int { return strings.Compare(a.String(), b.String()) }

// wanted is what an object must be like when nothing changes any more.
type wanted struct {
	value string
	// owner is the instance that the object is a child of; empty for what the user creates.
	owner key
	// status are fields of an instance's status.
	status map[string]string
}

// instance is what a user has created.
type instance struct {
	key
	word  string
	count int64
	flag  bool
	items []string
	// changed is whether the instance has changed since the last comparison.
	changed bool
}

func (i *instance) object() *unstructured.Unstructured {
	spec := map[string]any{"word": i.word}
	if isGraph(i.kind) {
		items := make([]any, len(i.items))
		for n, item := range i.items {
			items[n] = item
		}
		spec["count"], spec["flag"], spec["items"] = i.count, i.flag, items
	}
	return newObject(i.key, map[string]any{"spec": spec})
}

// draw gives the instance another spec.
func (i *instance) draw(r *rand.Rand) {
	i.word, i.count, i.flag, i.items = fmt.Sprintf("w%d", r.IntN(1000)), r.Int64N(100), r.IntN(2) == 0, nil
	for _, item := range []string{"x", "y", "z"} {
		if r.IntN(2) == 0 {
			i.items = append(i.items, item)
		}
	}
}

// definition is a definition of a kind in the model.
type definition interface {
	// objects are what a user applies.
	objects() []*unstructured.Unstructured
	// faulty are objects that the controllers must refuse, or cannot carry out.
	faulty(r *rand.Rand) []*unstructured.Unstructured
	// change changes the definition at random, and says what it has changed.
	change(r *rand.Rand) string
	// compose adds the children of an instance and returns its status.
	compose(m *model, i *instance, to map[key]wanted) map[string]string
}

// served is a kind with its definition and what became of that.
type served struct {
	kind string
	definition
	// broken says that a faulty form is applied, absent that it is deleted, and changed that it has
	// changed since the last comparison.
	broken, absent, changed bool
}

// left is an object that its instance has left in place.
type left struct {
	// required says that it was certainly there at that time.
	required bool
	// labelled says that it keeps the labels of its instance.
	labelled bool
}

// model is the user's intent: what exists once the controllers have done everything.
type model struct {
	kinds     []*served
	instances []*instance
	// left are the objects that instances have left in place since the last comparison, and used the
	// instances whose names cannot be used again, since objects of theirs were left.
	left map[key]left
	used map[key]bool
	made int
}

const namespaces = 3

func namespaceName(n int) string { return fmt.Sprintf("soak-%d", n) }

// newModel draws definitions.
func newModel(r *rand.Rand) *model {
	m := &model{left: map[key]left{}, used: map[key]bool{}}
	m.kinds = append(m.kinds, &served{kind: partKind, definition: &part{prefix: "p"}}, &served{kind: boxKind, definition: &composite{prefix: "c", resources: 2}})
	for n, kind := range graphKinds {
		m.kinds = append(m.kinds, &served{kind: kind, definition: drawGraph(r, kind, n == len(graphKinds)-1)})
	}
	return m
}

func (m *model) served(kind string) *served {
	return m.kinds[slices.IndexFunc(m.kinds, func(s *served) bool { return s.kind == kind })]
}

// expected are the objects that must exist: the instances and all below them.
func (m *model) expected() map[key]wanted {
	out := map[key]wanted{}
	for _, i := range m.instances {
		status := m.served(i.kind).compose(m, i, out)
		out[i.key] = wanted{value: i.word, status: status}
	}
	return out
}

// children are the objects below an instance that it owns itself.
func (m *model) children(i *instance) []key {
	all := map[key]wanted{}
	m.served(i.kind).compose(m, i, all)
	var out []key
	for k, w := range all {
		if w.owner == i.key {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}

// newInstance draws an instance; nil if there is one of its name, or its definition is deleted: a definition
// stays as long as there are instances.
func (m *model) newInstance(r *rand.Rand) *instance {
	of := m.kinds[r.IntN(len(m.kinds))]
	kind := of.kind
	k := key{kind, namespaceName(r.IntN(namespaces)), string(rune('a' + r.IntN(4)))}
	if g, ok := m.served(kind).definition.(*graph); m.used[k] || ok && g.retains {
		m.made++
		k.name = fmt.Sprintf("u%d", m.made)
	}
	if of.absent || slices.ContainsFunc(m.instances, func(i *instance) bool { return i.key == k }) {
		return nil
	}
	i := &instance{key: k, changed: true}
	i.draw(r)
	return i
}

// remove removes an instance. With orphan, all its children are left in place; without, those whose
// deletion policy says so.
func (m *model) remove(i *instance, orphan bool, isThere func(key) bool) {
	certain := !i.changed && !m.served(i.kind).changed
	policies := map[string]string{}
	if g, ok := m.served(i.kind).definition.(*graph); ok {
		policies = g.policies(i)
	}
	for _, child := range m.children(i) {
		policy := policies[child.name]
		if orphan || policy != "" {
			m.left[child] = left{required: certain && isThere(child), labelled: policy == "Retain"}
		}
	}
	if orphan {
		m.used[i.key] = true
	}
	m.instances = slices.DeleteFunc(m.instances, func(o *instance) bool { return o == i })
}

// removeNamespace removes everything in a namespace.
func (m *model) removeNamespace(name string) {
	m.instances = slices.DeleteFunc(m.instances, func(i *instance) bool { return i.namespace == name })
	maps.DeleteFunc(m.left, func(k key, _ left) bool { return k.namespace == name })
}

// settle records that the cluster was compared.
func (m *model) settle() {
	m.left = map[key]left{}
	for _, i := range m.instances {
		i.changed = false
	}
	for _, s := range m.kinds {
		s.changed = false
	}
}

// pick returns one of a list; the zero value if it is empty.
func pick[T any](r *rand.Rand, of []T) (out T) {
	if len(of) == 0 {
		return out
	}
	return of[r.IntN(len(of))]
}

// policies returns the deletion policies of the objects of an instance, by name; empty for Delete.
func (g *graph) policies(i *instance) map[string]string {
	out := map[string]string{}
	for _, n := range g.nodes {
		out[n.objectName(g, i)] = n.policy
	}
	return out
}

// namedChildren are the expected objects that users have not created and whose names are known. Objects
// that outlive their instance are left out.
func (m *model) namedChildren() []key {
	all := m.expected()
	var out []key
	for k, w := range all {
		if w.owner == (key{}) || strings.Contains(k.name, "#") {
			continue
		}
		if g, ok := m.served(w.owner.kind).definition.(*graph); ok && g.retains {
			continue
		}
		out = append(out, k)
	}
	slices.SortFunc(out, compareKeys)
	return out
}

// isReusable reports whether the name of an instance may be used again.
func (m *model) isReusable(i *instance) bool {
	g, ok := m.served(i.kind).definition.(*graph)
	return !m.used[i.key] && (!ok || !g.retains)
}

// redraw replaces some of the graphs without instances by others.
func (m *model) redraw(r *rand.Rand) {
	for n, s := range m.kinds {
		if g, ok := s.definition.(*graph); ok && r.IntN(4) == 0 && !slices.ContainsFunc(m.instances, func(i *instance) bool { return i.kind == s.kind }) {
			m.kinds[n].definition, s.changed = drawGraph(r, s.kind, g.retains), true
		}
	}
}
