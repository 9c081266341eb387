package definition

import (
	"context"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// readServedNote is what an annotation tells of how revisions were used. Whoever may write one has no
// say over the rest of a status.
func readServedNote(annotations map[string]string) (out v1alpha1.DefinitionStatus) {
	var told v1alpha1.DefinitionStatus
	if json.Unmarshal([]byte(annotations[v1alpha1.ServedAnnotation]), &told) != nil {
		return out
	}
	out.LastIssuedRevision, out.ServingRevision, out.Rollout = told.LastIssuedRevision, told.ServingRevision, told.Rollout
	return out
}

// servedNote is what a definition that leaves instances behind notes of how revisions were used, for
// the next of its name: by them alone that one would have the newest reach all at once, which
// may have been in the middle of a rollout.
func (v *session) servedNote() string {
	text, err := json.Marshal(v1alpha1.DefinitionStatus{
		LastIssuedRevision: v.status.LastIssuedRevision, ServingRevision: v.status.ServingRevision, Rollout: v.status.Rollout,
	})
	if err != nil || v.status.ServingRevision == 0 {
		return ""
	}
	return string(text)
}

// resume goes on where a former definition of the name has left off, before anything else is
// known of this one.
func (v *session) resume() {
	newest := revision.Newest(v.history.revisions)
	if newest == nil || v.status.ServingRevision != 0 || v.status.LastIssuedRevision != 0 {
		return
	}
	if was := readServedNote(newest.Annotations); was.LastIssuedRevision == newest.Spec.Revision {
		v.status.LastIssuedRevision, v.status.ServingRevision, v.status.Rollout = was.LastIssuedRevision, was.ServingRevision, was.Rollout
	}
}

// orphanRevision leaves a revision behind that no definition controls, so that the garbage collector
// leaves it in place, with a note for the next definition.
func (r *Dialect) orphanRevision(ctx context.Context, v *session, o *unstructured.Unstructured, note string) error {
	change := map[string]any{}
	owners := slices.DeleteFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == v.owner.UID })
	if len(owners) != len(o.GetOwnerReferences()) {
		change["ownerReferences"] = owners
	}
	if note != "" && note != o.GetAnnotations()[v1alpha1.ServedAnnotation] {
		change["annotations"] = map[string]any{v1alpha1.ServedAnnotation: note}
	}
	if len(change) == 0 {
		return nil
	}
	_, err := r.revisions().Write(v.Key, o, func() (*unstructured.Unstructured, error) {
		return r.Cluster.Patch(ctx, o, map[string]any{"metadata": change}, v1alpha1.InstanceManager)
	})
	return err
}
