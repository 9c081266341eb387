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
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/observe"
)

// lookup lists children of an instance, or instances of a definition, by resource and namespace.
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

// String names what is looked up.
func (l lookup) String() string {
	if l.namespace == "" {
		return l.resource.GroupResource().String()
	}
	return l.resource.GroupResource().String() + " in namespace " + l.namespace
}

// addTo adds an object of the lookup to a state.
func (l lookup) addTo(w *observe.ClusterState, o *unstructured.Unstructured) {
	if l.definition != "" {
		w.Instances[l.definition] = append(w.Instances[l.definition], o)
		return
	}
	w.Children[l.set] = append(w.Children[l.set], o)
}

// lookupsBelow returns the lookups for what is below an object in a tree. A kind that is not
// served has no objects and is left out; complete is then false, because it may appear.
func (k *Kinds) lookupsBelow(o *unstructured.Unstructured, t Target) (places []lookup, complete bool, err error) {
	if archive.IsDefinition(o.GroupVersionKind().GroupKind()) {
		return k.instanceLookups(o, t.InstancesIn)
	}
	return k.childLookups(o)
}

// instanceLookups returns the lookups for the instances of a definition: in the composition
// dialect, its composites and their claims.
func (k *Kinds) instanceLookups(definition *unstructured.Unstructured, namespace string) (places []lookup, complete bool, err error) {
	complete = true
	for _, gvk := range archive.Defines(definition) {
		mapping, err := k.RESTMapping(gvk.GroupKind())
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

// childLookups returns the lookups for the children in an instance's inventory.
func (k *Kinds) childLookups(instance *unstructured.Unstructured) (places []lookup, complete bool, err error) {
	set := inventory.SetOf(instance)
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
		mapping, err := k.RESTMapping(gk)
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

// Gather reads a tree once. It fails if the target has a name and does not exist. Objects below it that the user may not
// list are left out, as Unreadable says: who may read an instance need not read all that it consists of.
func (c *Cluster) Gather(ctx context.Context, t Target) (observe.ClusterState, error) {
	roots, err := c.roots(ctx, t)
	if err != nil {
		return observe.ClusterState{}, err
	}
	read, listed, unreadable := definitions{}, map[lookup]bool{}, map[string]bool{}
	state := t.newState(roots)
	state.Definitions = read
	for open := slices.Clone(roots); len(open) > 0; open = open[1:] {
		read.read(ctx, c, open[0])
		places, _, err := c.Kinds.lookupsBelow(open[0], t)
		if err != nil {
			return observe.ClusterState{}, err
		}
		for _, place := range places {
			if listed[place] {
				continue
			}
			listed[place] = true
			list, err := c.Client.Resource(place.resource).Namespace(place.namespace).List(ctx, metav1.ListOptions{LabelSelector: place.selector()})
			if apierrors.IsNotFound(err) {
				continue // the kind has just been deleted
			}
			if apierrors.IsForbidden(err) {
				unreadable[place.String()] = true
				continue
			}
			if err != nil {
				return observe.ClusterState{}, fmt.Errorf("list %s: %w", place.resource.GroupResource(), err)
			}
			for i := range list.Items {
				place.addTo(&state, &list.Items[i])
				open = append(open, &list.Items[i])
			}
		}
	}
	state.Unreadable = slices.Sorted(maps.Keys(unreadable))
	return state, nil
}

// roots reads the objects of a target.
func (c *Cluster) roots(ctx context.Context, t Target) ([]*unstructured.Unstructured, error) {
	if t.Name == "" {
		list, err := c.ResourceClient(t).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", t.Mapping.Resource.GroupResource(), err)
		}
		out := make([]*unstructured.Unstructured, len(list.Items))
		for i := range list.Items {
			out[i] = &list.Items[i]
		}
		return out, nil
	}
	root, err := c.ResourceClient(t).Get(ctx, t.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !t.matches(root) {
		return nil, fmt.Errorf("%s not found", t)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t, err)
	}
	return []*unstructured.Unstructured{root}, nil
}
