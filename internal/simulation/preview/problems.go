package preview

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// Problem is what somebody has to act on.
type Problem struct {
	// Object names the object, or the file; empty for the cluster.
	Object  string `json:"object,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Known says that the problem existed before.
	Known bool `json:"known,omitempty"`
	// Invalid says that the object is a definition with errors, each of which is a line of the message. It would not be served.
	Invalid bool `json:"invalid,omitempty"`

	node string
}

// ProblemsOf are the problems that the status of an object would show. Before is nil for an object
// that would be created.
func ProblemsOf(before, after *unstructured.Unstructured) []Problem {
	if after == nil {
		return nil
	}
	name := object.KeyOf(after).String()
	one := func(reason, message, remedy string, known bool) Problem {
		return Problem{Object: name, Reason: reason, Message: diag.TruncateMiddle(message, maxMessage), Remedy: remedy, Known: known}
	}
	var out []Problem
	for _, p := range report.ReadProblems(after) {
		known := before != nil && slices.ContainsFunc(report.ReadProblems(before), func(before report.Problem) bool {
			return before.Node == p.Node && before.Reason == p.Reason
		})
		found := one(p.Reason, p.Node+": "+p.Message, "see docs/graphs.md, \"What is wrong with an instance\"", known)
		found.node = p.Node
		out = append(out, found)
	}
	for _, b := range protectedItems(after) {
		known := before != nil && slices.ContainsFunc(protectedItems(before), func(before report.Blocker) bool { return before.Object == b.Object })
		found := one(string(b.Reason), b.Object.String()+" is no longer desired, and stays: "+b.Message, "see docs/deletion.md", known)
		found.node = b.Node
		out = append(out, found)
	}
	if reason, message, by := problemOf(after); reason != "" && len(out) == 0 {
		known := false
		if before != nil {
			_, _, same := problemOf(before)
			known = same == by
		}
		found := one(reason, message, remedies[by], known)
		if invalidReasons[by] == reason {
			found.Message, found.Invalid = definitionErrors(message), by != v1.TypeValidPipeline
		}
		out = append(out, found)
	}
	return out
}

// protectedItems are the objects that an instance no longer desires and does not delete: a plan has no other change of them.
// What else blocks their deletion is known only once it is requested.
func protectedItems(instance *unstructured.Unstructured) []report.Blocker {
	return slices.DeleteFunc(report.ReadPruning(instance), func(b report.Blocker) bool { return b.Reason != report.Protected })
}

// problemOf is the first problem that an object's conditions show, with the condition's type;
// empty if there is none.
func problemOf(o *unstructured.Unstructured) (reason, message, by string) {
	all := condition.Read(o)
	for _, kind := range []string{"Established", "Offered", "GraphAccepted", "KindReady", "ControllerReady", "InstanceManaged", "GraphResolved",
		"Synced", "ValidPipeline", "Healthy"} {
		c, ok := all.Get(kind)
		if ok && c.Status == condition.False && c.Reason != "ReconcilePaused" {
			return c.Reason, c.Message, kind
		}
	}
	return "", "", ""
}

// invalidReasons are the reasons of False conditions that list the errors of a definition or composition, by condition type.
var invalidReasons = map[string]string{
	v1.TypeEstablished: "InvalidDefinition", v1.TypeOffered: "InvalidDefinition", v1alpha1.DefinitionGraphAccepted: "InvalidResourceGraph",
	v1.TypeValidPipeline: "InvalidPipeline",
}

// definitionErrors are the errors that a condition lists, one a line, all of them: whoever reviews a definition needs each. The message of
// a condition is bounded.
func definitionErrors(message string) string {
	lines := strings.Split(strings.TrimPrefix(message, "failed to build resourcegraphdefinition: "), "\n")
	for i := range lines {
		lines[i] = diag.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// remedies are by condition type.
var remedies = map[string]string{
	"Established":     "correct the definition; its instances stay as they are until then",
	"Offered":         "correct the definition; its claims stay as they are until then",
	"GraphAccepted":   "correct the definition; its instances stay as they are until then",
	"KindReady":       "see docs/graphs.md; its instances stay as they are until then",
	"InstanceManaged": "grant the permissions that the message names, or fix the webhook that rejects the request",
	"Synced":          "see docs/composition.md; composed resources stay as they are until then",
	"ValidPipeline":   "correct the Composition; composites of this revision stay as they are",
	"Healthy":         "serve the function with --function, see docs/functions.md",
}

// maxMessage limits a message in a plan, in bytes.
const maxMessage = 300

// problems are those of the simulation and of the objects in the plan. That an object is not ready is
// none if it would be written: the simulation does not wait for that.
func (b *builder) problems() []Problem {
	out := slices.Clone(b.in.Problems)
	for _, o := range b.in.Objects {
		if !o.Reconciled {
			continue
		}
		for _, p := range ProblemsOf(o.Before, o.After) {
			p.Known = p.Known && !hasOtherErrors(o.Before, p)
			isWritten := p.Reason == string(plan.NotReady) && b.writes(object.KeyOf(o.After), p.node)
			if b.in.Records || !p.Known && !isWritten {
				out = append(out, p)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(out)
}

// hasOtherErrors says whether the errors of an invalid definition differ from those that it has already.
func hasOtherErrors(before *unstructured.Unstructured, now Problem) bool {
	_, message, _ := problemOf(before)
	return now.Invalid && definitionErrors(message) != now.Message
}

// writes says whether an object of a node of an instance is in the plan.
func (b *builder) writes(instance object.Key, node string) bool {
	i := b.instances[instance]
	return i != nil && slices.ContainsFunc(i.Objects, func(o ObjectChange) bool { return o.Node == node })
}
