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
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object/diagram"
	"github.com/espalier-dev/espalier/internal/observe"
)

// Bounds of a graph.
const (
	maxNodes = 250 // nodes that are drawn
	maxItems = 6   // items of a collection that are drawn one by one
	maxWhole = 60  // nodes of a graph that has no box for what is ready below an instance
	maxLabel = 40  // characters of a line in a node
	maxTitle = 22  // characters of the id of an item, which else has a number
	maxTexts = 20  // further causes, blockers, waits, conditions, writes or fields of a node
)

// instanceHead is the head of the page of an instance.
type instanceHead struct {
	Gone   bool          `json:"gone,omitempty"`
	Object report.Object `json:"object"`
	Ready  observe.Ready `json:"ready"`
	Tone   diagram.Tone  `json:"tone"`
	Reason string        `json:"reason,omitempty"`
	// Cause is the deepest cause in one sentence, CauseAt is its node, and Chain leads to it.
	Cause   string       `json:"cause"`
	CauseAt string       `json:"causeAt,omitempty"`
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

	layout
	// Flows lead from each node to those that read it.
	Flows []flow `json:"flows,omitempty"`
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

// flow is a flow of data from a node to one that reads it; Later, one of deletions, from deleteAfter.
type flow struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Later bool   `json:"later,omitempty"`
}

// nodeItem is a node of the graph.
type nodeItem struct {
	box
	// Label is what a screen reader says; Parent is the node that contains it.
	Label  string `json:"label"`
	State  string `json:"state"`
	Parent string `json:"parent,omitempty"`
}

// box is a node with its place.
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

// detailsKey is the key of the item with the details of the chosen node; keys of nodes begin with a slash.
const detailsKey = "details"

// Instance draws the tree of an object: each node below the instance that contains it, with the flows of data that the definitions say.
// The node of the window has its details, and the explanation of the field; without one, the node of the cause has.
func Instance(w observe.ClusterState, chosen Window, now time.Time) Document {
	if w.Gone() {
		return Document{Head: instanceHead{Gone: true}}
	}
	top := observe.Build(w, now)
	b := &builder{state: w, now: now, nodes: map[string]builtNode{}, at: map[report.Object]string{}, compiled: map[types.NamespacedName]*graph.Graph{}, objects: objectsOf(w)}
	b.isFolded = nodesIn(top) > maxWhole
	root := b.add(top, "/", nil, "")
	b.addChildren(top, root)
	head := b.head(top)
	head.layout, head.Flows = placeTree(root), b.flows
	items := make([]Item, 0, len(b.order)+1)
	for _, at := range b.order {
		n := b.nodes[at.id]
		n.item.X, n.item.Y, n.item.Width, n.item.Height = at.x, at.y, boxWidth, boxHeight
		items = append(items, Item{at.id, n.item})
	}
	if _, known := b.nodes[chosen.Node]; !known {
		chosen.Node = cmp.Or(head.CauseAt, "/")
	}
	return Document{Head: head, Items: append(items, Item{detailsKey, b.details(b.nodes[chosen.Node], chosen.Field)})}
}

// objectsOf returns all objects of a state by their UIDs.
func objectsOf(w observe.ClusterState) map[types.UID]*unstructured.Unstructured {
	out := map[types.UID]*unstructured.Unstructured{w.Root.GetUID(): w.Root}
	for _, o := range w.Objects() {
		out[o.GetUID()] = o
	}
	return out
}

// builder builds the graph of a tree.
type builder struct {
	state    observe.ClusterState
	now      time.Time
	nodes    map[string]builtNode
	order    []*treeNode
	flows    []flow
	at       map[report.Object]string
	compiled map[types.NamespacedName]*graph.Graph
	objects  map[types.UID]*unstructured.Unstructured
	omitted  int
	// isFolded is true for a graph with many nodes: nested instances in which everything is ready are one box each.
	isFolded bool
}

// folds reports whether what is below a node is not drawn.
func (b *builder) folds(n observe.Node) bool {
	return b.isFolded && len(n.Children) > 0 && unreadyIn(n) == 0
}

// builtNode is a node of the graph with what its details come from.
type builtNode struct {
	item   nodeItem
	node   observe.Node
	parent *unstructured.Unstructured // the instance that it belongs to
}

func (b *builder) head(top observe.Node) instanceHead {
	e := observe.Explain(top, b.now)
	out := instanceHead{
		Object: objectOf(top), Ready: top.Ready, Tone: toneOf(top, b.now), Reason: top.Reason, Cause: e.Cause, Advice: adviceOf(e.Advice),
		Created: top.Created, Deleted: top.Deleted,
		Resources: resourcesIn(top), Objects: top.Count(), Unready: unreadyIn(top), Omitted: b.omitted, Unreadable: b.state.Unreadable,
	}
	within := "/"
	for _, l := range e.Chain {
		name := l.Node
		if l.Object != nil {
			name = l.Object.String()
		}
		out.Chain = append(out.Chain, link{name, l.Reason, l.Message, l.Since})
		at, known := "", false
		if l.Object != nil {
			at, known = b.at[*l.Object]
		}
		if _, exists := b.nodes[within+l.Node+"/"]; !known && exists {
			at = within + l.Node + "/"
		}
		if at != "" && at != "/" {
			out.CauseAt = at
		}
		if at != "" && len(b.nodes[at].node.Children) > 0 {
			within = at
		}
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

// definitionOf returns the compiled definition of an instance; nil if it is not known.
func (b *builder) definitionOf(instance *unstructured.Unstructured) *graph.Graph {
	if instance == nil {
		return nil
	}
	name, ok := observe.DefinitionOf(instance)
	if instance.GroupVersionKind() == graph.GraphKind {
		return observe.Compile(instance)
	}
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

// add adds a node. Parent is the instance that it belongs to, with the node of that.
func (b *builder) add(n observe.Node, id string, parent *unstructured.Unstructured, parentID string) *treeNode {
	title, lines := n.ID(), []string{}
	if len(title) > maxTitle && n.Index != nil {
		title = fmt.Sprintf("%s[%d]", n.Node, *n.Index) // the name is in the next line
	}
	switch {
	case id == "/" || n.Node == "":
		title = n.Kind
	case n.Exists:
		lines = append(lines, n.Kind)
	}
	if n.Exists && n.Name != "" {
		lines = append(lines, n.Name)
		b.at[objectOf(n)] = id
	}
	shape, state := shapeOf(n), stateOf(n)
	if id != "/" && b.folds(n) {
		shape, state = diagram.Stacked, fmt.Sprintf("%s, and all %d below", state, resourcesIn(n)-1)
	}
	return b.addBox(box{ID: id, Title: title, Lines: lines, Shape: shape, Tone: toneOf(n, b.now)}, state, n, parent, parentID)
}

func (b *builder) addBox(drawn box, state string, n observe.Node, parent *unstructured.Unstructured, parentID string) *treeNode {
	label := strings.Join(append(append([]string{drawn.Title}, drawn.Lines...), state), ", ")
	drawn.Title = observe.Truncate(drawn.Title, maxLabel)
	for i, line := range drawn.Lines {
		drawn.Lines[i] = observe.Truncate(line, maxLabel)
	}
	at := &treeNode{id: drawn.ID}
	b.order = append(b.order, at)
	b.nodes[drawn.ID] = builtNode{nodeItem{box: drawn, Label: label, State: observe.Truncate(state, maxRowCause), Parent: parentID}, n, parent}
	return at
}

// addChildren adds what is below a node, and the flows of data between.
func (b *builder) addChildren(n observe.Node, at *treeNode) {
	instance := b.objects[n.UID]
	groups := map[string][]string{}
	var shown []observe.Node
	for _, children := range groupsOf(n.Children) {
		node := children[0].Node
		for i, child := range children {
			if len(b.nodes) >= maxNodes {
				b.omitted += child.Count()
				continue
			}
			below := at.id + child.ID() + "/"
			if _, used := b.nodes[below]; used {
				below += objectOf(child).String() + "/"
			}
			groups[node] = append(groups[node], below)
			if i == maxItems && len(children) > maxItems+1 {
				at.children, shown = append(at.children, b.addRest(children[i:], below, at.id)), append(shown, observe.Node{})
				break
			}
			at.children, shown = append(at.children, b.add(child, below, instance, at.id)), append(shown, child)
		}
	}
	below := at.children
	b.addFlows(n, at, instance, groups)
	for i, child := range shown {
		if !b.folds(child) {
			b.addChildren(child, below[i])
		}
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
	if n.Ready == observe.True || n.Ready == observe.NotReported {
		return 1
	}
	return 0
}

// addRest adds one node for the further items of a collection.
func (b *builder) addRest(rest []observe.Node, id, parentID string) *treeNode {
	unready := 0
	for _, n := range rest {
		unready += 1 - readyRank(n)
	}
	tone, state := diagram.Good, "none is unready"
	if unready > 0 {
		tone, state = diagram.Progress, fmt.Sprintf("%d are not ready", unready)
	}
	return b.addBox(box{ID: id, Title: fmt.Sprintf("%s: %d more", rest[0].Node, len(rest)), Lines: []string{rest[0].Kind}, Shape: diagram.Stacked, Tone: tone}, state, observe.Node{}, nil, parentID)
}

// addFlows adds the flows of data of the definition, with the objects of other owners that it reads.
func (b *builder) addFlows(n observe.Node, at *treeNode, instance *unstructured.Unstructured, groups map[string][]string) {
	if !n.Instance {
		return
	}
	compiled := b.definitionOf(instance)
	if compiled == nil {
		return
	}
	drawn := compiled.Diagram()
	for _, x := range drawn.Nodes {
		if x.Shape != diagram.Dashed || len(groups[x.ID]) > 0 || len(b.nodes) >= maxNodes {
			continue
		}
		below := at.id + x.ID + "/"
		groups[x.ID] = []string{below}
		foreign := b.addBox(box{ID: below, Title: x.Title, Lines: knownLines(x), Shape: x.Shape, Tone: diagram.Muted}, "belongs to another owner", observe.Node{}, nil, at.id)
		foreign.isForeign = true
		at.children = append(at.children, foreign)
	}
	for _, e := range drawn.Edges {
		for _, from := range groups[e.From] {
			for _, to := range groups[e.To] {
				b.flows = append(b.flows, flow{from, to, e.Dashed})
			}
		}
	}
}
