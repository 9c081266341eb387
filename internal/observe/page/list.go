package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

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
	rankReady
)

// row is an instance in a list.
type row struct {
	Object   report.Object `json:"object"`
	Ready    observe.Ready `json:"ready"`
	Tone     diagram.Tone  `json:"tone"`
	Reason   string        `json:"reason,omitempty"`
	Cause    string        `json:"cause,omitempty"`
	Created  *time.Time    `json:"created,omitempty"`
	Deleting *time.Time    `json:"deleting,omitempty"`
	Progress string        `json:"progress,omitempty"`
	Pin      string        `json:"pin,omitempty"`

	key     object.Key
	version string
	rank    int
	text    string // lower case, for the filter
}

// List keeps the rows of the instances of a kind. Only rows of instances that have changed are computed again. The zero value is
// ready to use.
type List struct {
	rows   map[types.UID]*row
	sorted []*row
	counts Counts
}

// Set replaces the instances. They may be shared with caches, and need no specs.
func (l *List) Set(instances []*unstructured.Unstructured, now time.Time) {
	before := l.rows
	l.rows, l.sorted, l.counts = make(map[types.UID]*row, len(instances)), make([]*row, 0, len(instances)), Counts{}
	for _, o := range instances {
		r := before[o.GetUID()]
		if r == nil || r.version != o.GetResourceVersion() {
			r = newRow(o, now)
		}
		l.rows[o.GetUID()] = r
		l.sorted = append(l.sorted, r)
		l.counts.add(r)
	}
	slices.SortFunc(l.sorted, func(a, b *row) int { return cmp.Or(cmp.Compare(a.rank, b.rank), a.key.Compare(b.key)) })
}

// Counts counts the instances.
func (l *List) Counts() Counts { return l.counts }

func (c *Counts) add(r *row) {
	c.Total++
	if r.rank < rankReady {
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

// newRow is the row of an instance, from its own status: its children are not read.
func newRow(o *unstructured.Unstructured, now time.Time) *row {
	n := observe.Build(observe.ClusterState{Root: o}, now)
	out := &row{
		Object: objectOf(n), Ready: n.Ready, Reason: n.Reason, Created: n.Created, Deleting: n.Deleted, Tone: toneOf(n, now),
		key: object.KeyOf(o), version: o.GetResourceVersion(), rank: rankReady,
	}
	if n.Ready != observe.True || n.Deleted != nil {
		out.Cause = observe.Truncate(observe.Explain(n, now).Cause, maxRowCause)
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
	out.text = strings.ToLower(o.GetNamespace() + "/" + o.GetName() + " " + n.Reason + " " + out.Cause)
	return out
}

// maxRowCause bounds the cause in a row, in characters.
const maxRowCause = 240

// Window is a part of a list.
type Window struct {
	// Filter is a text that rows must have: in their names, reasons or causes.
	Filter string `json:"filter"`
	// Unready omits what is ready.
	Unready bool `json:"unready"`
	Offset  int  `json:"offset"`
	Limit   int  `json:"limit"`
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
}

// Document returns the rows of a window, moved to the last rows if there are not as many.
func (l *List) Document(w Window) Document {
	limit := min(max(w.Limit, 1), maxWindow)
	filter := strings.ToLower(strings.TrimSpace(w.Filter[:min(len(w.Filter), maxFilter)]))
	matching := l.sorted
	if filter != "" || w.Unready {
		matching = nil
		for _, r := range l.sorted {
			if strings.Contains(r.text, filter) && (!w.Unready || r.rank < rankReady) {
				matching = append(matching, r)
			}
		}
	}
	offset := min(max(w.Offset, 0), max(len(matching)-1, 0)/limit*limit)
	head := listHead{Counts: l.counts, Matching: len(matching), Offset: offset, Limit: limit}
	var items []Item
	for _, r := range matching[offset:min(offset+limit, len(matching))] {
		items = append(items, Item{r.key.String(), r})
	}
	return Document{Head: head, Items: items}
}
