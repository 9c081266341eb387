package standalone

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// The accepted specs of a Graph with spec.revisionHistoryLimit are kept in ControllerRevisions. The status has their numbers
// and digests: it is written after they are created and deleted, so a crash repeats either, and only the controllers write
// it, so a ControllerRevision that another client replaced is recognized.

// revisionsField is the field of a status with the revisions.
const revisionsField = "revisions"

// LimitField is the field of a spec that is not part of its revisions.
const LimitField = "revisionHistoryLimit"

var controllerRevision = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")

// Revisions are the accepted specs of a Graph that are kept, from the oldest to the newest.
func Revisions(o *unstructured.Unstructured) (out []v1alpha1.SpecRevision) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", revisionsField)
	for _, item := range list {
		fields, _ := item.(map[string]any)
		number, _ := fields["revision"].(int64)
		digest, _ := fields["digest"].(string)
		out = append(out, v1alpha1.SpecRevision{Revision: number, Digest: digest})
	}
	return out
}

func statusOf(revisions []v1alpha1.SpecRevision) (out []any) {
	for _, r := range revisions {
		out = append(out, map[string]any{"revision": r.Revision, "digest": r.Digest})
	}
	return out
}

// Content is what a revision of a Graph contains: its spec without the field about revisions.
func Content(o *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec") // a copy
	delete(spec, LimitField)
	return spec
}

// RevisionName is the name of the ControllerRevision with a number. The UID tells it from those of a former Graph of the name.
func RevisionName(name string, uid types.UID, number int64) string {
	return revision.Name(object.Definition{Name: name + "-" + object.Digest(uid)[:8]}, number)
}

// RecordedContent is the spec in a ControllerRevision, if it is the one that the Graph has recorded.
func RecordedContent(o *unstructured.Unstructured, recorded v1alpha1.SpecRevision) (map[string]any, error) {
	spec, _, _ := unstructured.NestedMap(o.Object, "data", "spec")
	if object.Digest(spec) != recorded.Digest {
		return nil, fmt.Errorf("ControllerRevision %s has another spec than the Graph recorded: another client has replaced it", o.GetName())
	}
	return spec, nil
}

func encodeRevision(o *unstructured.Unstructured, number int64, content map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": appsv1.SchemeGroupVersion.String(), "kind": controllerRevision.Kind,
		"metadata": map[string]any{
			"name": RevisionName(o.GetName(), o.GetUID(), number), "namespace": o.GetNamespace(),
			"ownerReferences": []any{map[string]any{
				"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.GraphKind, "name": o.GetName(), "uid": string(o.GetUID()), "controller": true,
			}},
		},
		"revision": number,
		"data":     map[string]any{"spec": content},
	}}
}

// history is a decision about the revisions of a Graph.
type history struct {
	// kept are those that it has from now on. If created, the newest has to be created; dropped have to be deleted.
	kept, dropped []v1alpha1.SpecRevision
	created       bool
}

// nextHistory records an accepted spec with a digest, unless the newest revision has it. A limit of 0 keeps none.
func nextHistory(recorded []v1alpha1.SpecRevision, digest string, limit int) history {
	if limit == 0 {
		return history{dropped: recorded}
	}
	newest := v1alpha1.SpecRevision{}
	if len(recorded) > 0 {
		newest = recorded[len(recorded)-1]
	}
	out := history{kept: recorded, created: newest.Digest != digest}
	if out.created {
		out.kept = append(out.kept, v1alpha1.SpecRevision{Revision: newest.Revision + 1, Digest: digest})
	}
	surplus := max(0, len(out.kept)-limit)
	out.kept, out.dropped = out.kept[surplus:], out.kept[:surplus]
	return out
}

// recordSpec creates and deletes the revisions of a Graph. Its status has them once it is written.
func (g *Graphs) recordSpec(ctx context.Context, p *program, o *unstructured.Unstructured) error {
	recorded := Revisions(o)
	p.revisions = recorded
	limit, _, _ := unstructured.NestedInt64(o.Object, "spec", LimitField)
	if limit == 0 && len(recorded) == 0 || !p.accepted || (Dialect{}).Suspended(o) != "" {
		return nil
	}
	content := Content(o)
	next := nextHistory(recorded, object.Digest(content), int(limit))
	if err := g.writeHistory(ctx, o, next, content); err != nil {
		g.Events.Event(o, telemetry.Warning, "RevisionNotKept", err.Error())
		return err
	}
	p.revisions = next.kept
	return nil
}

func (g *Graphs) writeHistory(ctx context.Context, o *unstructured.Unstructured, next history, content map[string]any) error {
	if next.created {
		newest := next.kept[len(next.kept)-1]
		if err := g.createRevision(ctx, o, newest, content); err != nil {
			return fmt.Errorf("create revision %d: %w", newest.Revision, err)
		}
	}
	for _, r := range next.dropped {
		if err := g.deleteRevision(ctx, o, r.Revision); err != nil {
			return fmt.Errorf("delete revision %d: %w", r.Revision, err)
		}
	}
	return nil
}

// errOutdated is the error of a decision about a Graph that has changed.
var errOutdated = errors.New("the Graph has changed meanwhile")

// createRevision creates a revision, unless a reconcile has that the controllers did not survive. If its spec is not the
// current one any more, the number is free: no status has it.
func (g *Graphs) createRevision(ctx context.Context, o *unstructured.Unstructured, r v1alpha1.SpecRevision, content map[string]any) error {
	encoded := encodeRevision(o, r.Revision, content)
	_, err := g.Cluster.CreateByPost(ctx, encoded, v1alpha1.InstanceManager)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing, err := g.Cluster.Get(ctx, controllerRevision, o.GetNamespace(), encoded.GetName())
	if err != nil {
		return err
	}
	if _, err := RecordedContent(existing, r); err == nil {
		return nil
	}
	live, err := g.Cluster.Get(ctx, graph.GraphKind, o.GetNamespace(), o.GetName())
	if err != nil {
		return err
	}
	if live.GetResourceVersion() != o.GetResourceVersion() {
		return errOutdated // its status may have the number
	}
	if err := g.Cluster.Delete(ctx, existing); err != nil {
		return err
	}
	_, err = g.Cluster.CreateByPost(ctx, encoded, v1alpha1.InstanceManager)
	return err
}

func (g *Graphs) deleteRevision(ctx context.Context, o *unstructured.Unstructured, number int64) error {
	existing, err := g.Cluster.Get(ctx, controllerRevision, o.GetNamespace(), RevisionName(o.GetName(), o.GetUID(), number))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !metav1.IsControlledBy(existing, o) {
		return nil // another client's
	}
	return g.Cluster.Delete(ctx, existing)
}
