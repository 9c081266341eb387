// Package takeover says what would become of the objects of another engine, and what is to
// become of ours when that engine goes on: it compares states of objects, and writes the
// answer for people and for programs.
//
// Pure: it decides from values alone.
package takeover

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// Observed is an object as it is and as it would be.
type Observed struct {
	// Before is nil for an object that would be created, After for one that would be gone.
	Before, After *unstructured.Unstructured
	// Deletion says that its deletion would be asked for, and isn't yet.
	Deletion bool
	// Served says that the controllers look after the object, rather than compose it.
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

// Action is what would become of an object.
type Action string

// Actions.
const (
	Unchanged Action = "Unchanged"
	Changed   Action = "Changed"
	Created   Action = "Created"
	Deleted   Action = "Deleted"
	Recreated Action = "Recreated"
)

// Object is an object with what would become of it.
type Object struct {
	Kind      string `json:"kind"`
	Group     string `json:"group,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Action    Action `json:"action"`
	// Own says that the object is of a kind of Espalier's, or its CustomResourceDefinition:
	// nothing of the former engine's.
	Own         bool         `json:"own,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
}

func (o Object) key() object.Key {
	return object.Key{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// String names the object.
func (o Object) String() string { return o.key().String() }

// Group is an instance with what it is composed of, or what belongs to none.
type Group struct {
	// Instance is empty for objects that belong to no instance.
	Instance string   `json:"instance,omitempty"`
	Objects  []Object `json:"objects"`
}

// Refusal is an object that isn't taken over, or that something is wrong with.
type Refusal struct {
	Object  string `json:"object,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Known says that it isn't the takeover's doing: it was so before.
	Known bool `json:"known,omitempty"`
}

// Plan is what a takeover would do.
type Plan struct {
	// BackTo is the engine that objects are given back to; empty for a takeover.
	BackTo string `json:"backTo,omitempty"`
	// Written says that it was carried out, and Unsettled that the controllers were still at
	// work when the time was up, so that there would be more.
	Written   bool `json:"written"`
	Unsettled bool `json:"unsettled,omitempty"`
	// Refused is why the controllers wouldn't start; empty if they would.
	Refused string `json:"refused,omitempty"`
	// Notes are what else there is to know and to do.
	Notes    []string  `json:"notes,omitempty"`
	Groups   []Group   `json:"groups,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	Summary  Summary   `json:"summary"`
}

// Summary counts objects, of Espalier's own kinds none.
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

// New makes a plan of what was observed, and of the passes that failed.
func New(observed []Observed, failed map[object.Key]string) Plan {
	var p Plan
	ids := map[string]object.Key{}
	for _, o := range observed {
		if id := o.label(v1alpha1.ApplySetIDLabel); id != "" {
			ids[id] = object.KeyOf(o.any())
		}
	}
	groups := map[object.Key][]Object{}
	for _, o := range observed {
		one := describe(o)
		groups[instanceOf(o, ids)] = append(groups[instanceOf(o, ids)], one)
		p.Summary.count(one)
		p.Refusals = append(p.Refusals, refusals(o)...)
	}
	for key, why := range failed {
		p.Refusals = append(p.Refusals, Refusal{
			Object: key.String(), Reason: "ReconcileFailed", Message: why,
			Remedy: "see to the cause, and print the plan again",
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

// instanceOf is the instance that an object belongs to: itself, if it is one.
func instanceOf(o Observed, ids map[string]object.Key) object.Key {
	if key, ok := ids[o.label(v1alpha1.ApplySetIDLabel)]; ok {
		return key
	}
	if isInstance(o) {
		return object.KeyOf(o.any())
	}
	return ids[o.label(v1alpha1.ApplySetPartOfLabel)]
}

// isInstance says whether the object is looked after and is no definition or the like.
func isInstance(o Observed) bool {
	return o.Served && !isDialects(o.any().GroupVersionKind().Group)
}

// isDialects says whether kinds of a group are the dialects' own.
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
	if group, _, _ := unstructured.NestedString(u.Object, "spec", "group"); kind.Kind == "CustomResourceDefinition" && (isOwn(group) || o.Before == nil && isDialects(group)) {
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

// problemOf is what an object says is wrong with it, by the condition that says so; empty for
// nothing.
func problemOf(o *unstructured.Unstructured) (reason, message, by string) {
	all := condition.Read(o)
	for _, kind := range []string{"Established", "Offered", "GraphAccepted", "KindReady", "ControllerReady", "InstanceManaged", "GraphResolved", "Synced", "ValidPipeline", "Healthy"} {
		c, ok := all.Get(kind)
		if ok && c.Status == condition.False && c.Reason != "ReconcilePaused" {
			return c.Reason, c.Message, kind
		}
	}
	return "", "", ""
}

// remedies say what to do about what conditions tell.
var remedies = map[string]string{
	"Established":     "correct the definition; its instances stay as they are until then",
	"Offered":         "correct the definition; its claims stay as they are until then",
	"GraphAccepted":   "correct the definition; its instances stay as they are until then",
	"KindReady":       "see docs/graphs.md; its instances stay as they are until then",
	"InstanceManaged": "grant what the message names, or mend the webhook that refuses",
	"Synced":          "see docs/composition.md; what is composed stays as it is until then",
	"ValidPipeline":   "correct the Composition; composites of this revision stay as they are",
	"Healthy":         "serve the function by --function, see docs/functions.md",
}

// refusals are what isn't taken over of an object, and what is wrong with it.
func refusals(o Observed) []Refusal {
	if !o.Served || o.After == nil {
		return nil
	}
	name := object.KeyOf(o.After).String()
	say := func(reason, message, remedy string, known bool) Refusal {
		return Refusal{Object: name, Reason: reason, Message: diag.Shorten(message, mostMessage), Remedy: remedy, Known: known}
	}
	if o.Before != nil && o.Before.GetDeletionTimestamp() != nil {
		message := "its deletion has begun before, and goes on by the former engine's rules"
		if d := report.ReadDeletion(o.After); d != nil && len(d.Blockers) > 0 {
			message += fmt.Sprintf("; %d of %d objects are gone", d.Removed, d.Total)
		}
		return []Refusal{say("BeingDeleted", message, "none is needed; 'espalier blockers' tells what is in the way", true)}
	}
	var out []Refusal
	for _, p := range report.ReadProblems(o.After) {
		known := o.Before != nil && slices.ContainsFunc(report.ReadProblems(o.Before), func(was report.Problem) bool {
			return was.Node == p.Node && was.Reason == p.Reason
		})
		out = append(out, say(p.Reason, p.Node+": "+p.Message, "see docs/graphs.md, \"What is wrong with an instance\"", known))
	}
	reason, message, by := problemOf(o.After)
	if reason != "" && len(out) == 0 {
		known := false
		if o.Before != nil {
			_, _, before := problemOf(o.Before)
			known = before == by
		}
		out = append(out, say(reason, message, remedies[by], known))
	}
	return out
}

// mostMessage bounds what is told of a message.
const mostMessage = 300
