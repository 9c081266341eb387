package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/object/diagram"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// Ranks order rows: what a person has to act on comes first.
const (
	rankAction = iota
	rankUnready
	rankPart // it is not ready, and the row of the instance that composes it says so
	rankReady
)

// row is an object in a list.
type row struct {
	Object     report.Object `json:"object"`
	Definition bool          `json:"definition,omitempty"`
	Ready      observe.Ready `json:"ready"`
	Tone       diagram.Tone  `json:"tone"`
	Reason     string        `json:"reason,omitempty"`
	Cause      string        `json:"cause,omitempty"`
	Created    *time.Time    `json:"created,omitempty"`
	Deleting   *time.Time    `json:"deleting,omitempty"`
	Progress   string        `json:"progress,omitempty"`
	Pin        string        `json:"pin,omitempty"`

	key     object.Key
	version string
	rank    int
	text    string // lower case, for the filter
	// isUnreconciled is true if the definition may say why it is not ready, so that the row depends on that too.
	isUnreconciled bool
}

// List keeps the rows of objects. Only rows of objects that have changed are computed again. The zero value is ready to use.
type List struct {
	rows   map[types.UID]*row
	sorted []*row
	counts Counts
	kinds  []KindCounts
}

// KindCounts are the objects of a kind by what they are.
type KindCounts struct {
	Kind
	Counts
}

// Set replaces the definitions and the other objects. These may be shared with caches, and need no specs. A managed resource that an instance among
// them composes, and the composite of a claim, are found by a filter and not counted as unready: that instance is.
func (l *List) Set(definitions []DefinitionFacts, objects []*unstructured.Unstructured, now time.Time) {
	before := l.rows
	l.rows, l.sorted, l.counts = make(map[types.UID]*row, len(objects)), make([]*row, 0, len(objects)), Counts{}
	exists, definedBy := map[object.Key]bool{}, map[schema.GroupKind]*unstructured.Unstructured{}
	for _, o := range objects {
		exists[object.KeyOf(o)] = true
	}
	all := slices.Clip(objects)
	for _, f := range definitions {
		all = append(all, f.Definition)
		for _, gk := range f.Kinds {
			definedBy[gk] = f.Definition
		}
	}
	byKind := map[Kind]*Counts{}
	for i, o := range all {
		r := before[o.GetUID()]
		if r == nil || r.version != o.GetResourceVersion() || r.isUnreconciled {
			r = newRow(o, definedBy[o.GroupVersionKind().GroupKind()], now)
			r.Definition = i >= len(objects)
		}
		l.rows[o.GetUID()] = r
		if counted := *r; counted.rank < rankPart && isPart(o, exists) {
			counted.rank = rankPart
			r = &counted
		}
		l.sorted = append(l.sorted, r)
		l.counts.add(r)
		kind := Kind{o.GroupVersionKind().Group, o.GetKind()}
		if byKind[kind] == nil {
			byKind[kind] = &Counts{}
		}
		byKind[kind].add(r)
	}
	slices.SortFunc(l.sorted, compareRows)
	l.kinds = nil
	for kind, counts := range byKind {
		l.kinds = append(l.kinds, KindCounts{kind, *counts})
	}
	slices.SortFunc(l.kinds, func(a, b KindCounts) int {
		return cmp.Or(b.Action-a.Action, b.Unready-a.Unready, cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Group, b.Group))
	})
}

// compareRows orders rows: the worst first, definitions before what they define, and what has been unready for longest.
func compareRows(a, b *row) int {
	if byRank := cmp.Compare(a.rank, b.rank); byRank != 0 || a.rank == rankReady {
		return cmp.Or(byRank, a.key.Compare(b.key))
	}
	return cmp.Or(boolRank(b.Definition)-boolRank(a.Definition), timeAt(a.Created).Compare(timeAt(b.Created)), a.key.Compare(b.key))
}

func timeAt(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// isPart reports whether one of the objects that exist composes an object, so that its row says what is wrong.
func isPart(o *unstructured.Unstructured, exists map[object.Key]bool) bool {
	if claim, _, isClaimed := inventory.ClaimedBy(o); isClaimed && exists[claim] {
		return true
	}
	instance, _, isComposed := inventory.InstanceOf(o)
	return isComposed && exists[instance] && inventory.SetOf(o) == ""
}

// Counts counts the objects.
func (l *List) Counts() Counts { return l.counts }

func (c *Counts) add(r *row) {
	c.Total++
	if r.rank < rankPart {
		c.Unready++
	}
	if r.rank == rankAction {
		c.Action++
	}
	if r.Deleting != nil {
		c.Deleting++
	}
}

// Add returns the sum of counts.
func (c Counts) Add(o Counts) Counts {
	return Counts{c.Total + o.Total, c.Unready + o.Unready, c.Action + o.Action, c.Deleting + o.Deleting}
}

// newRow is the row of an object, from its own status: its children are not read. Its definition may be nil.
func newRow(o, definition *unstructured.Unstructured, now time.Time) *row {
	state := observe.ClusterState{Root: o}
	isUnreconciled := definition != nil && observe.IsUnreconciled(o)
	if isUnreconciled {
		state.ServedBy = map[object.Key]*unstructured.Unstructured{object.KeyOf(o): definition}
	}
	n := observe.Build(state, now)
	if problem := packageProblem(o); problem.Type != "" && n.Deleted == nil && n.Ready != observe.False {
		n.Ready, n.Reason, n.Message = observe.False, problem.Reason, problem.Message
	}
	out := &row{
		Object: objectOf(n), Ready: n.Ready, Reason: n.Reason, Created: n.Created, Deleting: n.Deleted, Tone: toneOf(n, now),
		key: object.KeyOf(o), version: o.GetResourceVersion(), rank: rankReady, isUnreconciled: isUnreconciled,
	}
	if n.Ready != observe.True && n.Ready != observe.NotReported || n.Deleted != nil {
		cause := strings.TrimPrefix(observe.Explain(n, now).Cause, objectOf(n).String()+" is not ready: ")
		out.Cause = observe.Truncate(cause, maxRowCause)
	}
	if d := n.Deletion; d != nil {
		out.Progress = fmt.Sprintf("%d of %d removed", d.Removed, d.Total)
	}
	if pin, pinned := revision.PinOf(o); pinned && pin.Malformed == "" {
		out.Pin = fmt.Sprint(pin.Number)
	}
	switch {
	case out.Tone == diagram.Bad:
		out.rank = rankAction
	case n.Ready == observe.False || n.Ready == observe.Unknown:
		out.rank = rankUnready
	}
	out.text = strings.ToLower(o.GetNamespace() + "/" + o.GetName() + " " + o.GetKind() + "." + o.GroupVersionKind().Group + " " + n.Reason + " " + out.Cause)
	return out
}

// packagesGroup is the group of packages of the composition dialect.
const packagesGroup = "pkg.crossplane.io"

// packageProblem is the condition of a package that says that it does not work; those of others have no condition Ready.
func packageProblem(o *unstructured.Unstructured) v1alpha1.Condition {
	if o.GroupVersionKind().Group == packagesGroup {
		for _, kind := range []string{"Installed", "Healthy"} {
			if c, ok := condition.Read(o).Get(kind); ok && c.Status != condition.True {
				return c
			}
		}
	}
	return v1alpha1.Condition{}
}

// maxRowCause bounds the cause in a row, in characters.
const maxRowCause = 240

// Window is the part of a list, or of a graph, that a viewer sees.
type Window struct {
	// Filter is a text that rows must have: in their names, kinds, reasons or causes.
	Filter string `json:"filter"`
	// Unready omits what is ready.
	Unready bool `json:"unready"`
	Offset  int  `json:"offset"`
	Limit   int  `json:"limit"`
	// Node and Field are the chosen node of a graph, and the field of it whose value is explained.
	Node  string `json:"node"`
	Field string `json:"field"`
}

// Bounds of a window.
const (
	maxWindow = 200
	maxFilter = 200 // bytes
)

// listHead is the head of a list.
type listHead struct {
	Counts
	// Matching counts the rows that the filter leaves, Offset is the place of the first row of the window among them.
	Matching int `json:"matching"`
	Offset   int `json:"offset"`
	Limit    int `json:"limit"`
	// Kinds are the kinds of a list of several, with the unready ones first. Problems say what could not be read.
	Kinds    []KindCounts `json:"kinds,omitempty"`
	Problems []string     `json:"problems,omitempty"`
}

// Document returns the rows of a window, moved to the last rows if there are not as many. Problems say what could not be read.
func (l *List) Document(w Window, problems ...string) Document {
	limit := min(max(w.Limit, 1), maxWindow)
	filter := strings.ToLower(strings.TrimSpace(w.Filter[:min(len(w.Filter), maxFilter)]))
	matching := l.sorted
	if filter != "" || w.Unready {
		matching = nil
		for _, r := range l.sorted {
			if strings.Contains(r.text, filter) && (!w.Unready || r.rank < rankPart) {
				matching = append(matching, r)
			}
		}
	}
	offset := min(max(w.Offset, 0), max(len(matching)-1, 0)/limit*limit)
	head := listHead{Counts: l.counts, Matching: len(matching), Offset: offset, Limit: limit, Problems: problems}
	if len(l.kinds) > 1 {
		head.Kinds = l.kinds
	}
	var items []Item
	for _, r := range matching[offset:min(offset+limit, len(matching))] {
		items = append(items, Item{r.key.String(), r})
	}
	return Document{Head: head, Items: items}
}
