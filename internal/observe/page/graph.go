package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object/diagram"
	"github.com/espalier-dev/espalier/internal/observe"
)

// Bounds of a graph.
const (
	maxNodes = 250 // nodes that are drawn
	maxItems = 6   // items of a collection that are drawn one by one
	maxLabel = 40  // characters of a line in a node
	maxTexts = 20  // further causes, blockers, waits, writes or fields of a node
)

// instanceHead is the head of the page of an instance.
type instanceHead struct {
	Gone   bool          `json:"gone,omitempty"`
	Object report.Object `json:"object"`
	Ready  observe.Ready `json:"ready"`
	Tone   diagram.Tone  `json:"tone"`
	Reason string        `json:"reason,omitempty"`
	// Cause is the deepest cause in one sentence; Chain leads to it.
	Cause   string       `json:"cause"`
	Chain   []link       `json:"chain,omitempty"`
	Advice  []Advice     `json:"advice,omitempty"`
	Others  []otherCause `json:"others,omitempty"`
	Created *time.Time   `json:"created,omitempty"`
	Deleted *time.Time   `json:"deleted,omitempty"`
	Removal *progress    `json:"removal,omitempty"`
	// Objects are those of Resources that exist, and Unready those that are not ready; what does not exist may be among these.
	Resources int `json:"resources"`
	Objects   int `json:"objects"`
	Unready   int `json:"unready"`
	// Definition is the definition of a graph's instance.
	Definition *report.Object `json:"definition,omitempty"`
	// Omitted counts nodes that are not drawn, Unreadable says what the viewer may not read.
	Omitted    int      `json:"omitted,omitempty"`
	Unreadable []string `json:"unreadable,omitempty"`

	Width  int    `json:"width"`
	Height int    `json:"height"`
	Edges  []edge `json:"edges"`
}

// progress is the progress of a deletion.
type progress struct {
	Removed int64 `json:"removed"`
	Total   int64 `json:"total"`
	Blocked int64 `json:"blocked,omitempty"`
}

// link is a step of the way to a cause.
type link struct {
	Name    string     `json:"name"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

type otherCause struct {
	Cause  string   `json:"cause"`
	Advice []Advice `json:"advice,omitempty"`
}

// edge is a line of a picture.
type edge struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Path   string `json:"path"`
	Dashed bool   `json:"dashed,omitempty"`
}

// box is a node of a picture with its place.
type box struct {
	ID     string        `json:"id"`
	Title  string        `json:"title"`
	Lines  []string      `json:"lines"`
	Shape  diagram.Shape `json:"shape,omitempty"`
	Tone   diagram.Tone  `json:"tone,omitempty"`
	X      int           `json:"x"`
	Y      int           `json:"y"`
	Width  int           `json:"width"`
	Height int           `json:"height"`
}

// nodeItem is a node of the graph with its details.
type nodeItem struct {
	box
	// Label is what a screen reader says.
	Label    string          `json:"label"`
	State    string          `json:"state"`
	Object   *report.Object  `json:"object,omitempty"`
	Instance bool            `json:"instance,omitempty"`
	Message  string          `json:"message,omitempty"`
	Cause    string          `json:"cause,omitempty"`
	Since    *time.Time      `json:"since,omitempty"`
	Advice   []Advice        `json:"advice,omitempty"`
	Waits    []wait          `json:"waits,omitempty"`
	Blockers []blocker       `json:"blockers,omitempty"`
	Created  *time.Time      `json:"created,omitempty"`
	Deleted  *time.Time      `json:"deleted,omitempty"`
	Writes   []observe.Write `json:"writes,omitempty"`
	Fields   []difference    `json:"fields,omitempty"`
	Commands []Advice        `json:"commands,omitempty"`
}

type wait struct {
	On     string    `json:"on"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

type blocker struct {
	Object  string     `json:"object"`
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	Since   *time.Time `json:"since,omitempty"`
	Advice  []Advice   `json:"advice,omitempty"`
}

// difference is a field that another manager has changed since the definition's value was applied.
type difference struct {
	Field    string                 `json:"field"`
	Value    string                 `json:"value"`
	Managers []observe.FieldManager `json:"managers,omitempty"`
	// Sets is what the definition sets: its expressions, or the place of a literal.
	Sets    string `json:"sets"`
	Command string `json:"command"`
}

// picture is a drawing without details.
type picture struct {
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Edges  []edge `json:"edges"`
	Nodes  []box  `json:"nodes"`
}

func newPicture(d diagram.Diagram) *picture {
	if len(d.Nodes) > maxNodes {
		return nil
	}
	for i := range d.Nodes {
		d.Nodes[i].Title = observe.Truncate(d.Nodes[i].Title, maxLabel)
		for j, line := range d.Nodes[i].Lines {
			d.Nodes[i].Lines[j] = observe.Truncate(line, maxLabel)
		}
	}
	l := diagram.Place(d)
	out := &picture{Width: l.Width, Height: l.Height, Edges: edgesOf(l)}
	for _, n := range l.Nodes {
		out.Nodes = append(out.Nodes, newBox(n))
	}
	return out
}

func newBox(n diagram.PlacedNode) box {
	return box{ID: n.ID, Title: n.Title, Lines: append([]string{}, n.Lines...), Shape: n.Shape, Tone: n.Tone, X: n.X, Y: n.Y, Width: n.Width, Height: n.Height}
}

func edgesOf(l diagram.Layout) []edge {
	out := []edge{}
	for _, e := range l.Edges {
		out = append(out, edge{From: e.From, To: e.To, Path: e.Path(), Dashed: e.Dashed})
	}
	return out
}

// Instance draws the tree of an object: each node with its details, and an edge from each to those that read it, as the
// definitions of the instances say; where these are not known, from an instance to its children.
func Instance(w observe.ClusterState, now time.Time) Document {
	if w.Gone() {
		return Document{Head: instanceHead{Gone: true, Edges: []edge{}}}
	}
	top := observe.Build(w, now)
	b := &builder{state: w, now: now, details: map[string]nodeItem{}, compiled: map[types.NamespacedName]*graph.Graph{}, objects: objectsOf(w)}
	b.add(top, "/", nil)
	b.addChildren(top, "/")
	l := diagram.Place(b.diagram)
	head := b.head(top)
	head.Width, head.Height, head.Edges = l.Width, l.Height, edgesOf(l)
	items := make([]Item, 0, len(l.Nodes))
	for _, n := range l.Nodes {
		item := b.details[n.ID]
		item.box = newBox(n)
		items = append(items, Item{n.ID, item})
	}
	return Document{Head: head, Items: items}
}

// objectsOf returns all objects of a state by their UIDs.
func objectsOf(w observe.ClusterState) map[types.UID]*unstructured.Unstructured {
	out := map[types.UID]*unstructured.Unstructured{w.Root.GetUID(): w.Root}
	for _, list := range w.Children {
		for _, o := range list {
			out[o.GetUID()] = o
		}
	}
	for _, list := range w.Instances {
		for _, o := range list {
			out[o.GetUID()] = o
		}
	}
	return out
}

// builder builds the graph of a tree.
type builder struct {
	state    observe.ClusterState
	now      time.Time
	diagram  diagram.Diagram
	details  map[string]nodeItem
	compiled map[types.NamespacedName]*graph.Graph
	objects  map[types.UID]*unstructured.Unstructured
	omitted  int
}

func (b *builder) head(top observe.Node) instanceHead {
	e := observe.Explain(top, b.now)
	out := instanceHead{
		Object: objectOf(top), Ready: top.Ready, Tone: toneOf(top, b.now), Reason: top.Reason, Cause: e.Cause, Advice: adviceOf(e.Advice),
		Created: top.Created, Deleted: top.Deleted,
		Resources: resourcesIn(top), Objects: top.Count(), Unready: unreadyIn(top), Omitted: b.omitted, Unreadable: b.state.Unreadable,
	}
	for _, l := range e.Chain {
		name := l.Node
		if l.Object != nil {
			name = l.Object.String()
		}
		out.Chain = append(out.Chain, link{name, l.Reason, l.Message, l.Since})
	}
	for _, o := range e.Others[:min(len(e.Others), maxTexts)] {
		out.Others = append(out.Others, otherCause{o.Cause, adviceOf(o.Advice)})
	}
	if name, ok := observe.DefinitionOf(b.state.Root); ok {
		out.Definition = &report.Object{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ResourceGraphDefinitionKind, Namespace: name.Namespace,
			Name: name.Name}
		if name.Namespace != "" {
			out.Definition.Kind = v1alpha1.ResourceGroupKind
		}
	}
	if d := top.Deletion; d != nil {
		out.Removal = &progress{d.Removed, d.Total, d.Blocked}
	}
	return out
}

// resourcesIn counts the objects that can be read, and what is not ready, whether it exists or not.
func resourcesIn(n observe.Node) int {
	count := 0
	if n.Exists && !n.Unseen || isUnready(n) {
		count = 1
	}
	for _, child := range n.Children {
		count += resourcesIn(child)
	}
	return count
}

func isUnready(n observe.Node) bool {
	return n.Ready == observe.False || n.Ready == observe.Unknown || !n.Exists && !n.Skipped && (len(n.Waits) > 0 || n.Problem != nil)
}

func unreadyIn(n observe.Node) int {
	count := 0
	if isUnready(n) {
		count = 1
	}
	for _, child := range n.Children {
		count += unreadyIn(child)
	}
	return count
}

// definitionOf returns the compiled definition of an instance; nil if it is not known.
func (b *builder) definitionOf(instance *unstructured.Unstructured) *graph.Graph {
	if instance == nil {
		return nil
	}
	name, ok := observe.DefinitionOf(instance)
	if !ok {
		return nil
	}
	compiled, known := b.compiled[name]
	if !known {
		compiled = observe.Compile(b.state.Definitions[name])
		b.compiled[name] = compiled
	}
	return compiled
}

// add adds a node. Parent is the instance that it belongs to.
func (b *builder) add(n observe.Node, id string, parent *unstructured.Unstructured) {
	title, lines := n.ID(), []string{}
	switch {
	case id == "/" || n.Node == "":
		title = n.Kind
	case n.Exists:
		lines = append(lines, n.Kind)
	}
	if n.Exists && n.Name != "" {
		lines = append(lines, n.Name)
	}
	state := stateOf(n)
	lines = append(lines, symbol(toneOf(n, b.now))+" "+state)
	drawn := diagram.Node{ID: id, Title: observe.Truncate(title, maxLabel), Shape: shapeOf(n), Tone: toneOf(n, b.now)}
	for _, line := range lines {
		drawn.Lines = append(drawn.Lines, observe.Truncate(line, maxLabel))
	}
	b.diagram.Nodes = append(b.diagram.Nodes, drawn)
	item := b.detail(n, parent)
	item.State = state
	item.Label = strings.Join(append([]string{title}, append(lines[:len(lines)-1:len(lines)-1], state)...), ", ")
	b.details[id] = item
}

func (b *builder) detail(n observe.Node, parent *unstructured.Unstructured) nodeItem {
	out := nodeItem{Instance: n.Instance, Message: n.Message, Created: n.Created, Deleted: n.Deleted, Commands: commandsFor(n, false)}
	for _, w := range n.Waits[:min(len(n.Waits), maxTexts)] {
		out.Waits = append(out.Waits, wait{w.On, w.Reason, w.Since.UTC()})
	}
	switch {
	case n.Problem != nil:
		since := n.Problem.Since.UTC()
		out.Cause, out.Since = n.Problem.Reason+": "+n.Problem.Message, &since
	case n.Removal != nil, n.Deleted != nil:
		out.Blockers = blockersOf(n) // these say it
	case n.Exists && n.Name != "" && (n.Ready == observe.False || n.Ready == observe.Unknown):
		e := observe.Explain(n, b.now)
		out.Cause, out.Advice = e.Cause, adviceOf(e.Advice)
	}
	if n.Exists && n.Name != "" {
		o := objectOf(n)
		out.Object = &o
	}
	if o := b.objects[n.UID]; n.UID != "" && o != nil {
		writes := observe.Writes(o)
		out.Writes = writes[:min(len(writes), maxTexts)]
		out.Fields = b.differences(o, parent)
	}
	return out
}

// blockersOf are what blocks an instance or, for an object without blockers below it, why it is not gone.
func blockersOf(n observe.Node) []blocker {
	if n.Removal != nil && n.Deletion == nil {
		cause := n.Removal.RootCause() // its instance knows more than the object
		return []blocker{newBlocker(cause, observe.AdviceOn(cause))}
	}
	var out []blocker
	all := observe.FindBlockers(n).Blockers
	for _, x := range all[:min(len(all), maxTexts)] {
		out = append(out, newBlocker(x.BlockedObject, x.Advice))
	}
	return out
}

func newBlocker(o report.BlockedObject, advice []string) blocker {
	out := blocker{o.Object.String(), string(o.Reason), o.Message, nil, adviceOf(advice)}
	if !o.Since.IsZero() {
		since := o.Since.UTC()
		out.Since = &since
	}
	return out
}

// maxValue bounds what is shown of a value, in characters.
const maxValue = 200

func (b *builder) differences(o, parent *unstructured.Unstructured) []difference {
	if parent == nil {
		return nil
	}
	state := b.state
	state.Root = parent
	all := observe.Differences(o, state, b.definitionOf(parent))
	var out []difference
	for _, e := range all[:min(len(all), maxTexts)] {
		d := difference{Field: e.Field.String(), Value: e.ValueText(maxValue), Managers: e.Managers, Sets: e.Place.String()}
		if len(e.Expressions) > 0 {
			d.Sets = observe.Truncate(strings.Join(e.Expressions, " "), maxValue)
		}
		d.Command = "espalier why " + observe.ArgumentsOf(report.ObjectOf(o)) + " " + diag.ShellWord(d.Field)
		out = append(out, d)
	}
	return out
}

// addChildren adds what is below a node, and the edges between.
func (b *builder) addChildren(n observe.Node, id string) {
	instance := b.objects[n.UID]
	groups := map[string][]string{}
	var shown []observe.Node
	var ids []string
	for _, children := range groupsOf(n.Children) {
		node := children[0].Node
		for i, child := range children {
			if len(b.diagram.Nodes) >= maxNodes {
				b.omitted += child.Count()
				continue
			}
			below := id + child.ID() + "/"
			if _, used := b.details[below]; used {
				below += objectOf(child).String() + "/"
			}
			if i == maxItems && len(children) > maxItems+1 {
				b.addRest(children[i:], below)
				groups[node], ids, shown = append(groups[node], below), append(ids, below), append(shown, observe.Node{Node: node})
				break
			}
			b.add(child, below, instance)
			groups[node], ids, shown = append(groups[node], below), append(ids, below), append(shown, child)
		}
	}
	b.connect(n, id, instance, groups, ids, shown)
	for i, child := range shown {
		b.addChildren(child, ids[i])
	}
}

// groupsOf returns children by their nodes, in their order; in each, the unready ones first.
func groupsOf(children []observe.Node) [][]observe.Node {
	var out [][]observe.Node
	place := map[string]int{}
	for _, child := range children {
		i, known := place[child.Node]
		if child.Node == "" || !known {
			place[child.Node] = len(out)
			out = append(out, []observe.Node{child})
			continue
		}
		out[i] = append(out[i], child)
	}
	for _, group := range out {
		slices.SortStableFunc(group, func(a, b observe.Node) int { return cmp.Compare(readyRank(a), readyRank(b)) })
	}
	return out
}

func readyRank(n observe.Node) int {
	if n.Ready == observe.True {
		return 1
	}
	return 0
}

// addRest adds one node for the further items of a collection.
func (b *builder) addRest(rest []observe.Node, id string) {
	ready := 0
	for _, n := range rest {
		ready += readyRank(n)
	}
	tone := diagram.Good
	if ready < len(rest) {
		tone = diagram.Progress
	}
	state := fmt.Sprintf("%d of %d ready", ready, len(rest))
	title := fmt.Sprintf("%s: %d more", rest[0].Node, len(rest))
	b.diagram.Nodes = append(b.diagram.Nodes, diagram.Node{ID: id, Title: observe.Truncate(title, maxLabel), Lines: []string{symbol(tone) + " " + state},
		Shape: diagram.Stacked, Tone: tone})
	b.details[id] = nodeItem{Label: title + ", " + state, State: state}
}

// connect adds the edges of the definition. What has no edge in it hangs below the instance.
func (b *builder) connect(n observe.Node, id string, instance *unstructured.Unstructured, groups map[string][]string, ids []string, shown []observe.Node) {
	drawn := diagram.Diagram{}
	if n.Instance {
		if compiled := b.definitionOf(instance); compiled != nil {
			drawn = compiled.Diagram()
		}
	}
	b.addExternal(drawn, id, groups)
	connected := map[string]bool{}
	for i, e := range drawn.Edges {
		from := groups[e.From]
		if e.From == drawn.Nodes[0].ID {
			from = []string{id}
		}
		for _, f := range from {
			for _, t := range groups[e.To] {
				b.diagram.Edges = append(b.diagram.Edges, diagram.Edge{From: f, To: t, Dashed: drawn.Edges[i].Dashed})
				connected[t] = connected[t] || !e.Dashed
			}
		}
	}
	for i, below := range ids {
		if !connected[below] {
			b.diagram.Edges = append(b.diagram.Edges, diagram.Edge{From: id, To: below, Dashed: shown[i].Pruned})
		}
	}
}

// addExternal adds the nodes of a definition that are objects of others: these are no children.
func (b *builder) addExternal(drawn diagram.Diagram, id string, groups map[string][]string) {
	for _, x := range drawn.Nodes {
		if x.Shape != diagram.Dashed || len(groups[x.ID]) > 0 || len(b.diagram.Nodes) >= maxNodes {
			continue
		}
		below := id + x.ID + "/"
		groups[x.ID] = []string{below}
		x.ID, x.Tone = below, diagram.Muted
		b.diagram.Nodes = append(b.diagram.Nodes, x)
		b.details[below] = nodeItem{Label: strings.Join(append([]string{x.Title}, x.Lines...), ", "), State: "belongs to another owner"}
	}
}

// stateOf is the state of a node in a few words.
func stateOf(n observe.Node) string {
	reason := func(text string) string {
		if n.Reason == "" || n.Reason == text {
			return text
		}
		return text + ": " + n.Reason
	}
	switch {
	case n.Skipped:
		return "left out"
	case n.Deleted != nil && n.Removal != nil && n.Removal.Reason != report.Deleting:
		return "deleting: " + string(n.Removal.Reason)
	case n.Deleted != nil:
		if d := n.Deletion; d != nil && d.Total > 0 {
			return fmt.Sprintf("deleting: %d of %d removed", d.Removed, d.Total)
		}
		return "deleting"
	case n.Removal != nil:
		return "not removed: " + string(n.Removal.Reason)
	case n.Problem != nil:
		return n.Problem.Reason
	case len(n.Waits) > 0:
		return "waits for " + n.Waits[0].On
	case n.Variable:
		return "a known value"
	case n.Unseen:
		return "cannot be read"
	case !n.Exists:
		return reason("does not exist yet")
	case n.Ready == observe.True:
		return "ready"
	case n.Ready == observe.NotReported:
		return "exists; reports no readiness"
	case n.Ready == observe.Unknown:
		return reason("readiness unknown")
	}
	return reason("not ready")
}

// toneOf is the tone of a node: bad only if a person has to act.
func toneOf(n observe.Node, now time.Time) diagram.Tone {
	top := n
	top.Children = nil
	switch {
	case n.Skipped:
		return diagram.Muted
	case observe.Rows(top, now)[0].NeedsAction, n.Deleted != nil && len(actionable(n)) > 0:
		return diagram.Bad
	case n.Ready == observe.True && n.Deleted == nil:
		return diagram.Good
	case n.Variable && len(n.Waits) == 0, n.Exists && n.Ready == observe.NotReported && n.Deleted == nil:
		return diagram.Neutral
	}
	return diagram.Progress
}

// actionable are the blockers that do not go by themselves.
func actionable(n observe.Node) []observe.BlockedObject {
	return slices.DeleteFunc(observe.FindBlockers(n).Blockers, func(b observe.BlockedObject) bool { return b.InProgress })
}

// symbol stands for a tone where colors are not seen.
func symbol(t diagram.Tone) string {
	switch t {
	case diagram.Good:
		return "✓"
	case diagram.Bad:
		return "✕"
	case diagram.Progress:
		return "…"
	case diagram.Muted, diagram.Neutral:
	}
	return "·"
}

func shapeOf(n observe.Node) diagram.Shape {
	switch {
	case n.Variable:
		return diagram.Rounded
	case !n.Exists || n.Pruned:
		return diagram.Dashed
	}
	return diagram.Box
}

func rollbackCommand(definition *unstructured.Unstructured, to int64) string {
	text := fmt.Sprintf("espalier rollback %s --to %d", definition.GetName(), to)
	if definition.GetNamespace() != "" {
		text += " --namespace " + definition.GetNamespace()
	}
	return text
}
