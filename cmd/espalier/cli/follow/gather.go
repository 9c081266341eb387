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
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/backup/archive"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/observe"
)

// lookup is one place where some of an instance's children may be, or some of a definition's
// instances.
type lookup struct {
	set        string    // the instance's ApplySet
	definition types.UID // of the definition; empty where children are looked for
	resource   schema.GroupVersionResource
	namespace  string // empty for cluster-scoped kinds, and for all namespaces
}

func (l lookup) selector() string {
	if l.definition != "" {
		return ""
	}
	return v1alpha1.ApplySetPartOfLabel + "=" + l.set
}

// add adds an object that was found at a place to a world.
func (l lookup) add(w *observe.World, o *unstructured.Unstructured) {
	if l.definition != "" {
		w.Instances[l.definition] = append(w.Instances[l.definition], o)
		return
	}
	w.Children[l.set] = append(w.Children[l.set], o)
}

// below lists where to look for what is below an object in a tree. A kind that no server
// knows has no objects and is left out; complete is false then, for it may come.
func (k *Kinds) below(o *unstructured.Unstructured, t Target) (places []lookup, complete bool, err error) {
	if archive.IsDefinition(o.GroupVersionKind().GroupKind()) {
		return k.instancesOf(o, t.InstancesIn)
	}
	return k.lookups(o)
}

// instancesOf lists where the instances of a definition are: of one in the composition
// dialect, its composites and their claims.
func (k *Kinds) instancesOf(definition *unstructured.Unstructured, namespace string) (places []lookup, complete bool, err error) {
	complete = true
	for _, gvk := range archive.Defines(definition) {
		mapping, err := k.Serving(gvk.GroupKind())
		if meta.IsNoMatchError(err) {
			complete = false
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("look up kind %s: %w", gvk.GroupKind(), err)
		}
		at := lookup{definition: definition.GetUID(), resource: mapping.Resource}
		if mapping.Scope.Name() != meta.RESTScopeNameRoot {
			at.namespace = namespace
		}
		places = append(places, at)
	}
	return places, complete, nil
}

// lookups lists where an instance says that its children are.
func (k *Kinds) lookups(instance *unstructured.Unstructured) (places []lookup, complete bool, err error) {
	set := observe.ApplySet(instance)
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
			places = append(places, lookup{set: set, resource: mapping.Resource})
			continue
		}
		for _, namespace := range namespaces {
			places = append(places, lookup{set: set, resource: mapping.Resource, namespace: namespace})
		}
	}
	return places, complete, nil
}

// Gather reads a tree once. That there is no such object is an error, unless all of a kind are
// meant.
func (c *Cluster) Gather(ctx context.Context, t Target) (observe.World, error) {
	roots, err := c.roots(ctx, t)
	if err != nil {
		return observe.World{}, err
	}
	read, looked := definitions{}, map[lookup]bool{}
	world := t.rooted(roots)
	world.Definitions = read
	for open := slices.Clone(roots); len(open) > 0; open = open[1:] {
		read.read(ctx, c, open[0])
		places, _, err := c.Kinds.below(open[0], t)
		if err != nil {
			return observe.World{}, err
		}
		for _, place := range places {
			if looked[place] {
				continue
			}
			looked[place] = true
			list, err := c.Client.Resource(place.resource).Namespace(place.namespace).List(ctx, metav1.ListOptions{LabelSelector: place.selector()})
			if apierrors.IsNotFound(err) {
				continue // the kind has just gone
			}
			if err != nil {
				return observe.World{}, fmt.Errorf("list %s: %w", place.resource.GroupResource(), err)
			}
			for i := range list.Items {
				place.add(&world, &list.Items[i])
				open = append(open, &list.Items[i])
			}
		}
	}
	return world, nil
}

// roots reads the objects that a target means.
func (c *Cluster) roots(ctx context.Context, t Target) ([]*unstructured.Unstructured, error) {
	if t.Name == "" {
		list, err := c.Of(t).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", t.Mapping.Resource.GroupResource(), err)
		}
		out := make([]*unstructured.Unstructured, len(list.Items))
		for i := range list.Items {
			out[i] = &list.Items[i]
		}
		return out, nil
	}
	root, err := c.Of(t).Get(ctx, t.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !t.is(root) {
		return nil, fmt.Errorf("there is no %s", t)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t, err)
	}
	return []*unstructured.Unstructured{root}, nil
}
