package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// Contested is a field of an object that another manager writes again and again, while the controllers correct it.
type Contested struct {
	// Field is empty if its name may come from a Secret.
	Field object.Path `json:"field,omitempty"`
	// Managers are the other managers that own the field now. Without any, LastManager is the one that the last event about a correction
	// names: a moment after each correction the field is the controllers' own.
	Managers    []FieldManager `json:"managers,omitempty"`
	LastManager string         `json:"lastManager,omitempty"`
	// Corrections counts the corrections before the field was contested, by the events that still exist.
	Corrections int64 `json:"corrections,omitempty"`

	// definition is the graph definition of the instance; empty in the other dialect.
	definition report.Object
}

// addContest adds to the problem of a child of an instance what its managed fields and events about the instance say of it.
func (w ClusterState) addContest(n *Node, instance, child *unstructured.Unstructured) {
	if n.Problem == nil || n.Problem.Reason != string(plan.DriftContested) {
		return
	}
	c := &Contested{Field: plan.ContestedField(n.Problem.Message, child)}
	if c.Field != "" {
		for _, m := range managersAt(child, c.Field.Segments()) {
			if m.Name != v1alpha1.ChildManager {
				c.Managers = append(c.Managers, m)
			}
		}
	}
	c.addEvents(w.Events, instance, child)
	if name, ok := DefinitionOf(instance); ok {
		c.definition = report.Object{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ResourceGraphDefinitionKind, Name: name.Name}
		if name.Namespace != "" {
			c.definition.Kind, c.definition.Namespace = v1alpha1.ResourceGroupKind, name.Namespace
		}
	}
	contested := *n.Problem // the report is shared by the items of a collection
	contested.Contested = c
	n.Problem = &contested
}

// addEvents counts the corrections of the field, and finds the manager that the last one names.
func (c *Contested) addEvents(events []*unstructured.Unstructured, instance, child *unstructured.Unstructured) {
	var last time.Time
	for _, e := range events {
		of, _, _ := unstructured.NestedString(e.Object, "regarding", "uid")
		reason, _, _ := unstructured.NestedString(e.Object, "reason")
		note, _, _ := unstructured.NestedString(e.Object, "note")
		fields, managers, ok := plan.ReadCorrection(note, child)
		if !ok || reason != plan.DriftCorrected || of != string(instance.GetUID()) || c.Field != "" && !slices.Contains(fields, string(c.Field)) {
			continue
		}
		count, at := occurrences(e)
		if c.Corrections += count; !at.Before(last) {
			last, c.LastManager = at, managers
		}
	}
}

// occurrences returns how often what an event is about has happened, and when it happened last.
func occurrences(event *unstructured.Unstructured) (count int64, last time.Time) {
	count = 1
	for _, fields := range [][2][]string{
		{{"series", "count"}, {"series", "lastObservedTime"}},
		{{"deprecatedCount"}, {"deprecatedLastTimestamp"}},
		{nil, {"eventTime"}},
	} {
		if n, found, _ := unstructured.NestedInt64(event.Object, fields[0]...); found && n > 0 {
			count = n
		}
		text, _, _ := unstructured.NestedString(event.Object, fields[1]...)
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return count, at
		}
	}
	return count, last
}

// sentence says which field of an object is written again and again, by which manager, and since when.
func (c Contested) sentence(name string, since, now time.Time) string {
	text := string(c.Field) + " of " + name
	if c.Field == "" {
		text = name + ", in a field whose name may come from a Secret,"
	}
	text += fmt.Sprintf(" is written again and again, for %s: ", Age(now.Sub(since)))
	switch {
	case len(c.Managers) > 0:
		var names []string
		for _, m := range c.Managers {
			writes := m.Name + " (" + m.Operation
			if m.Subresource != "" {
				writes += " of " + m.Subresource
			}
			if m.Time != nil {
				writes += ", last " + Age(now.Sub(*m.Time)) + " ago"
			}
			names = append(names, writes+")")
		}
		text += strings.Join(names, " and ") + " overwrites what the definition sets"
	case c.LastManager != "":
		text += c.LastManager + " overwrites what the definition sets"
	default:
		text += "another manager overwrites what the definition sets"
	}
	switch {
	case c.Corrections > 1:
		text += fmt.Sprintf("; it was corrected at least %d times", c.Corrections)
	case c.Corrections == 1:
		text += "; it was corrected at least once"
	}
	return text
}

// advice says how the contest ends.
func (c Contested) advice(o report.Object, node string) []string {
	other, field := "the other manager", string(c.Field)
	switch {
	case len(c.Managers) > 0:
		other = c.Managers[0].Name
	case c.LastManager != "":
		other = c.LastManager
	}
	if field == "" {
		field = "the field"
	}
	other, node = inert(other), inert(node)
	out := []string{fmt.Sprintf("have %s stop writing %s of %s", other, inert(field), inert(o.String()))}
	switch {
	case c.definition.Name != "" && c.Field != "":
		out = append(out, fmt.Sprintf("or leave it to %s, with driftPolicy: Ignore and driftPaths: [%s] for resource %s: kubectl edit %s", other,
			inert(diag.ShellWord(field)), node, arguments(c.definition)))
	case c.definition.Name != "":
		out = append(out, fmt.Sprintf("or leave it to %s, with driftPolicy: Ignore for resource %s: kubectl edit %s", other, node, arguments(c.definition)))
	default:
		out = append(out, "or remove the field from the composition, which leaves it to "+other)
	}
	if c.Field == "" {
		return out
	}
	return append(out, "see what sets it: espalier why "+arguments(report.Object{APIVersion: o.APIVersion, Kind: o.Kind,
		Name: o.Name})+" "+diag.ShellWord(field)+inNamespace(o.Namespace))
}

// contestedBelow returns the contests about external resources of a node and of those below it.
func contestedBelow(n Node, now time.Time) (out []OtherCause) {
	if c := n.externalContest; c != nil {
		text := n.object().String()
		if c.LastTransitionTime != nil {
			text += ", for " + Age(now.Sub(c.LastTransitionTime.Time))
		}
		out = append(out, OtherCause{text + ": " + c.Message, []string{
			"stop the other client of the external API, or move the field to initProvider: kubectl edit " + arguments(n.object()),
		}})
	}
	for _, child := range n.Children {
		out = append(out, contestedBelow(child, now)...)
	}
	return out
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " -n " + namespace
}
