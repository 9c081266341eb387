package page

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
)

// details are those of the chosen node.
type details struct {
	ID         string          `json:"id"`
	Object     *report.Object  `json:"object,omitempty"`
	Instance   bool            `json:"instance,omitempty"`
	Message    string          `json:"message,omitempty"`
	Cause      string          `json:"cause,omitempty"`
	Since      *time.Time      `json:"since,omitempty"`
	Advice     []Advice        `json:"advice,omitempty"`
	Waits      []wait          `json:"waits,omitempty"`
	Blockers   []blocker       `json:"blockers,omitempty"`
	Created    *time.Time      `json:"created,omitempty"`
	Deleted    *time.Time      `json:"deleted,omitempty"`
	Conditions []conditionItem `json:"conditions,omitempty"`
	Writes     []observe.Write `json:"writes,omitempty"`
	Fields     []difference    `json:"fields,omitempty"`
	Lines      []observe.Line  `json:"lines,omitempty"`
	Omitted    int             `json:"omitted,omitempty"` // lines
	Why        *whyField       `json:"why,omitempty"`
	Commands   []Advice        `json:"commands,omitempty"`
}

// conditionItem is a condition of an object.
type conditionItem struct {
	Type    string     `json:"type"`
	Status  string     `json:"status"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

// whyField is where the value of a field comes from, with the command that says it in a terminal: that also runs pipelines.
type whyField struct {
	fieldValue
	Instance    *report.Object `json:"instance,omitempty"`
	Definition  string         `json:"definition,omitempty"`
	Place       string         `json:"place,omitempty"`
	Expressions []string       `json:"expressions,omitempty"`
	Reads       []fieldValue   `json:"reads,omitempty"`
	Command     string         `json:"command"`
}

// fieldValue is a field of an object with its value as text; the text is empty if the object has no such field.
type fieldValue struct {
	Name     string                 `json:"name,omitempty"`
	Object   string                 `json:"object"`
	Field    string                 `json:"field"`
	Text     string                 `json:"text,omitempty"`
	Managers []observe.FieldManager `json:"managers,omitempty"`
}

func fieldValueOf(v observe.FieldValue) fieldValue {
	out := fieldValue{Name: v.Name, Object: v.Object.String(), Field: v.Field.String(), Managers: v.Managers}
	if v.Exists {
		out.Text = v.ValueText(maxValue)
	}
	return out
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

// Bounds of details.
const (
	maxValue = 200  // characters of a value
	maxLines = 1500 // lines of YAML
)

func (b *builder) details(of builtNode, field string) details {
	n := of.node
	out := details{ID: of.item.ID, Instance: n.Instance, Message: n.Message, Created: n.Created, Deleted: n.Deleted, Commands: commandsFor(n, false)}
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
	o := b.objects[n.UID]
	if n.UID == "" || o == nil {
		return out
	}
	all := condition.Read(o)
	for _, c := range all[:min(len(all), maxTexts)] {
		item := conditionItem{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		if c.LastTransitionTime != nil {
			since := c.LastTransitionTime.UTC()
			item.Since = &since
		}
		out.Conditions = append(out.Conditions, item)
	}
	writes := observe.Writes(o)
	out.Writes = writes[:min(len(writes), maxTexts)]
	out.Fields = b.differences(o, of.parent)
	out.Lines, out.Omitted = observe.Lines(o, maxLines)
	if path := object.Path(field); len(path.Segments()) > 0 && observe.HasField(o, path) {
		out.Why = b.why(o, of.parent, path)
	}
	return out
}

// why explains a field by the instance that the object belongs to; one of the status of an instance, by the instance itself.
func (b *builder) why(o, parent *unstructured.Unstructured, field object.Path) *whyField {
	state := b.state
	state.Root = parent
	if _, isInstance := observe.DefinitionOf(o); isInstance && field.Segments()[0] == "status" {
		state.Root = o
	}
	e := observe.ExplainField(o, field, state, b.definitionOf(state.Root))
	out := &whyField{fieldValue: fieldValueOf(e.FieldValue), Instance: e.Instance, Place: e.Place.String(), Command: fieldCommand(o, field.String())}
	out.Definition, _ = definitionName(state.Root)
	for _, x := range e.Expressions {
		out.Expressions = append(out.Expressions, observe.Truncate(x, maxRowCause))
	}
	for _, r := range e.Reads[:min(len(e.Reads), maxTexts)] {
		out.Reads = append(out.Reads, fieldValueOf(r))
	}
	return out
}

// definitionName names the definition of an instance.
func definitionName(instance *unstructured.Unstructured) (string, bool) {
	if instance == nil {
		return "", false
	}
	name, ok := observe.DefinitionOf(instance)
	switch {
	case !ok:
		return "", false
	case name.Namespace != "":
		return v1alpha1.ResourceGroupKind + " " + name.Namespace + "/" + name.Name, ok
	}
	return v1alpha1.ResourceGraphDefinitionKind + " " + name.Name, ok
}

func fieldCommand(o *unstructured.Unstructured, field string) string {
	return "espalier why " + observe.ArgumentsOf(report.ObjectOf(o)) + " " + diag.ShellWord(field)
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
		d.Command = fieldCommand(o, d.Field)
		out = append(out, d)
	}
	return out
}
