package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// Refusals are, by the UID of a child, the conflicts that the server last answered with when a
// node with RefuseConflicts was applied.
type Refusals map[types.UID]RefusedApply

// RefusedApply is an apply that failed because another manager has set fields to other values.
type RefusedApply struct {
	// DesiredDigest is the digest of the applied configuration, and LiveDigest the ContentDigest
	// of the live object. While both are the same, so is the answer.
	DesiredDigest, LiveDigest string
	Problem                   Problem
}

// FieldConflictProblem is the problem of a node with RefuseConflicts, given the fields in conflict
// and their managers.
func FieldConflictProblem(o *unstructured.Unstructured, fields []string, by string) Problem {
	text := "fields"
	if len(fields) > 0 {
		text = listPaths(fields)
	}
	return Problem{
		Reason: FieldConflict,
		Message: fmt.Sprintf("%s of %s is set by %s to another value, and conflicts: Refuse keeps it. The object is applied once the field is released or changed; conflicts: Force takes it over",
			text, object.KeyOf(o), by),
	}
}

// ContentDigest is the digest of an object without its status and without metadata that changes
// with every write: while it is the same, a refused write would be refused again.
func ContentDigest(o *unstructured.Unstructured) string {
	seen := make(map[string]any, len(o.Object))
	for key, value := range o.Object {
		if key != "status" && key != "metadata" {
			seen[key] = value
		}
	}
	annotations := map[string]string{}
	for key, value := range o.GetAnnotations() {
		if key != lastApplied {
			annotations[key] = value
		}
	}
	seen["metadata"] = []any{o.GetUID(), o.GetLabels(), annotations, o.GetFinalizers(), o.GetOwnerReferences()}
	return object.Digest(seen)
}

// lastApplied is kubectl's copy of an object, which caches drop.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// deferRefused turns a write that would be refused again into a wait.
func deferRefused(step *Step, refusals Refusals) {
	if !step.RefuseConflicts || step.Current == nil || !step.Action.Applies() {
		return
	}
	refusal, ok := refusals[step.Current.GetUID()]
	if ok && refusal.DesiredDigest == inventory.AppliedDigest(step.Object) && refusal.LiveDigest == ContentDigest(step.Current) {
		step.Action, step.Problem = Defer, refusal.Problem
	}
}
