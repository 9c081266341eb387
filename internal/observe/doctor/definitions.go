package doctor

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/observe"
)

// definitions finds definitions and compositions that are not served as they are, and permissions that their instances lack.
func (e *examination) definitions() {
	for _, d := range e.Definitions {
		e.served(d, explainCommand(objectOf(d)))
	}
	for _, r := range NewestRevisions(e.Revisions) {
		remedy := "correct the Composition " + r.GetLabels()[v1.CompositionNameLabel] + ", or serve its functions: kubectl describe compositionrevision " + r.GetName()
		e.served(r, remedy)
	}
	deleted := 0
	for _, d := range e.Definitions {
		if d.GetDeletionTimestamp() != nil {
			deleted++
		}
	}
	rest := ""
	if deleted > 0 {
		rest = ", apart from " + diag.Counted(deleted, "that is being deleted", "that are being deleted")
	}
	e.fine("definitions", "all are accepted and served%s; for an instance: espalier tree KIND/NAME", rest)
}

// served checks the conditions of a definition or revision. That it is being deleted is another check.
func (e *examination) served(d *unstructured.Unstructured, remedy string) {
	if d.GetDeletionTimestamp() != nil {
		return
	}
	one := objectOf(d)
	add := func(c v1alpha1.Condition) {
		e.add(Problem, "definitions", &one, remedy, "%s is False: %s", c.Type, strings.TrimSuffix(c.Reason+": "+firstLine(c.Message), ": "))
	}
	if c, found := observe.ServingProblem(d); found {
		add(c)
	}
	if c, ok := condition.Read(d).Get(v1alpha1.DefinitionPermissionsGranted); ok && c.Status == condition.False {
		add(c)
	}
}

// maxReason limits what a finding quotes of a condition, in bytes.
const maxReason = 300

// firstLine is the first line of a message, and how many others it has.
func firstLine(message string) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(message), "\n")
	first = diag.TruncateMiddle(first, maxReason)
	if rest == "" {
		return first
	}
	return fmt.Sprintf("%s (and %d more)", first, strings.Count(rest, "\n")+1)
}

// NewestRevisions returns the newest revision of each composition, in the order of their list: older ones are not corrected any more.
func NewestRevisions(all []*unstructured.Unstructured) []*unstructured.Unstructured {
	newest := map[string]int64{}
	for _, r := range all {
		name := r.GetLabels()[v1.CompositionNameLabel]
		newest[name] = max(newest[name], revisionNumber(r))
	}
	var out []*unstructured.Unstructured
	for _, r := range all {
		if revisionNumber(r) == newest[r.GetLabels()[v1.CompositionNameLabel]] {
			out = append(out, r)
		}
	}
	return out
}

func revisionNumber(r *unstructured.Unstructured) int64 {
	number, _, _ := unstructured.NestedInt64(r.Object, "spec", "revision")
	return number
}

// shortNames are those of definitions.
var shortNames = map[string]string{v1alpha1.ResourceGraphDefinitionKind: "rgd", "CompositeResourceDefinition": "xrd"}

// explainCommand is the command that explains why a definition is not served.
func explainCommand(o Object) string {
	kind := shortNames[o.Kind]
	if kind == "" {
		kind = kindArgument(o)
	}
	return fmt.Sprintf("espalier why %s/%s", kind, o.Name) + inNamespace(o.Namespace)
}
