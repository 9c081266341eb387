// Package follow reads trees: of an instance, of a definition with its instances, or of
// all objects of a kind; once, or for as long as they exist. It reads exactly where instances
// say that they have children.
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
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// lookup lists children of an instance, or instances of a definition, by resource and namespace.
type lookup struct {
	reader.Query
	set        string    // the instance's ApplySet
	definition types.UID // of the definition; empty where children are looked for
}

// addTo adds an object of the lookup to a state.
func (l lookup) addTo(w *observe.ClusterState, o *unstructured.Unstructured) {
	if l.definition != "" {
		w.Instances[l.definition] = append(w.Instances[l.definition], o)
		return
	}
	w.Children[l.set] = append(w.Children[l.set], o)
}

// lookupsBelow returns the lookups for what is below an object in a tree: the instances of a definition, which are
// composites and their claims in the composition dialect, or the children in an instance's inventory. A kind that is
// not served has no objects and is left out; complete is then false, because it may appear.
func lookupsBelow(k *reader.Kinds, o *unstructured.Unstructured, t reader.Target) (places []lookup, complete bool, err error) {
	kinds, namespaces, template := []schema.GroupKind(nil), []string{t.InstancesIn}, lookup{definition: o.GetUID()}
	if archive.IsDefinition(o.GroupVersionKind().GroupKind()) {
		for _, gvk := range archive.Defines(o) {
			kinds = append(kinds, gvk.GroupKind())
		}
	} else if set := inventory.SetOf(o); set != "" {
		recorded := inventory.Read(o)
		kinds, namespaces = recorded.GroupKinds(), slices.Sorted(maps.Keys(recorded.Namespaces))
		if own := o.GetNamespace(); own != "" {
			namespaces = append(namespaces, own)
		}
		template = lookup{set: set, Query: reader.Query{Labels: v1alpha1.ApplySetPartOfLabel + "=" + set}}
	}
	complete = true
	for _, gk := range kinds {
		mapping, err := k.RESTMapping(gk)
		if meta.IsNoMatchError(err) {
			complete = false
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("look up kind %s: %w", gk, err)
		}
		in := namespaces
		if reader.IsClusterScoped(mapping) {
			in = []string{""}
		}
		for _, namespace := range in {
			at := template
			at.Resource, at.Namespace = mapping.Resource, namespace
			places = append(places, at)
		}
	}
	return places, complete, nil
}

// tree collects the objects of a tree.
type tree struct {
	*reader.Cluster
	target reader.Target
	// definitions are the definitions of the instances' kinds. Each is read once; one that cannot be read is nil, because a tree is
	// shown also without permission to read definitions.
	definitions map[types.NamespacedName]*unstructured.Unstructured
}

func newTree(c *reader.Cluster, t reader.Target) tree {
	return tree{c, t, map[types.NamespacedName]*unstructured.Unstructured{}}
}

// collect adds what is below the roots, which list returns for each lookup once. Refused is true for a lookup that the
// user may not list. Complete is false while kinds are not served.
func (r tree) collect(ctx context.Context, roots []*unstructured.Unstructured,
	list func(lookup) (found []*unstructured.Unstructured, refused bool, err error)) (state observe.ClusterState, complete bool, err error) {
	slices.SortFunc(roots, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	state = observe.ClusterState{
		Roots: roots, AllOfKind: r.target.Name == "",
		Children: map[string][]*unstructured.Unstructured{}, Instances: map[types.UID][]*unstructured.Unstructured{},
	}
	if !state.AllOfKind && len(roots) > 0 {
		state.Root = roots[0]
	}
	listed, unreadable := map[lookup]bool{}, map[string]bool{}
	complete = true
	for open := slices.Clone(roots); len(open) > 0; open = open[1:] {
		r.readDefinition(ctx, open[0])
		places, all, err := lookupsBelow(r.Kinds, open[0], r.target)
		if err != nil {
			return observe.ClusterState{}, false, err
		}
		complete = complete && all
		for _, place := range places {
			if listed[place] {
				continue
			}
			listed[place] = true
			found, refused, err := list(place)
			if err != nil {
				return observe.ClusterState{}, false, err
			}
			if refused {
				unreadable[place.String()] = true
			}
			for _, o := range found {
				place.addTo(&state, o)
				open = append(open, o)
			}
		}
	}
	state.Definitions = maps.Clone(r.definitions) // the receiver keeps the state
	state.Unreadable = slices.Sorted(maps.Keys(unreadable))
	return state, complete, nil
}

// readDefinition reads the definition of an instance's kind, unless it was tried before.
func (r tree) readDefinition(ctx context.Context, instance *unstructured.Unstructured) {
	name, ok := observe.DefinitionOf(instance)
	if _, tried := r.definitions[name]; !ok || tried {
		return
	}
	resource := v1alpha1.GroupVersion.WithResource("resourcegraphdefinitions")
	if name.Namespace != "" {
		resource = v1alpha1.GroupVersion.WithResource("resourcegroups")
	}
	found, err := r.Client.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		found = nil
	}
	r.definitions[name] = found
}

// Gather reads a tree once. It fails if the target has a name and does not exist. Objects below it that the user may
// not list are left out, as Unreadable says: who may read an instance need not read all that it consists of.
func Gather(ctx context.Context, c *reader.Cluster, t reader.Target) (observe.ClusterState, error) {
	roots, err := readRoots(ctx, c, t)
	if err != nil {
		return observe.ClusterState{}, err
	}
	state, _, err := newTree(c, t).collect(ctx, roots, func(l lookup) ([]*unstructured.Unstructured, bool, error) {
		found, err := c.List(ctx, l.Query)
		if apierrors.IsForbidden(err) {
			return nil, true, nil
		}
		return found, false, err
	})
	return state, err
}

// readRoots reads the objects of a target.
func readRoots(ctx context.Context, c *reader.Cluster, t reader.Target) ([]*unstructured.Unstructured, error) {
	if t.Name == "" {
		return c.List(ctx, t.Query())
	}
	root, err := c.ResourceClient(t).Get(ctx, t.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !t.Matches(root) {
		return nil, fmt.Errorf("%s not found", t)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t, err)
	}
	return []*unstructured.Unstructured{root}, nil
}
