// Package takeover computes what a takeover from another engine would change, and how objects are given back to that engine.
// Package preview compares their states.
// See docs/design/0016-the-controllers-without-effect.md and 0020-beside-other-engines.md.
//
// Pure: it decides from values alone.
package takeover

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// Plan is what a takeover would do, or a release.
type Plan struct {
	preview.Plan
	// BackTo is the engine that objects are given back to; empty for a takeover.
	BackTo string `json:"backTo,omitempty"`
	// Written reports whether the plan was carried out.
	Written bool `json:"written"`
	// Refused is why the controllers would not start; empty if they would.
	Refused string `json:"refused,omitempty"`
}

// New returns the plan for objects, and for the errors of failed reconciles.
func New(objects []preview.Object, failed map[object.Key]string) Plan {
	in := preview.Input{Records: true, Decisions: map[object.Key]plan.Plan{}}
	keyOf := func(o preview.Object) object.Key { return object.KeyOf(o.Latest()) }
	explained := map[object.Key]bool{} // by the status
	for _, o := range slices.SortedFunc(slices.Values(objects), func(a, b preview.Object) int { return keyOf(a).Compare(keyOf(b)) }) {
		key := keyOf(o)
		if o.Reconciled && (!slices.Contains(dialectGroups, key.Group) || inventory.IsGraph(o.Latest())) {
			in.Decisions[key] = plan.Plan{} // it is an instance, even if it has no inventory yet
		}
		deletion, isDeleted := beingDeleted(o)
		if isDeleted {
			in.Problems = append(in.Problems, deletion)
			o.Reconciled = false
		}
		if isDeleted || len(preview.ProblemsOf(o.Before, o.After)) > 0 {
			explained[key] = o.Before == nil || !equal(o.Before.Object["status"], o.After.Object["status"])
		}
		o.Own = isOwn(o)
		in.Objects = append(in.Objects, o)
	}
	for key, why := range failed {
		if !explained[key] {
			in.Problems = append(in.Problems, preview.Problem{Object: key.String(), Reason: "ReconcileFailed", Message: why,
				Remedy: "fix the cause, and print the plan again"})
		}
	}
	return Plan{Plan: preview.New(in)}
}

// beingDeleted returns the problem of an instance that the former engine has begun to delete.
func beingDeleted(o preview.Object) (p preview.Problem, isDeleted bool) {
	if !o.Reconciled || o.Before == nil || o.After == nil || o.Before.GetDeletionTimestamp() == nil {
		return p, false
	}
	message := "its deletion started before the takeover, and follows the former engine's rules"
	if d := report.ReadDeletion(o.After); d != nil && len(d.Blockers) > 0 {
		message += fmt.Sprintf("; %d of %s gone", d.Removed, diag.Counted(int(d.Total), "object is", "objects are"))
	}
	return preview.Problem{Object: object.KeyOf(o.After).String(), Reason: "BeingDeleted", Message: message,
		Remedy: "none is needed; 'espalier blockers' shows what blocks it", Known: true}, true
}

const ownGroup = "espalier.dev"

// dialectGroups are the API groups of the dialects.
var dialectGroups = []string{"apiextensions.crossplane.io", "pkg.crossplane.io", "protection.crossplane.io", "kro.run",
	"internal.kro.run", "apiextensions.k8s.io", ownGroup}

// isOwn reports whether the object's kind, or the kind that it defines, is Espalier's own rather than the former engine's.
func isOwn(o preview.Object) bool {
	u := o.Latest()
	defined, _, _ := unstructured.NestedString(u.Object, "spec", "group")
	return u.GroupVersionKind().Group == ownGroup ||
		u.GetKind() == "CustomResourceDefinition" && (defined == ownGroup || o.Before == nil && slices.Contains(dialectGroups, defined))
}

// Text returns the plan as text, in lines of at most width characters unless a word is longer. That of a release lists only
// what changes.
func (p Plan) Text(width int) string {
	shown := p.Plan
	if p.BackTo != "" {
		shown.Objects = slices.DeleteFunc(slices.Clone(p.Objects), func(o preview.ObjectChange) bool { return o.Action == preview.Keep })
		shown.Instances = slices.DeleteFunc(slices.Clone(p.Instances), preview.Instance.IsUnchanged)
	}
	return shown.TextWith(p.sentences(), width)
}

// sentences summarize the plan.
func (p Plan) sentences() (out []string) {
	s, written := p.Summary, "Nothing was written."
	if p.Written {
		written = "The changes were written."
	}
	switch {
	case p.Refused != "":
		return []string{"The controllers would not start: " + p.Refused, written}
	case p.BackTo != "":
		return []string{fmt.Sprintf("Back to %s: %s.", p.BackTo, s), written}
	case p.Incomplete:
		out = append(out, preview.IncompleteText)
	}
	out = append(out, fmt.Sprintf("Takeover: %s.", s))
	installed := len(slices.DeleteFunc(slices.Clone(p.Objects), func(o preview.ObjectChange) bool {
		return !o.Own || o.Action != preview.Create || o.Kind != "CustomResourceDefinition"
	}))
	if s.Unchanged > 0 && p.IsEmpty() && installed == 0 && !p.Incomplete {
		return append(out, "All of them are Espalier's already: nothing needs a takeover.", written)
	}
	made := "Nothing would be created, deleted or recreated."
	if n := s.Created + s.Deleted + s.Replaced; n > 0 {
		made = fmt.Sprintf("Objects would be created, deleted or recreated: %d, see above.", n)
	}
	if installed > 0 {
		made += fmt.Sprintf(" Espalier's own CustomResourceDefinitions would be installed: %d.", installed)
	}
	return append(out, made, written)
}
