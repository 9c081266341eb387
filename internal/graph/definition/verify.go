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

// verifyRevision tells whether a revision's graph compiles, as far as that is known. Of one that has
// said nothing yet it is found out.
func (r *Dialect) verifyRevision(ctx context.Context, v *session, o *unstructured.Unstructured, one *rev.GraphRevision) error {
	said := isVerified(o)
	if said && v.memory.compiled.revisions[one.Spec.Revision] == nil {
		return nil // nobody has looked since the program began: it is as it was
	}
	c := candidate{one.Spec.Revision, r.compilationOf(v, one)}
	if !said {
		if err := r.compileCandidate(ctx, v, c); err != nil {
			r.noteLookupError(v, err)
			return nil
		}
	}
	if c.last.graph == nil && len(c.last.problems) == 0 {
		return nil // it hasn't been compiled
	}
	fields, err := verifiedStatus(o, c.last, r.Now())
	if err != nil || fields == nil {
		return err
	}
	_, err = r.revisions().Write(v.Key, o, func() (*unstructured.Unstructured, error) {
		return r.Cluster.WriteStatus(ctx, o, fields, v1alpha1.StatusManager)
	})
	return err
}

// isVerified says whether a revision tells that its graph compiles, or that it doesn't.
func isVerified(o *unstructured.Unstructured) bool {
	_, said := condition.Read(o).Get(rev.GraphVerified)
	return said
}

// verifiedStatus is the status of a revision by what it compiled to; nil if that is what it tells.
func verifiedStatus(o *unstructured.Unstructured, c compiled, now time.Time) (map[string]any, error) {
	status := rev.GraphRevisionStatus{}
	verified := v1alpha1.Condition{Type: rev.GraphVerified, Status: condition.True, Reason: "Verified", Message: "graph revision compiled and verified", ObservedGeneration: o.GetGeneration()}
	if c.graph != nil {
		status.TopologicalOrder, status.Resources = c.graph.Order(), resourceInformation(c.graph)
	} else {
		verified.Status, verified.Reason, verified.Message = condition.False, "InvalidGraph", messageOf(c.problems.Sorted().Err())
	}
	set := condition.Read(o).Mark(verified, now)
	status.Conditions = set.Mark(set.Summarize(rev.Ready, o.GetGeneration(), rev.GraphVerified), now)
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
