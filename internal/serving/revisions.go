package serving

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// RevisionStore keeps the revisions of objects: of definitions of graphs, and of compositions. A reconcile of such an
// object reads all of its revisions before it creates one, and creates one at most: no two get the same number, and a
// crash leaves nothing half done.
type RevisionStore struct {
	// Kind is the kind of the revisions, and Label the label that names the object that they are of.
	Kind  schema.GroupVersionKind
	Label string
	// Manager is the field manager of what is written.
	Manager string
	Cluster *kube.Client
	Hub     *watch.Hub
}

// List reads the revisions of an object. Unless the state is Synced, nothing follows from what is not among them; its
// change enqueues the object.
func (s RevisionStore) List(lease *watch.Lease, of object.Key) ([]*unstructured.Unstructured, watch.State) {
	return lease.Matching(s.Kind, "", labels.SelectorFromSet(labels.Set{s.Label: object.LabelValue(of.Name)}))
}

// Adopt makes an object the controller of one of its revisions that has none, or a former incarnation of the object, and
// adds finalizers: the revision was restored from a backup, say. A nil owner controls nothing.
func (s RevisionStore) Adopt(ctx context.Context, of object.Key, revision *unstructured.Unstructured, owner *metav1.OwnerReference,
	finalizers ...string) error {
	if revision.GetDeletionTimestamp() != nil {
		return nil
	}
	change := map[string]any{}
	owners := revision.GetOwnerReferences()
	if owner != nil && !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == owner.UID && isController(o) }) {
		change["ownerReferences"] = append(slices.DeleteFunc(slices.Clone(owners),
			func(o metav1.OwnerReference) bool { return isController(o) || o.UID == owner.UID }), *owner)
	}
	has := revision.GetFinalizers()
	if missing := slices.DeleteFunc(finalizers, func(f string) bool { return slices.Contains(has, f) }); len(missing) > 0 {
		change["finalizers"] = slices.Concat(has, missing)
	}
	if len(change) == 0 {
		return nil
	}
	_, err := s.Write(of, revision, func() (*unstructured.Unstructured, error) {
		return s.Cluster.Patch(ctx, revision, map[string]any{"metadata": change}, s.Manager)
	})
	return err
}

func isController(o metav1.OwnerReference) bool { return o.Controller != nil && *o.Controller }

// Encode turns a revision into what is created.
func (s RevisionStore) Encode(revision metav1.Object) (*unstructured.Unstructured, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(revision)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", s.Kind.Kind, revision.GetName(), err)
	}
	unstructured.RemoveNestedField(raw, "status")
	unstructured.RemoveNestedField(raw, "metadata", "creationTimestamp")
	return &unstructured.Unstructured{Object: raw}, nil
}

// Create creates a revision. The error is one of kube.IsNameTaken's if another has its name.
func (s RevisionStore) Create(ctx context.Context, of object.Key, revision *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.Write(of, revision, func() (*unstructured.Unstructured, error) { return s.Cluster.Create(ctx, revision, s.Manager) })
}

// Write makes a write to a revision of an object. The revision names the object of an error.
func (s RevisionStore) Write(of object.Key, revision *unstructured.Unstructured,
	do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	answer, err := s.Hub.Write(watch.Subscriber{Key: of}, do)
	if err != nil {
		return nil, fmt.Errorf("write %s %s: %w", s.Kind.Kind, revision.GetName(), err)
	}
	return answer, nil
}

// ResultOf is the result of a reconcile that a write has ended with an error: it was stale, so an event brings the next
// reconcile, or it has failed.
func ResultOf(err error) reconcile.Result {
	if kube.IsStale(err) {
		return reconcile.Conflict()
	}
	return reconcile.Fail(err)
}
