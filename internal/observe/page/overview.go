package page

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/object/diagram"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// Kind is a kind that a definition serves.
type Kind struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
}

// Counts are instances by what they are; Total are all of them.
type Counts struct {
	Total   int `json:"total"`
	Unready int `json:"unready"`
	// Action counts unready instances that need a user; Deleting counts instances in deletion.
	Action   int `json:"action"`
	Deleting int `json:"deleting"`
}

// DefinitionFacts are a definition with what is known of its instances.
type DefinitionFacts struct {
	Definition *unstructured.Unstructured
	Kinds      []schema.GroupKind
	// Counts are those of the instances of all kinds; nil while they are not known.
	Counts *Counts
}

// overviewHead is the head of the overview.
type overviewHead struct {
	Definitions int      `json:"definitions"`
	Unready     int      `json:"unready"`
	Problems    []string `json:"problems,omitempty"`
	// Omitted counts the definitions that are not shown.
	Omitted int `json:"omitted,omitempty"`
}

// definitionItem is a row of the overview.
type definitionItem struct {
	Object   report.Object `json:"object"`
	Kinds    []Kind        `json:"kinds"`
	Ready    observe.Ready `json:"ready"`
	Tone     diagram.Tone  `json:"tone"`
	Cause    string        `json:"cause,omitempty"`
	Created  *time.Time    `json:"created,omitempty"`
	Revision int64         `json:"revision,omitempty"`
	Rollout  *Rollout      `json:"rollout,omitempty"`
	Counts   *Counts       `json:"counts,omitempty"`
}

// Rollout is the progress of a rollout.
type Rollout struct {
	Revision int64                      `json:"revision"`
	Phase    v1alpha1.RolloutPhase      `json:"phase"`
	Wave     int32                      `json:"wave"`
	Waves    int32                      `json:"waves"`
	Total    int64                      `json:"total"`
	Updated  int64                      `json:"updated"`
	Ready    int64                      `json:"ready"`
	Pinned   int64                      `json:"pinned,omitempty"`
	Message  string                     `json:"message,omitempty"`
	Started  time.Time                  `json:"started"`
	Unready  []v1alpha1.UnreadyInstance `json:"unready,omitempty"`
}

// wave is a wave of a rollout, as the definition has it.
type wave struct {
	Instances string `json:"instances"` // which ones
	State     string `json:"state"`     // done, current or next
}

// wavesOf lists the waves of the definition, as far as the rollout has come.
func wavesOf(definition *unstructured.Unstructured, r *Rollout) []wave {
	raw, _, _ := unstructured.NestedMap(definition.Object, "spec", "rollout")
	var spec v1alpha1.Rollout
	if r == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec) != nil {
		return nil
	}
	var out []wave
	for i, w := range spec.Waves {
		text := "all"
		if w.Percent != nil {
			text = fmt.Sprintf("%d %%", *w.Percent)
		}
		if w.Selector != nil {
			text += " of " + metav1.FormatLabelSelector(w.Selector)
		}
		state := "next"
		switch current := int(r.Wave); {
		case i+1 < current, r.Phase == v1alpha1.RolloutComplete:
			state = "done"
		case i+1 == current:
			state = "current"
		}
		out = append(out, wave{text, state})
	}
	return out
}

// maxDefinitions bounds the definitions that the overview shows.
const maxDefinitions = 1000

// Overview lists definitions, those first that have something unready. Problems say what could not be read.
func Overview(all []DefinitionFacts, problems []string, now time.Time) Document {
	head := overviewHead{Definitions: len(all), Problems: problems}
	items := make([]Item, 0, len(all))
	for _, f := range all {
		item := overviewItem(f, now)
		if item.rank() < rankReady {
			head.Unready++
		}
		items = append(items, Item{object.KeyOf(f.Definition).String(), item})
	}
	slices.SortFunc(items, func(a, b Item) int {
		x, y := a.Value.(definitionItem), b.Value.(definitionItem)
		if d := x.rank() - y.rank(); d != 0 {
			return d
		}
		return x.Object.Key().Compare(y.Object.Key())
	})
	if len(items) > maxDefinitions {
		head.Omitted = len(items) - maxDefinitions
		items = items[:maxDefinitions]
	}
	return Document{Head: head, Items: items}
}

func overviewItem(f DefinitionFacts, now time.Time) definitionItem {
	n := observe.Build(observe.ClusterState{Root: f.Definition}, now)
	out := definitionItem{Object: objectOf(n), Kinds: []Kind{}, Ready: n.Ready, Tone: toneOf(n, now), Created: n.Created, Counts: f.Counts}
	for _, gk := range f.Kinds {
		out.Kinds = append(out.Kinds, Kind{gk.Group, gk.Kind})
	}
	if n.Ready != observe.True || n.Deleted != nil {
		out.Cause = observe.Explain(n, now).Cause
	}
	status := statusOf(f.Definition)
	out.Revision, out.Rollout = status.ServingRevision, rolloutOf(status)
	return out
}

func (d definitionItem) rank() int {
	switch {
	case d.Tone == diagram.Bad:
		return rankAction
	case d.Counts != nil && d.Counts.Action > 0:
		return rankAction
	case d.Tone != diagram.Good && d.Tone != diagram.Neutral, d.Counts != nil && d.Counts.Unready > 0, d.Rollout != nil &&
		d.Rollout.Phase != v1alpha1.RolloutComplete:
		return rankUnready
	}
	return rankReady
}

// statusOf returns the status of a graph definition; it is empty for those of the other dialect.
func statusOf(definition *unstructured.Unstructured) v1alpha1.DefinitionStatus {
	var status v1alpha1.DefinitionStatus
	raw, _, _ := unstructured.NestedMap(definition.Object, "status")
	if definition.GroupVersionKind().Group != v1alpha1.GroupVersion.Group || runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status) != nil {
		return v1alpha1.DefinitionStatus{}
	}
	return status
}

func rolloutOf(status v1alpha1.DefinitionStatus) *Rollout {
	r := status.Rollout
	if r == nil {
		return nil
	}
	return &Rollout{
		Revision: r.Revision, Phase: r.Phase, Wave: r.Wave, Waves: r.Waves, Total: r.Total, Updated: r.Updated, Ready: r.Ready, Pinned: r.Pinned,
		Message: r.Message, Started: r.StartedAt.UTC(), Unready: r.Unready,
	}
}

// definitionHead is the head of the page of a definition.
type definitionHead struct {
	definitionItem
	Gone bool `json:"gone,omitempty"`
	// Latest is the number of the newest revision.
	Latest   int64    `json:"latest,omitempty"`
	Advice   []Advice `json:"advice,omitempty"`
	Commands []Advice `json:"commands,omitempty"`
	Picture  *picture `json:"picture,omitempty"`
	Waves    []wave   `json:"waves,omitempty"`
	// Fields are those of an instance, in the version that is stored; Version names it.
	Fields  []schemaField `json:"fields,omitempty"`
	Version string        `json:"version,omitempty"`
	// RevisionsProblem is why revisions are not shown.
	RevisionsProblem string `json:"revisionsProblem,omitempty"`
}

// revisionItem is a revision of a definition.
type revisionItem struct {
	Number  int64      `json:"number"`
	Name    string     `json:"name"`
	Created *time.Time `json:"created,omitempty"`
	Serving bool       `json:"serving,omitempty"`
	Rolling bool       `json:"rolling,omitempty"`
	Account string     `json:"account,omitempty"`
	// Rollback is the command that returns to it; empty for the revision that is served.
	Rollback string `json:"rollback,omitempty"`
}

// maxRevisions bounds the revisions that are shown: the newest ones.
const maxRevisions = 50

// Definition is the page of one definition, with its revisions as items, the newest first.
func Definition(f DefinitionFacts, revisions []*rev.GraphRevision, problem string, now time.Time) Document {
	if f.Definition == nil {
		return Document{Head: definitionHead{Gone: true}}
	}
	n := observe.Build(observe.ClusterState{Root: f.Definition}, now)
	status := statusOf(f.Definition)
	head := definitionHead{definitionItem: overviewItem(f, now), Latest: status.LastIssuedRevision, Commands: commandsFor(n, true), RevisionsProblem: problem}
	if head.Cause != "" {
		head.Advice = adviceOf(observe.Explain(n, now).Advice)
	}
	if f.Definition.GroupVersionKind().Group == v1alpha1.GroupVersion.Group {
		if compiled := observe.Compile(f.Definition); compiled != nil {
			head.Picture = newPicture(compiled.Diagram())
			head.Version, head.Fields = compiled.Kind.Version, schemaFields(compiled.Spec, compiled.Status)
		}
	} else {
		head.Version, head.Fields = compositeFields(f.Definition)
	}
	head.Waves = wavesOf(f.Definition, head.Rollout)
	return Document{Head: head, Items: revisionItems(f.Definition, status, revisions)}
}

func revisionItems(definition *unstructured.Unstructured, status v1alpha1.DefinitionStatus, all []*rev.GraphRevision) []Item {
	all = slices.Clone(all)
	revision.Sort(all)
	rolling := int64(0)
	if r := status.Rollout; r != nil && r.Phase != v1alpha1.RolloutComplete {
		rolling = r.Revision
	}
	var items []Item
	for _, r := range slices.Backward(all) {
		if len(items) == maxRevisions {
			break
		}
		item := revisionItem{Number: r.Spec.Revision, Name: r.Name, Serving: r.Spec.Revision == status.ServingRevision, Rolling: r.Spec.Revision == rolling,
			Account: r.Spec.Account}
		if at := r.CreationTimestamp; !at.IsZero() {
			created := at.UTC()
			item.Created = &created
		}
		if !item.Serving && !item.Rolling && definition.GetDeletionTimestamp() == nil {
			item.Rollback = rollbackCommand(definition, item.Number)
		}
		items = append(items, Item{r.Name, item})
	}
	return items
}

func rollbackCommand(definition *unstructured.Unstructured, to int64) string {
	text := fmt.Sprintf("espalier rollback %s --to %d", definition.GetName(), to)
	if definition.GetNamespace() != "" {
		text += " --namespace " + definition.GetNamespace()
	}
	return text
}

// knownLines are the lines of a node but for the one that its kind is unknown: definitions are compiled without kinds here.
func knownLines(n diagram.Node) []string {
	return slices.DeleteFunc(slices.Clone(n.Lines), func(line string) bool { return line == graph.KindUnknown })
}

// picture is the graph of a definition: its nodes, and the flows of data between.
type picture struct {
	Width  int      `json:"width"`
	Height int      `json:"height"`
	Nodes  []box    `json:"nodes"`
	Flows  []string `json:"flows"`
}

func newPicture(d diagram.Diagram) *picture {
	if len(d.Nodes) > maxNodes {
		return nil
	}
	for i := range d.Nodes {
		d.Nodes[i].Title = observe.Truncate(d.Nodes[i].Title, maxLabel)
		d.Nodes[i].Lines = knownLines(d.Nodes[i])
		for j, line := range d.Nodes[i].Lines {
			d.Nodes[i].Lines[j] = observe.Truncate(line, maxLabel)
		}
	}
	l := diagram.Place(d)
	out := &picture{Width: l.Width, Height: l.Height, Flows: []string{}}
	for _, n := range l.Nodes {
		out.Nodes = append(out.Nodes, box{ID: n.ID, Title: n.Title, Lines: append([]string{}, n.Lines...), Shape: n.Shape, Tone: n.Tone, X: n.X, Y: n.Y, Width: n.Width, Height: n.Height})
	}
	for _, e := range l.Edges {
		out.Flows = append(out.Flows, e.Path())
	}
	return out
}
