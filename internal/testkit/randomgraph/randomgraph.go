// Package randomgraph draws Graphs with nodes of all kinds, and changes of them and of the objects of another manager that they
// read and patch. It computes the ConfigMaps that a namespace must then contain, without the compiler of Graphs or CEL.
package randomgraph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// Graph is a random Graph, with the ConfigMaps of another manager by their names.
type Graph struct {
	Theirs map[string]Foreign
	nodes  []*node
	ids    int
}

// Foreign is a ConfigMap of another manager.
type Foreign struct {
	// Value is stored under the key Theirs.
	Value string
	// Selected ConfigMaps have the label that the selections of the Graph require.
	Selected bool
	// Recreated counts how often it was deleted and created again.
	Recreated int
}

// Keys of ConfigMaps.
const (
	// Theirs is the key of a foreign ConfigMap that its owner sets, and Mine the key that a patch contributes.
	Theirs, Mine = "theirs", "mine"
	// Own is the key of the ConfigMaps of the Graph.
	Own = "v"
)

// Labels returns the labels of a foreign ConfigMap.
func (f Foreign) Labels() map[string]string {
	if f.Selected {
		return map[string]string{"pick": "yes"}
	}
	return nil
}

// node has a value: its own text, with the value of the node that it reads.
type node struct {
	id, kind, text string
	// reads is the id of an earlier node with a value; empty for none.
	reads string
	// target is the name of the object that it creates, patches or reads. A collection appends its items.
	target   string
	included bool
	// unless is the id of an earlier reference: the node is not included while its value is "z".
	unless string
	// nested nodes are in a graph of their own.
	nested bool
	// A collection is over items, or over the selection with the id over.
	items []string
	over  string
}

// Kinds of nodes.
const (
	ofTemplate, ofTemplates, ofDef, ofRef, ofSelection, ofPatch, ofPatches = "template", "templates", "def", "ref", "selection", "patch", "patches"
)

var (
	allItems   = []string{"p", "q", "r"}
	allTargets = map[string][]string{
		ofTemplate: {"own0", "own1", "own2", "own3"}, ofTemplates: {"own0", "own1", "own2", "own3"}, ofDef: {"none"}, ofSelection: {"none"},
		ofRef: {"theirs0", "theirs1", "theirs2", "theirs3"}, ofPatch: {"theirs0", "theirs1", "theirs2", "theirs3"}, ofPatches: {"each"},
	}
)

// New returns a Graph without nodes.
func New() *Graph {
	g := &Graph{Theirs: map[string]Foreign{}}
	for _, name := range allTargets[ofPatch] {
		g.Theirs[name] = Foreign{Value: "x"}
	}
	for _, item := range allItems {
		g.Theirs["each-"+item] = Foreign{Value: "x", Selected: true}
	}
	return g
}

// Change makes one to three changes.
func (g *Graph) Change(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "edits") {
		g.edit(t)
	}
	if len(g.nodes) == 0 {
		g.add(t)
	}
	for _, n := range g.nodes {
		for _, id := range n.references() {
			if g.node(*id) == nil {
				*id = ""
			}
		}
	}
}

// Clear removes all nodes: Data then returns what a deleted Graph leaves.
func (g *Graph) Clear() { g.nodes = nil }

func (g *Graph) edit(t *rapid.T) {
	action := rapid.SampledFrom([]string{"add", "add", "add", "remove", "rename", "retarget", "text", "include", "items", "theirs", "select", "recreate"}).Draw(t, "edit")
	switch {
	case action == "theirs" || action == "select" || action == "recreate":
		g.editTheirs(t, action)
		return
	case action == "add" || len(g.nodes) == 0:
		g.add(t)
		return
	}
	i := rapid.IntRange(0, len(g.nodes)-1).Draw(t, "node")
	n := g.nodes[i]
	switch action {
	case "remove":
		g.nodes = slices.Delete(g.nodes, i, i+1)
	case "rename":
		before := n.id
		n.id = g.newID()
		for _, reader := range g.nodes {
			for _, id := range reader.references() {
				if *id == before {
					*id = n.id
				}
			}
		}
	case "retarget":
		n.target = cmp.Or(g.target(t, n.kind), n.target)
	case "text":
		n.text = drawText(t)
	case "include":
		n.included = !n.included
	case "items":
		n.items = drawItems(t)
	}
}

func (g *Graph) editTheirs(t *rapid.T, action string) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(g.Theirs))).Draw(t, "their object")
	foreign := g.Theirs[name]
	if action == "select" {
		foreign.Selected = !foreign.Selected
	} else {
		foreign.Value = rapid.StringMatching(`[xyz]`).Draw(t, "their value")
	}
	if action == "recreate" {
		foreign.Recreated++
	}
	g.Theirs[name] = foreign
}

func (g *Graph) newID() string {
	g.ids++
	return fmt.Sprint("n", g.ids)
}

func drawText(t *rapid.T) string { return rapid.StringMatching(`[a-d]`).Draw(t, "text") }

func drawItems(t *rapid.T) (items []string) {
	for _, item := range allItems {
		if rapid.Bool().Draw(t, "has "+item) {
			items = append(items, item)
		}
	}
	return items
}

// target draws a name for the object of a node; empty if none is free. Only objects that are read are shared.
func (g *Graph) target(t *rapid.T, kind string) string {
	shared := kind == ofRef || kind == ofDef || kind == ofSelection
	free := slices.DeleteFunc(slices.Clone(allTargets[kind]), func(name string) bool {
		return !shared && slices.ContainsFunc(g.nodes, func(n *node) bool { return n.kind != ofRef && n.target == name })
	})
	if len(free) == 0 {
		return ""
	}
	return rapid.SampledFrom(free).Draw(t, "target")
}

func (g *Graph) add(t *rapid.T) {
	kind := rapid.SampledFrom([]string{ofTemplate, ofTemplates, ofDef, ofRef, ofSelection, ofPatch, ofPatches}).Draw(t, "kind")
	target := g.target(t, kind)
	if len(g.nodes) == 6 || target == "" {
		return
	}
	n := &node{
		kind: kind, id: g.newID(), target: target, text: drawText(t), items: drawItems(t),
		included: rapid.IntRange(0, 3).Draw(t, "included") > 0, nested: rapid.IntRange(0, 2).Draw(t, "nested") == 0,
	}
	// earlier draws the id of a node of one of the kinds, or none.
	earlier := func(label string, kinds ...string) string {
		ids := []string{""}
		for _, other := range g.nodes {
			if slices.Contains(kinds, other.kind) {
				ids = append(ids, other.id)
			}
		}
		return rapid.SampledFrom(ids).Draw(t, label)
	}
	n.unless = earlier("unless", ofRef)
	if kind != ofRef && kind != ofSelection {
		n.reads = earlier("reads", ofTemplate, ofTemplates, ofDef, ofRef, ofSelection)
	}
	if kind == ofTemplates {
		n.over = earlier("over", ofSelection)
	}
	g.nodes = append(g.nodes, n)
}

// references returns pointers to the ids of other nodes, which follow a renamed or removed node.
func (n *node) references() []*string { return []*string{&n.reads, &n.unless, &n.over} }

func (g *Graph) node(id string) *node {
	for _, n := range g.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// Spec returns the spec of the Graph, with its ConfigMaps in the namespace.
func (g *Graph) Spec(namespace string) map[string]any {
	included, lists := map[string]any{"none": true}, map[string]any{"none": []any{"p"}}
	nodes := []any{map[string]any{"id": "included", "def": included}, map[string]any{"id": "lists", "def": lists}}
	for _, n := range g.nodes {
		items := []any{}
		for _, item := range n.items {
			items = append(items, item)
		}
		included[n.id], lists[n.id] = n.included, items
		fields := g.fields(n, namespace)
		conditions := []any{"${included." + n.id + "}"}
		if of := g.node(n.unless); of != nil {
			conditions = append(conditions, "${"+of.path()+".data.theirs != 'z'}")
		}
		fields["id"], fields["includeWhen"] = n.id, conditions
		if n.nested {
			fields = map[string]any{"id": "g" + n.id, "graph": map[string]any{"nodes": []any{fields}}}
		}
		nodes = append(nodes, fields)
	}
	return map[string]any{"nodes": nodes}
}

// path returns the CEL expression by which other nodes read a node.
func (n *node) path() string {
	if n.nested {
		return "g" + n.id + "." + n.id
	}
	return n.id
}

// read returns the text that reads the value of another node; empty if there is none.
func (g *Graph) read(n *node) string {
	from := g.node(n.reads)
	if from == nil {
		return ""
	}
	suffix := map[string]string{
		ofDef: ".v", ofRef: ".data.theirs", ofTemplate: ".data.v",
		ofTemplates: ".map(o, o.data.v).join('+')", ofSelection: ".map(o, o.data.theirs).join('+')",
	}[from.kind]
	return "-${" + from.path() + suffix + "}"
}

// fields returns the fields that depend on the kind of a node.
func (g *Graph) fields(n *node, namespace string) map[string]any {
	object := func(metadata map[string]any, key, value string) map[string]any {
		metadata["namespace"] = namespace
		out := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
		if key != "" {
			out["data"] = map[string]any{key: value}
		}
		return out
	}
	name, text := map[string]any{"name": n.target}, n.text+g.read(n)
	switch n.kind {
	case ofDef:
		return map[string]any{"def": map[string]any{"v": text}}
	case ofRef:
		return map[string]any{"ref": object(name, "", "")}
	case ofSelection:
		return map[string]any{"ref": object(map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"pick": "yes"}}}, "", "")}
	case ofPatch:
		return map[string]any{"patch": object(name, Mine, text)}
	case ofTemplate:
		return map[string]any{"template": object(name, Own, text)}
	}
	list, item, of := "${lists."+n.id+"}", "${x}", "${x}"
	if over := g.node(n.over); over != nil {
		list, item, of = "${"+over.path()+"}", "${x.metadata.name}", "${x.data.theirs}"
	}
	field, key := "template", Own
	if n.kind == ofPatches {
		field, key = "patch", Mine
	}
	return map[string]any{"forEach": []any{map[string]any{"x": list}}, field: object(map[string]any{"name": n.target + "-" + item}, key, of+text)}
}

type outcome struct {
	included bool
	value    string
	// objects contains the values of its objects by their names.
	objects map[string]string
}

func (g *Graph) evaluate(n *node) outcome {
	out := outcome{included: n.included, objects: map[string]string{}}
	if of := g.node(n.unless); of != nil {
		reference := g.evaluate(of)
		out.included = out.included && reference.included && reference.value != "z"
	}
	text := n.text
	if from := g.node(n.reads); from != nil {
		read := g.evaluate(from)
		text, out.included = text+"-"+read.value, out.included && read.included
	}
	switch n.kind {
	case ofRef:
		out.value = g.Theirs[n.target].Value
	case ofSelection:
		_, values := g.selected()
		out.value = strings.Join(values, "+")
	case ofTemplate, ofPatch, ofDef:
		out.value = text
		if n.kind != ofDef {
			out.objects[n.target] = text
		}
	case ofTemplates, ofPatches:
		items, values := n.items, n.items
		if over := g.node(n.over); over != nil {
			items, values = g.selected()
			out.included = out.included && g.evaluate(over).included
		}
		var all []string
		for i, item := range items {
			out.objects[n.target+"-"+item] = values[i] + text
			all = append(all, values[i]+text)
		}
		out.value = strings.Join(all, "+")
	}
	return out
}

// selected returns the names and the values of the foreign ConfigMaps that selections find.
func (g *Graph) selected() (names, values []string) {
	for _, name := range slices.Sorted(maps.Keys(g.Theirs)) {
		if g.Theirs[name].Selected {
			names, values = append(names, name), append(values, g.Theirs[name].Value)
		}
	}
	return names, values
}

// Data returns the data that the ConfigMaps must have, by their names.
func (g *Graph) Data() map[string]map[string]string {
	all := map[string]map[string]string{}
	for name, foreign := range g.Theirs {
		all[name] = map[string]string{Theirs: foreign.Value}
	}
	for _, n := range g.nodes {
		result := g.evaluate(n)
		if !result.included {
			continue
		}
		for name, value := range result.objects {
			if n.kind == ofPatch || n.kind == ofPatches {
				all[name][Mine] = value
			} else {
				all[name] = map[string]string{Own: value}
			}
		}
	}
	return all
}
