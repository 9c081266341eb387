package definition

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
)

// verifyRevision records in a revision's status whether its graph compiles, if that is
// known. It compiles a revision without such a status.
func (v *session) verifyRevision(ctx context.Context, o *unstructured.Unstructured, one *rev.GraphRevision) error {
	isRecorded := isVerified(o)
	if isRecorded && v.memory.compiled.revisions[one.Spec.Revision] == nil {
		return nil // not compiled since the program started: the status stays
	}
	c := candidate{one.Spec.Revision, v.compilationOf(one)}
	if !isRecorded {
		if err := v.compileCandidate(ctx, c); err != nil {
			v.recordLookupError(err)
			return nil
		}
	}
	if c.last.graph == nil && len(c.last.problems) == 0 {
		return nil // not compiled
	}
	fields, err := verifiedStatus(o, c.last, v.Now())
	if err != nil || fields == nil {
		return err
	}
	_, err = v.revisions().Write(v.Key, o, func() (*unstructured.Unstructured, error) {
		return v.Cluster.WriteStatus(ctx, o, fields, v1alpha1.StatusManager)
	})
	return err
}

// isVerified reports whether the status of a revision reports whether its graph compiles.
func isVerified(o *unstructured.Unstructured) bool {
	_, isRecorded := condition.Read(o).Get(rev.GraphVerified)
	return isRecorded
}

// verifiedStatus returns nil if the status does not change.
func verifiedStatus(o *unstructured.Unstructured, c compiled, now time.Time) (map[string]any, error) {
	status := rev.GraphRevisionStatus{}
	verified := v1alpha1.Condition{Type: rev.GraphVerified, Status: condition.True, Reason: "Verified", Message: "graph revision compiled and verified",
		ObservedGeneration: o.GetGeneration()}
	if c.graph != nil {
		status.TopologicalOrder, status.Resources = c.graph.TopologicalOrder(), resourceInformation(c.graph)
	} else {
		verified.Status, verified.Reason, verified.Message = condition.False, "InvalidGraph", messageOf(c.problems.Sorted().Err())
	}
	set := condition.Read(o).Mark(verified, now)
	ready := set.Summarize(rev.Ready, o.GetGeneration(), rev.GraphVerified)
	status.Conditions = set.Mark(ready, now).MarkProgress(condition.ProgressOf(ready, true), o.GetGeneration(), now)
	status.ObservedGeneration = o.GetGeneration()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("encode the status of GraphRevision %s: %w", o.GetName(), err)
	}
	fields["conditions"] = condition.Set(status.Conditions).Unstructured()
	if object.Digest(o.Object["status"]) == object.Digest(fields) {
		return nil, nil
	}
	return fields, nil
}
