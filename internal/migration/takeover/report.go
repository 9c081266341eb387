// Package takeover computes the plan of a takeover: how the objects of another engine would
// change. It also computes how objects change when they are given back to that engine. It
// compares states of objects, and prints the plan as text or JSON.
// See docs/design/0016-the-controllers-without-effect.md and 0020-beside-other-engines.md.
//
// Pure: it decides from values alone.
package takeover

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// Observed is an object as it is and as it would be.
type Observed struct {
	// Before is nil for an object that would be created, After for one that would be deleted.
	Before, After *unstructured.Unstructured
	// Deletion reports whether a deletion of the object would be requested.
	Deletion bool
	// Served reports whether the controllers reconcile the object, rather than only compose it.
	Served bool
}

func (o Observed) any() *unstructured.Unstructured {
	if o.After != nil {
		return o.After
	}
	return o.Before
}

// label is a label that the object has or had.
func (o Observed) label(name string) string {
	if value := o.any().GetLabels()[name]; value != "" || o.Before == nil {
		return value
	}
	return o.Before.GetLabels()[name]
}

// applySet is the id of the ApplySet that the object has or had; empty if it is no instance.
func (o Observed) applySet() string {
	if id := inventory.SetOf(o.any()); id != "" || o.Before == nil {
		return id
	}
	return inventory.SetOf(o.Before)
}

// Action is what would happen to an object.
type Action string

// Actions.
const (
	Unchanged Action = "Unchanged"
	Changed   Action = "Changed"
	Created   Action = "Created"
	Deleted   Action = "Deleted"
	Recreated Action = "Recreated"
)

// Object is an object in a plan.
type Object struct {
	Kind      string `json:"kind"`
	Group     string `json:"group,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Action    Action `json:"action"`
	// Own reports whether the object's kind, or the kind that the CustomResourceDefinition
	// defines, is Espalier's own rather than the former engine's.
	Own         bool         `json:"own,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
}

func (o Object) key() object.Key {
	return object.Key{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// String names the object.
func (o Object) String() string { return o.key().String() }

// Group is an instance with its children, or all objects that belong to no instance.
type Group struct {
	// Instance is empty for objects that belong to no instance.
	Instance string   `json:"instance,omitempty"`
	Objects  []Object `json:"objects"`
}

// Refusal is an object that is not taken over, or that has a problem.
type Refusal = preview.Problem

// Plan is what a takeover would do.
type Plan struct {
	// BackTo is the engine that objects are given back to; empty for a takeover.
	BackTo string `json:"backTo,omitempty"`
	// Written reports whether the plan was carried out. Unsettled reports whether the
	// controllers were still busy at the timeout, so that the plan is incomplete.
	Written   bool `json:"written"`
	Unsettled bool `json:"unsettled,omitempty"`
	// Refused is why the controllers would not start; empty if they would.
	Refused string `json:"refused,omitempty"`
	// Notes are further remarks, each a sentence without its period.
	Notes    []string  `json:"notes,omitempty"`
	Groups   []Group   `json:"groups,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	Summary  Summary   `json:"summary"`
}

// Summary counts the objects of a plan, without those of Espalier's own kinds.
type Summary struct {
	Objects   int `json:"objects"`
	Instances int `json:"instances"`
	Unchanged int `json:"unchanged"`
	Changed   int `json:"changed"`
	Created   int `json:"created"`
	Deleted   int `json:"deleted"`
	Recreated int `json:"recreated"`
	Refused   int `json:"refused"`
	// Installed counts the CustomResourceDefinitions of Espalier's own that would be created.
	Installed int `json:"installed"`
}

// New returns the plan for the observed objects, and for the errors of failed reconciles.
func New(observed []Observed, failed map[object.Key]string) Plan {
	var p Plan
	ids := map[string]object.Key{}
	for _, o := range observed {
		if id := o.applySet(); id != "" {
			ids[id] = object.KeyOf(o.any())
		}
	}
	groups, told := map[object.Key][]Object{}, map[object.Key]bool{}
	for _, o := range observed {
		one := describe(o)
		groups[instanceOf(o, ids)] = append(groups[instanceOf(o, ids)], one)
		p.Summary.count(one)
		found := refusals(o)
		told[one.key()] = slices.ContainsFunc(found, func(r Refusal) bool { return !r.Known || !equal(o.Before.Object["status"], o.After.Object["status"]) })
		p.Refusals = append(p.Refusals, found...)
	}
	for key, why := range failed {
		if told[key] {
			continue // its status says why
		}
		p.Refusals = append(p.Refusals, Refusal{
			Object: key.String(), Reason: "ReconcileFailed", Message: why,
			Remedy: "fix the cause, and print the plan again",
		})
	}
	for key, objects := range groups {
		slices.SortFunc(objects, func(a, b Object) int {
			first := func(o Object) int {
				if o.key() == key {
					return 0
				}
				return 1
			}
			return cmp.Or(cmp.Compare(first(a), first(b)), a.key().Compare(b.key()))
		})
		name := ""
		if key != (object.Key{}) {
			name = key.String()
			p.Summary.Instances++
		}
		p.Groups = append(p.Groups, Group{name, objects})
	}
	slices.SortFunc(p.Groups, func(a, b Group) int { return cmp.Compare(a.Instance, b.Instance) })
	slices.SortFunc(p.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	p.Refusals = slices.Compact(p.Refusals)
	refused := map[string]bool{}
	for _, r := range p.Refusals {
		if !r.Known && !refused[r.Object] {
			refused[r.Object] = true
			p.Summary.Refused++
		}
	}
	return p
}

// instanceOf is the instance that an object belongs to; the object itself if it is one.
func instanceOf(o Observed, ids map[string]object.Key) object.Key {
	if key, ok := ids[o.applySet()]; ok {
		return key
	}
	if isInstance(o) {
		return object.KeyOf(o.any())
	}
	return ids[o.label(v1alpha1.ApplySetPartOfLabel)]
}

// isInstance reports whether the object is reconciled and is of no kind of the dialects' API.
func isInstance(o Observed) bool {
	return o.Served && !isDialects(o.any().GroupVersionKind().Group)
}

// isDialects reports whether a group belongs to the dialects' API.
func isDialects(group string) bool {
	switch group {
	case "apiextensions.crossplane.io", "pkg.crossplane.io", "protection.crossplane.io", "kro.run", "internal.kro.run", "apiextensions.k8s.io":
		return true
	}
	return isOwn(group)
}

func isOwn(group string) bool { return group == "espalier.dev" }

func describe(o Observed) Object {
	u := o.any()
	kind := u.GroupVersionKind()
	out := Object{Kind: kind.Kind, Group: kind.Group, Namespace: u.GetNamespace(), Name: u.GetName(), Own: isOwn(kind.Group)}
	if group, _, _ := unstructured.NestedString(u.Object, "spec", "group"); kind.Kind == "CustomResourceDefinition" &&
		(isOwn(group) || o.Before == nil && isDialects(group)) {
		out.Own = true
	}
	switch {
	case o.Before == nil:
		out.Action = Created
	case o.After == nil, o.Deletion:
		out.Action = Deleted
	case o.Before.GetUID() != o.After.GetUID():
		out.Action = Recreated
	default:
		out.Differences = Diff(o.Before, o.After)
		if out.Action = Changed; len(out.Differences) == 0 {
			out.Action = Unchanged
		}
	}
	return out
}

func (s *Summary) count(o Object) {
	if o.Own {
		if o.Action == Created && o.Kind == "CustomResourceDefinition" {
			s.Installed++
		}
		return
	}
	s.Objects++
	switch o.Action {
	case Unchanged:
		s.Unchanged++
	case Changed:
		s.Changed++
	case Created:
		s.Created++
	case Deleted:
		s.Deleted++
	case Recreated:
		s.Recreated++
	}
}

// refusals are the problems of an object.
func refusals(o Observed) []Refusal {
	if !o.Served || o.After == nil {
		return nil
	}
	name := object.KeyOf(o.After).String()
	if o.Before != nil && o.Before.GetDeletionTimestamp() != nil {
		message := "its deletion started before the takeover, and follows the former engine's rules"
		if d := report.ReadDeletion(o.After); d != nil && len(d.Blockers) > 0 {
			message += fmt.Sprintf("; %d of %s gone", d.Removed, diag.Counted(int(d.Total), "object is", "objects are"))
		}
		return []Refusal{{Object: name, Reason: "BeingDeleted", Message: message, Remedy: "none is needed; 'espalier blockers' shows what blocks it", Known: true}}
	}
	return preview.ProblemsOf(o.Before, o.After)
}
