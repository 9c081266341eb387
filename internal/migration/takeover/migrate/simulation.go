package migrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/dryrun"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/simulation"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

// Simulation runs controllers over a cluster without changing it.
type Simulation struct {
	simulation.Simulation
	// Served are the kinds whose objects the controllers reconcile.
	Served func() []schema.GroupVersionKind
	// Client reads through the overlay.
	Client dynamic.Interface
	Caches Caches
	Kinds  Kinds
}

// Run runs the controllers until they are idle, or for the timeout at most, which makes the
// result unsettled. It returns the objects that the controllers reconcile or would change, and
// those that instances are composed of.
func (s Simulation) Run(ctx context.Context, timeout time.Duration) (objects []preview.Object, unsettled bool, err error) {
	err = s.Simulation.Run(ctx, timeout, func(ctx context.Context, settled bool) (bool, error) {
		unsettled = !settled
		var err error
		objects, err = s.findObserved(ctx)
		return false, err
	})
	return objects, unsettled, err
}

// findObserved returns the objects that the controllers reconcile or change, and those that
// instances are composed of.
func (s Simulation) findObserved(ctx context.Context) ([]preview.Object, error) {
	children := func(gk schema.GroupKind) ([]unstructured.Unstructured, error) {
		return children(ctx, s.Client, s.Kinds, gk)
	}
	return observed(served(s.Served(), s.Caches), s.Overlay.Changes(), children)
}

// observed returns the objects that would be changed, those that are reconciled, and those
// that instances are composed of, each once.
func observed(served []*unstructured.Unstructured, changes []dryrun.Change,
	children func(schema.GroupKind) ([]unstructured.Unstructured, error)) ([]preview.Object, error) {
	known := map[object.Key]bool{}
	var out []preview.Object
	add := func(o preview.Object, key object.Key) {
		if !known[key] {
			known[key] = true
			out = append(out, o)
		}
	}
	isServed := map[object.Key]bool{}
	for _, o := range served {
		isServed[object.KeyOf(o)] = true
	}
	for _, change := range changes {
		o := preview.Object{Before: change.Before, After: change.After, Deletion: change.Deletion}
		key := object.KeyOf(o.Latest())
		o.Reconciled = isServed[key]
		if key.Kind == "Secret" && key.Name == v1alpha1.SigningKeySecret {
			continue // the controllers create another key, and the plan shows none
		}
		add(o, key)
	}
	kinds, ids := map[schema.GroupKind]bool{}, map[string]bool{}
	for _, o := range served {
		ids[inventory.ApplySetID(object.KeyOf(o))] = true
		add(preview.Object{Before: o, After: o, Reconciled: true}, object.KeyOf(o))
		for _, gk := range inventory.Read(o).GroupKinds() {
			kinds[gk] = true
		}
	}
	for gk := range kinds {
		found, err := children(gk)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if c := &found[i]; ids[c.GetLabels()[v1alpha1.ApplySetPartOfLabel]] {
				add(preview.Object{Before: c, After: c}, object.KeyOf(c))
			}
		}
	}
	return out, nil
}

// Kinds finds how kinds are served; *kube.Kinds implements it.
type Kinds interface {
	Preferred(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, error)
	Resolve(ctx context.Context, gvk schema.GroupVersionKind) (kube.Resource, error)
}

// children returns the objects of a kind that instances are composed of; none if the kind is
// not served.
func children(ctx context.Context, client dynamic.Interface, kinds Kinds, gk schema.GroupKind) ([]unstructured.Unstructured, error) {
	kind, err := kinds.Preferred(ctx, gk)
	if kube.IsNoKindMatch(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	resource, err := kinds.Resolve(ctx, kind)
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(resource.GVR).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ApplySetPartOfLabel})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource.GVR.GroupResource(), err)
	}
	return list.Items, nil
}

// Caches hold the objects of kinds that are reconciled; *watch.Hub implements it.
type Caches interface {
	State(gvk schema.GroupVersionKind, s watch.Selection) watch.State
	Select(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*unstructured.Unstructured
}

// served returns the objects of kinds whose caches are synced, sorted.
func served(kinds []schema.GroupVersionKind, from Caches) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, kind := range kinds {
		if from.State(kind, watch.All()).Phase == watch.Synced {
			out = append(out, from.Select(kind, "", labels.Everything())...)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}
