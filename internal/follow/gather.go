package follow

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/view"
)

// lookup is one place where some of an instance's children may be.
type lookup struct {
	set       string // the instance's ApplySet
	resource  schema.GroupVersionResource
	namespace string // empty for cluster-scoped kinds
}

func (l lookup) selector() string { return v1alpha1.ApplySetPartOfLabel + "=" + l.set }

// lookups lists where an instance says that its children are. A kind that no
// server knows has no objects and is left out; complete is false then, for it
// may come.
func (k *Kinds) lookups(instance *unstructured.Unstructured) (places []lookup, complete bool, err error) {
	set := view.ApplySet(instance)
	if set == "" {
		return nil, true, nil
	}
	recorded := inventory.Read(instance)
	namespaces := slices.Sorted(maps.Keys(recorded.Namespaces))
	if own := instance.GetNamespace(); own != "" {
		namespaces = append(namespaces, own)
	}
	complete = true
	for _, gk := range recorded.GroupKinds() {
		mapping, err := k.Serving(gk)
		if meta.IsNoMatchError(err) {
			complete = false
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("look up kind %s: %w", gk, err)
		}
		if mapping.Scope.Name() == meta.RESTScopeNameRoot {
			places = append(places, lookup{set, mapping.Resource, ""})
			continue
		}
		for _, namespace := range namespaces {
			places = append(places, lookup{set, mapping.Resource, namespace})
		}
	}
	return places, complete, nil
}

// Gather reads a tree once. That there is no such object is an error.
func (c *Cluster) Gather(ctx context.Context, t Target) (view.World, error) {
	root, err := c.Of(t).Get(ctx, t.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !t.is(root) {
		return view.World{}, fmt.Errorf("there is no %s", t)
	}
	if err != nil {
		return view.World{}, fmt.Errorf("read %s: %w", t, err)
	}
	read := definitions{}
	world := view.World{Root: root, Children: map[string][]*unstructured.Unstructured{}, Definitions: read}
	open := []*unstructured.Unstructured{root}
	for len(open) > 0 {
		instance := open[0]
		open = open[1:]
		if _, seen := world.Children[view.ApplySet(instance)]; seen {
			continue
		}
		read.read(ctx, c, instance)
		places, _, err := c.Kinds.lookups(instance)
		if err != nil {
			return view.World{}, err
		}
		for _, place := range places {
			list, err := c.Client.Resource(place.resource).Namespace(place.namespace).List(ctx, metav1.ListOptions{LabelSelector: place.selector()})
			if apierrors.IsNotFound(err) {
				continue // the kind has just gone
			}
			if err != nil {
				return view.World{}, fmt.Errorf("list %s: %w", place.resource.GroupResource(), err)
			}
			for i := range list.Items {
				world.Children[place.set] = append(world.Children[place.set], &list.Items[i])
				open = append(open, &list.Items[i])
			}
		}
	}
	return world, nil
}
