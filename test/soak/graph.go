package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// node is a resource of a drawn graph.
type node struct {
	id, kind string
	// value is a text, "$word" or "$count" for a field of the spec, or "@" and the id of another node.
	value string
	// many makes it a collection over spec.items, and conditional leaves it out without spec.flag.
	many, conditional bool
	policy            string
}

// isReadable reports whether other nodes and the status can read the node in every instance.
func (n *node) isReadable() bool { return !n.many && !n.conditional && n.kind != "Secret" }

// expression reads the value of a readable node.
func (n *node) expression() string {
	switch n.kind {
	case partKind:
		return "${" + n.id + ".status.value}"
	case widgetKind:
		return "${" + n.id + ".spec.value}"
	}
	return "${" + n.id + ".data.value}"
}

func (n *node) objectName(g *graph, i *instance) string {
	return i.name + "-" + strings.ToLower(g.kind) + "-" + n.id
}

// graph is a ResourceGraphDefinition with drawn nodes. A node reads only nodes before it.
type graph struct {
	kind  string
	nodes []*node
	made  int
	// retains says that nodes may have a deletion policy.
	retains bool
}

func drawGraph(r *rand.Rand, kind string, retains bool) *graph {
	g := &graph{kind: kind, retains: retains}
	for range 1 + r.IntN(6) {
		g.add(r)
	}
	return g
}

func (g *graph) add(r *rand.Rand) *node {
	n := &node{id: fmt.Sprintf("n%d", g.made), kind: "ConfigMap"}
	g.made++
	switch r.IntN(8) {
	case 0:
		n.kind = "Secret"
	case 1, 2:
		n.kind = partKind
	case 3:
		n.kind = widgetKind
	}
	if n.kind == "ConfigMap" && g.retains && r.IntN(2) == 0 {
		n.policy = pick(r, []string{"Orphan", "Retain"})
	} else {
		n.many, n.conditional = r.IntN(4) == 0, r.IntN(4) == 0
	}
	n.value = g.drawValue(r, len(g.nodes))
	g.nodes = append(g.nodes, n)
	return n
}

// drawValue draws a value for the node at a position.
func (g *graph) drawValue(r *rand.Rand, at int) string {
	values := []string{fmt.Sprintf("v%d", r.IntN(1000)), "$word", "$word", "$count"}
	for _, n := range g.nodes[:at] {
		if n.isReadable() {
			values = append(values, "@"+n.id)
		}
	}
	return pick(r, values)
}

func (g *graph) change(r *rand.Rand) string {
	at := r.IntN(len(g.nodes))
	n := g.nodes[at]
	switch r.IntN(4) {
	case 0:
		if len(g.nodes) < 7 {
			added := g.add(r)
			return fmt.Sprintf("add node %s, a %s", added.id, added.kind)
		}
	case 1:
		read := slices.ContainsFunc(g.nodes, func(o *node) bool { return o.value == "@"+n.id })
		if len(g.nodes) > 1 && !read && n.policy == "" {
			g.nodes = slices.Delete(g.nodes, at, at+1)
			return fmt.Sprintf("remove node %s, a %s", n.id, n.kind)
		}
	}
	n.value = g.drawValue(r, at)
	return fmt.Sprintf("set the value of node %s to %s", n.id, n.value)
}

// text is a value as an expression.
func (g *graph) text(value string) string {
	switch {
	case value == "$word":
		return "${schema.spec.word}"
	case value == "$count":
		return "${string(schema.spec.count)}"
	case strings.HasPrefix(value, "@"):
		return g.nodes[slices.IndexFunc(g.nodes, func(n *node) bool { return n.id == value[1:] })].expression()
	}
	return value
}

func (g *graph) objects() []*unstructured.Unstructured {
	status := map[string]any{}
	var resources []any
	for _, n := range g.nodes {
		name, value := "${schema.metadata.name}-"+strings.ToLower(g.kind)+"-"+n.id, g.text(n.value)
		resource := map[string]any{"id": n.id}
		if n.many {
			resource["forEach"] = []any{map[string]any{"entry": "${schema.spec.items}"}}
			name, value = name+"-${entry}", value+"-${entry}"
		}
		if n.conditional {
			resource["includeWhen"] = []any{"${schema.spec.flag}"}
		}
		if n.policy != "" {
			resource["deletionPolicy"] = n.policy
		}
		if n.isReadable() {
			status["of"+n.id] = n.expression()
		}
		resource["template"] = newObject(key{n.kind, "", name}, valuePatch(n.kind, value)).Object
		resources = append(resources, resource)
	}
	return []*unstructured.Unstructured{graphDefinition(g.kind,
		map[string]any{"word": "string", "count": "integer", "flag": "boolean", "items": "[]string"}, status, resources)}
}

// graphDefinition is a ResourceGraphDefinition. Changes of the status are allowed although readers of
// it could break.
func graphDefinition(kind string, spec, status map[string]any, resources []any) *unstructured.Unstructured {
	fields := map[string]any{"apiVersion": "v1alpha1", "kind": kind, "group": group, "spec": spec}
	if len(status) > 0 { // a server-side apply that empties a map makes it null, which is invalid
		fields["status"] = status
	}
	o := newObject(key{"ResourceGraphDefinition", "", "soak-" + strings.ToLower(kind)},
		map[string]any{"spec": map[string]any{"schema": fields, "resources": resources}})
	o.SetAnnotations(map[string]string{"kro.run/allow-breaking-changes": "true"})
	return o
}

func (g *graph) faulty(r *rand.Rand) []*unstructured.Unstructured {
	return withFault(r, g.objects()[0])
}

// withFault adds a resource to a graph that does not compile.
func withFault(r *rand.Rand, o *unstructured.Unstructured) []*unstructured.Unstructured {
	faults := []string{"${schema.spec.}", "${nobody.data.value}", "${schema.spec.nothing}", "${faulty.data.value}"}
	template := newObject(key{pick(r, []string{"ConfigMap", "Nothing"}), "", "${schema.metadata.name}-faulty"}, valuePatch("ConfigMap", pick(r, faults)))
	resources, _, _ := unstructured.NestedSlice(o.Object, "spec", "resources")
	resources = append(resources, map[string]any{"id": "faulty", "template": template.Object})
	_ = unstructured.SetNestedSlice(o.Object, resources, "spec", "resources") // the spec is an object
	return []*unstructured.Unstructured{o}
}

func (g *graph) compose(m *model, i *instance, to map[key]wanted) map[string]string {
	values, status := map[string]string{}, map[string]string{}
	for _, n := range g.nodes {
		if n.conditional && !i.flag {
			continue
		}
		name, value := n.objectName(g, i), n.value
		switch {
		case value == "$word":
			value = i.word
		case value == "$count":
			value = fmt.Sprint(i.count)
		case strings.HasPrefix(value, "@"):
			value = values[value[1:]]
		}
		if !n.many {
			values[n.id] = addChild(m, i, key{n.kind, i.namespace, name}, value, to)
		} else {
			for _, item := range i.items {
				addChild(m, i, key{n.kind, i.namespace, name + "-" + item}, value+"-"+item, to)
			}
		}
		if n.isReadable() {
			status["of"+n.id] = values[n.id]
		}
	}
	return status
}

// addChild adds a child and all below it, and returns the value that others read of it.
func addChild(m *model, i *instance, k key, value string, to map[key]wanted) string {
	if k.kind != partKind {
		to[k] = wanted{value: value, owner: i.key}
		return value
	}
	status := m.served(partKind).compose(m, &instance{key: k, word: value}, to)
	to[k] = wanted{value: value, owner: i.key, status: status}
	return status["value"]
}

// part is the definition of a kind that other definitions nest.
type part struct{ prefix string }

func (p *part) objects() []*unstructured.Unstructured {
	template := newObject(key{"ConfigMap", "", "${schema.metadata.name}-part"}, valuePatch("ConfigMap", p.prefix+"-${schema.spec.word}"))
	return []*unstructured.Unstructured{graphDefinition(partKind, map[string]any{"word": "string"}, map[string]any{"value": "${config.data.value}"},
		[]any{map[string]any{"id": "config", "template": template.Object}})}
}

func (p *part) faulty(r *rand.Rand) []*unstructured.Unstructured {
	return withFault(r, p.objects()[0])
}

func (p *part) change(r *rand.Rand) string {
	p.prefix = fmt.Sprintf("p%d", r.IntN(1000))
	return "set the prefix to " + p.prefix
}

func (p *part) compose(_ *model, i *instance, to map[key]wanted) map[string]string {
	value := p.prefix + "-" + i.word
	to[key{"ConfigMap", i.namespace, i.name + "-part"}] = wanted{value: value, owner: i.key}
	return map[string]string{"value": value}
}
