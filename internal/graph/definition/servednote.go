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

// readServedNote decodes the annotation that records how revisions were used. It restores only these fields of the
// status: users who may write annotations might not be allowed to write status.
func readServedNote(annotations map[string]string) (out v1alpha1.DefinitionStatus) {
	var recorded v1alpha1.DefinitionStatus
	if json.Unmarshal([]byte(annotations[v1alpha1.ServedAnnotation]), &recorded) != nil {
		return out
	}
	out.LastIssuedRevision, out.ServingRevision, out.Rollout = recorded.LastIssuedRevision, recorded.ServingRevision, recorded.Rollout
	return out
}

// servedNote records how revisions were used when a definition leaves instances behind, for
// the next definition of the name: without it that would apply the newest revision to all
// instances at once, even in the middle of a rollout.
func (v *session) servedNote() string {
	text, err := json.Marshal(v1alpha1.DefinitionStatus{
		LastIssuedRevision: v.status.LastIssuedRevision, ServingRevision: v.status.ServingRevision, Rollout: v.status.Rollout,
	})
	if err != nil || v.status.ServingRevision == 0 {
		return ""
	}
	return string(text)
}

// resume restores the state of a former definition of the name, before the definition has a
// status of its own.
func (v *session) resume() {
	newest := revision.Newest(v.history.revisions)
	if newest == nil || v.status.ServingRevision != 0 || v.status.LastIssuedRevision != 0 {
		return
	}
	if was := readServedNote(newest.Annotations); was.LastIssuedRevision == newest.Spec.Revision {
		v.status.LastIssuedRevision, v.status.ServingRevision, v.status.Rollout = was.LastIssuedRevision, was.ServingRevision, was.Rollout
	}
}

// orphanRevision removes the owner reference of a revision, so the garbage collector keeps it, and adds a note for
// the next definition.
func (v *session) orphanRevision(ctx context.Context, o *unstructured.Unstructured, note string) error {
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
	_, err := v.revisions().Write(v.Key, o, func() (*unstructured.Unstructured, error) {
		return v.Cluster.Patch(ctx, o, map[string]any{"metadata": change}, v1alpha1.InstanceManager)
	})
	return err
}
