// Package preview computes what files would change in a cluster if they were applied: for each instance
// what is created, changed, replaced, deleted, orphaned and refused, in which order, and what cannot be
// said yet; or what a takeover from another engine would change. It compares states of objects that a
// simulation of the controllers has found (package simulation), and prints them as text, Markdown or JSON.
// Values of Secrets are hidden.
// See docs/design/0016-the-controllers-without-effect.md.
//
// Pure: it decides from values alone.
package preview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// Object is an object as it is and as it would be.
type Object struct {
	// Before is nil for an object that would be created, After for one that would be gone.
	Before, After *unstructured.Unstructured
	// Deletion says that its deletion would be requested.
	Deletion bool
	// Order has objects in the order in which they would be written first.
	Order uint64
	// Reconciled says that the controllers reconcile the object, rather than only compose it.
	Reconciled bool
	// Own says that the object belongs to Espalier's installation: it is not counted, and listed only if it changes.
	Own bool
}

// Latest is the object as it would be, or as it is if it would be gone.
func (o Object) Latest() *unstructured.Unstructured {
	if o.After != nil {
		return o.After
	}
	return o.Before
}

// Input is what a simulation has found.
type Input struct {
	// Objects are those that would be written.
	Objects []Object
	// Decisions have what is decided last for each instance that the controllers have reconciled.
	Decisions map[object.Key]plan.Plan
	// Secrets are values of Secrets: text that contains one of them is hidden.
	Secrets []string
	// Problems are those of the simulation itself: refused files and failed reconciles.
	Problems []Problem
	// Notes are remarks on how exact the plan is, each a sentence.
	Notes []string
	// Incomplete says that the controllers were still busy when the time was over.
	Incomplete bool
	// Records says that the plan also compares what engines record on objects: field managers, owner references, finalizers,
	// all labels and annotations, and the status. It lists objects that would not change, and problems that existed before.
	Records bool
}

// Action is what would happen to an object.
type Action string

// Actions.
const (
	Create  Action = "Create"
	Change  Action = "Change"
	Replace Action = "Replace" // deleted, and created again under the same name
	Delete  Action = "Delete"
	Orphan  Action = "Orphan" // it stays, and no longer belongs to its instance
	Keep    Action = "Keep"   // the object itself would not change; only for instances, unless records are compared
)

// Ref names an object.
type Ref struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func refTo(k object.Key) Ref { return Ref{k.Group, k.Kind, k.Namespace, k.Name} }

// Key returns the key of the object.
func (r Ref) Key() object.Key {
	return object.Key{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// String names the object as Kind namespace/name.
func (r Ref) String() string { return r.Key().String() }

// ObjectChange is what would happen to one object.
type ObjectChange struct {
	Ref
	// Node is the id of the node that the object is of; empty if there is none.
	Node   string        `json:"node,omitempty"`
	Action Action        `json:"action"`
	Fields []FieldChange `json:"fields,omitempty"`
	// Records says that Espalier's own records on the object would change too, or alone.
	Records bool `json:"records,omitempty"`
	// Own says that the object belongs to Espalier's installation.
	Own bool `json:"own,omitempty"`
}

// Wait is a node of which nothing more can be said now: it waits for what the simulation does not do,
// such as that an object becomes ready.
type Wait struct {
	Node    string `json:"node"`
	Message string `json:"message"`
	// Held says that it is known what the node would change, and the definition holds it back.
	Held bool `json:"held,omitempty"`
}

func (w Wait) String() string {
	if w.Held {
		return w.Node + ": held back: " + w.Message
	}
	return w.Node + ": not known yet: it " + w.Message
}

// Instance is what would happen to an instance and to its objects.
type Instance struct {
	ObjectChange
	// Objects are in the order in which they would be written.
	Objects []ObjectChange `json:"objects,omitempty"`
	Waits   []Wait         `json:"waits,omitempty"`
}

// IsUnchanged says that nothing would happen to the instance and to its objects.
func (i Instance) IsUnchanged() bool {
	return i.Action == Keep && len(i.Waits) == 0 && !slices.ContainsFunc(i.Objects, func(o ObjectChange) bool { return o.Action != Keep })
}

// Plan is what would change.
type Plan struct {
	// Objects belong to no instance: definitions, and what they lead to.
	Objects   []ObjectChange `json:"objects,omitempty"`
	Instances []Instance     `json:"instances,omitempty"`
	Problems  []Problem      `json:"problems,omitempty"`
	Notes     []string       `json:"notes,omitempty"`
	// Incomplete says that the controllers were still busy when the time was over.
	Incomplete bool    `json:"incomplete,omitempty"`
	Summary    Summary `json:"summary"`
}

// Summary counts the objects of a plan by action.
type Summary struct {
	Instances int `json:"instances"`
	Created   int `json:"created"`
	Changed   int `json:"changed"`
	Replaced  int `json:"replaced"`
	Deleted   int `json:"deleted"`
	Orphaned  int `json:"orphaned"`
	Waiting   int `json:"waiting"`
	// Unchanged are counted only if records are compared.
	Unchanged int `json:"unchanged,omitempty"`
	// Problems are those that did not exist before.
	Problems int `json:"problems"`
}

// IsEmpty says that nothing would change, and that there are no problems.
func (p Plan) IsEmpty() bool {
	s := p.Summary
	return s.Created+s.Changed+s.Replaced+s.Deleted+s.Orphaned+s.Problems == 0
}

// New returns the plan for what a simulation has found.
func New(in Input) Plan {
	b := builder{in: in, owners: map[string]object.Key{}, instances: map[object.Key]*Instance{}, nodes: map[object.Key]node{}, layers: map[Ref]int{}}
	b.mask = newMask(in.Secrets)
	b.noteOwners()
	changes := slices.SortedStableFunc(slices.Values(in.Objects), func(a, b Object) int { return cmp.Compare(a.Order, b.Order) })
	for _, o := range changes {
		b.add(o)
	}
	p := Plan{Objects: b.objects, Notes: in.Notes, Incomplete: in.Incomplete}
	for _, key := range slices.SortedFunc(maps.Keys(b.instances), object.Key.Compare) {
		i := b.instances[key]
		slices.SortStableFunc(i.Objects, b.compare)
		i.Waits = waitsOf(in.Decisions[key])
		if i.IsUnchanged() && !in.Records {
			continue // only its status would change
		}
		p.Instances = append(p.Instances, *i)
	}
	p.Problems = b.problems()
	p.Summary = p.summarize()
	if !in.Records {
		p.Summary.Unchanged = 0
	}
	return p
}

// node is what is decided for an object of an instance.
type node struct {
	id        string
	sensitive bool
}

type builder struct {
	in   Input
	mask mask
	// owners are the instances by the id of their ApplySets.
	owners    map[string]object.Key
	nodes     map[object.Key]node
	objects   []ObjectChange
	instances map[object.Key]*Instance
	// layers are the steps of the order of application in which objects are written.
	layers map[Ref]int
}

// compare compares objects of an instance by their order: those that are applied by layers, then those
// that are deleted, by layers in reverse. Those of a layer are written at the same time, so that which
// of them came first says nothing.
func (b *builder) compare(x, y ObjectChange) int {
	switch {
	case x.Action != Delete && y.Action == Delete:
		return -1
	case x.Action == Delete && y.Action != Delete:
		return 1
	case x.Action == Delete:
		x, y = y, x
	}
	return cmp.Or(cmp.Compare(b.layers[x.Ref], b.layers[y.Ref]), cmp.Compare(x.Node, y.Node), x.Key().Compare(y.Key()))
}

// noteOwners records the instances, and the nodes of their objects.
func (b *builder) noteOwners() {
	for key, decided := range b.in.Decisions {
		b.owners[inventory.ApplySetID(key)] = key
		for _, step := range decided.Steps {
			for _, o := range []*unstructured.Unstructured{step.Current, step.Object} {
				if o != nil && !step.External {
					b.nodes[object.KeyOf(o)] = node{step.Node, step.Sensitive || step.SecretFields}
				}
			}
		}
	}
	for _, o := range b.in.Objects {
		for _, state := range []*unstructured.Unstructured{o.Before, o.After} {
			if state != nil && inventory.IsInstance(state) {
				b.owners[inventory.SetOf(state)] = object.KeyOf(state)
			}
		}
	}
}

// add adds an object to the plan, unless nothing about it would change and only changes are listed.
func (b *builder) add(o Object) {
	key := object.KeyOf(o.Latest())
	change := b.describe(o)
	b.layers[change.Ref] = inventory.Layer(o.Latest())
	owner, hasOwner := b.ownerOf(o)
	isInstance, lists := b.isInstance(o), change.Action != Keep || b.in.Records && !o.Own
	if isInstance {
		i := b.instance(key)
		i.Action, i.Fields, i.Records = change.Action, change.Fields, change.Records
		lists = lists && hasOwner && !b.in.Records
	}
	switch {
	case !lists:
	case hasOwner:
		i := b.instance(owner)
		i.Objects = append(i.Objects, change)
	default:
		b.objects = append(b.objects, change)
	}
}

// instance returns the entry of an instance.
func (b *builder) instance(key object.Key) *Instance {
	i, ok := b.instances[key]
	if !ok {
		i = &Instance{ObjectChange: ObjectChange{Ref: refTo(key), Action: Keep}}
		b.instances[key] = i
	}
	return i
}

// ownerOf is the instance that an object belongs to now, or else belonged to.
func (b *builder) ownerOf(o Object) (owner object.Key, found bool) {
	for _, state := range []*unstructured.Unstructured{o.After, o.Before} {
		if state == nil {
			continue
		}
		if owner, found = b.owners[state.GetLabels()[v1alpha1.ApplySetPartOfLabel]]; found {
			return owner, true
		}
	}
	return object.Key{}, false
}

func (b *builder) isInstance(o Object) bool {
	_, decided := b.in.Decisions[object.KeyOf(o.Latest())]
	return decided || inventory.IsInstance(o.Latest()) || b.in.Records && o.Before != nil && inventory.IsInstance(o.Before)
}

// describe compares the states of an object. An object that only its status changes of does not change.
func (b *builder) describe(o Object) ObjectChange {
	key := object.KeyOf(o.Latest())
	at := b.nodes[key]
	out := ObjectChange{Ref: refTo(key), Node: at.id, Own: o.Own}
	switch {
	case o.Before == nil:
		out.Action = Create
	case o.After == nil || o.Deletion:
		out.Action = Delete
	case o.Before.GetUID() != o.After.GetUID():
		out.Action = Replace
		out.Fields, _ = b.diff(o, at.sensitive)
	default:
		out.Fields, out.Records = b.diff(o, at.sensitive)
		switch {
		case len(out.Fields) == 0 && !out.Records:
			out.Action = Keep
		case !b.in.Records && isOrphaned(o):
			out.Action = Orphan
		default:
			out.Action = Change
		}
	}
	return out
}

// diff compares the states of an object that exists in both.
func (b *builder) diff(o Object, sensitive bool) (fields []FieldChange, records bool) {
	if b.in.Records {
		return diffRecords(o.Before, o.After), false
	}
	return diff(o.Before, o.After, b.mask.of(o.Latest(), sensitive))
}

// isOrphaned says whether an object would no longer belong to its instance.
func isOrphaned(o Object) bool {
	const partOf, retained = v1alpha1.ApplySetPartOfLabel, v1alpha1.RetainedFromAnnotation
	return o.Before.GetLabels()[partOf] != "" && o.After.GetLabels()[partOf] == "" ||
		o.Before.GetAnnotations()[retained] == "" && o.After.GetAnnotations()[retained] != ""
}

// waitsOf are the nodes of which nothing more is known, and the changes that the definition holds back.
func waitsOf(p plan.Plan) []Wait {
	var out []Wait
	held := map[string]int{}
	for _, step := range p.Steps {
		if step.Problem.Reason == plan.NotPropagated {
			if held[step.Problem.Message]++; held[step.Problem.Message] == 1 {
				out = append(out, Wait{Node: step.Node, Message: step.Problem.Message, Held: true})
			}
			continue
		}
		if step.Action != plan.Defer || len(step.Waits) == 0 || step.HasExpressionProblem() {
			continue
		}
		var texts []string
		for _, w := range step.Waits {
			text := strings.TrimPrefix(w.String(), w.Node+" ")
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
		out = append(out, Wait{Node: step.Node, Message: strings.Join(texts, "; ")})
	}
	for i, w := range out {
		if more := held[w.Message] - 1; more > 0 {
			out[i].Node += fmt.Sprintf(" and %d more", more)
		}
	}
	return out
}

func (p Plan) summarize() Summary {
	s := Summary{Instances: len(p.Instances), Problems: len(p.problemsThatAre(false))}
	counted := map[Ref]bool{} // a nested instance is in two places
	count := func(o ObjectChange) {
		if counted[o.Ref] || o.Own {
			return
		}
		counted[o.Ref] = true
		switch o.Action {
		case Create:
			s.Created++
		case Change:
			s.Changed++
		case Replace:
			s.Replaced++
		case Delete:
			s.Deleted++
		case Orphan:
			s.Orphaned++
		case Keep:
			s.Unchanged++
		}
	}
	for _, o := range p.Objects {
		count(o)
	}
	for _, i := range p.Instances {
		count(i.ObjectChange)
		s.Waiting += len(i.Waits)
		for _, o := range i.Objects {
			count(o)
		}
	}
	return s
}
