package reader

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"

	"github.com/espalier-dev/espalier/internal/diag"
)

// Kinds maps kinds, plurals, singulars and short names to resources. It caches discovery.
type Kinds struct {
	discovery discovery.CachedDiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	shortcuts meta.RESTMapper
}

func newKinds(plain discovery.DiscoveryInterface) *Kinds {
	cached := memory.NewMemCacheClient(plain)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	return &Kinds{discovery: cached, mapper: mapper, shortcuts: restmapper.NewShortcutExpander(mapper, cached, nil)}
}

// RESTMapping returns the mapping of a kind. It repeats discovery for a kind that is unknown,
// because it may be new.
func (k *Kinds) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := k.mapper.RESTMapping(gk, versions...)
	if meta.IsNoMatchError(err) {
		k.mapper.Reset()
		return k.mapper.RESTMapping(gk, versions...)
	}
	return mapping, err
}

// Refresh makes the next use repeat discovery.
func (k *Kinds) Refresh() { k.mapper.Reset() }

// Served returns the resources of the cluster in their preferred versions, without subresources, that support all of
// the verbs. Each has its group and version. With an error, it returns what could be discovered.
func (k *Kinds) Served(verbs ...string) ([]metav1.APIResource, error) {
	lists, err := k.discovery.ServerPreferredResources()
	return slices.DeleteFunc(flatten(lists), func(r metav1.APIResource) bool {
		return slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(r.Verbs, verb) })
	}), err
}

func flatten(lists []*metav1.APIResourceList) (out []metav1.APIResource) {
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if r.Group, r.Version = gv.Group, gv.Version; !strings.Contains(r.Name, "/") {
				out = append(out, r)
			}
		}
	}
	return out
}

// ResourceOf is the resource of an element of Served.
func ResourceOf(r metav1.APIResource) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}
}

// UnknownKindError says that the API server serves no kind of a name.
type UnknownKindError struct {
	// Kind is the name as the user wrote it, and Nearest a similar one that is served; empty if there is none.
	Kind, Nearest string
}

func (e *UnknownKindError) Error() string {
	text := fmt.Sprintf("no matches for kind %q", e.Kind)
	if e.Nearest != "" {
		text += fmt.Sprintf("; did you mean %q?", e.Nearest)
	}
	return text
}

// Target resolves a kind as a user writes it: a kind, plural, singular or short name, with or
// without version and group.
func (k *Kinds) Target(kind, namespace, name string) (Target, error) {
	mapping, err := k.mappingFor(kind)
	if err != nil && !meta.IsNoMatchError(err) {
		return Target{}, fmt.Errorf("look up kind %q: %w", kind, err)
	}
	served, _ := k.Served() // as far as it got
	if err != nil {
		return Target{}, &UnknownKindError{Kind: kind, Nearest: nearestKind(kind, served)}
	}
	return Target{
		Mapping: mapping, Namespace: QueryOf(mapping, namespace).Namespace, Name: name,
		Alternatives: alternatives(kind, mapping.Resource.GroupResource(), served),
	}, nil
}

func (k *Kinds) mappingFor(kind string) (*meta.RESTMapping, error) {
	resource, groupResource := schema.ParseResourceArg(strings.ToLower(kind))
	if resource != nil {
		if gvk, err := k.shortcuts.KindFor(*resource); err == nil {
			return k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		}
	}
	gvk, err := k.shortcuts.KindFor(groupResource.WithVersion(""))
	if err == nil {
		return k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if !meta.IsNoMatchError(err) {
		return nil, err
	}
	exact, groupKind := schema.ParseKindArg(kind)
	if exact != nil {
		if mapping, err := k.mapper.RESTMapping(exact.GroupKind(), exact.Version); err == nil {
			return mapping, nil
		}
	}
	return k.mapper.RESTMapping(groupKind)
}

// alternatives are the other resources that a name without a group may stand for, each as the name with its group, or
// as its plural with its group where the name is a short one. Resources that cannot be watched, such as the metrics of
// pods, are none.
func alternatives(written string, taken schema.GroupResource, served []metav1.APIResource) []string {
	name := strings.ToLower(written)
	var out []string
	for _, r := range served {
		isTaken := r.Group == taken.Group && r.Name == taken.Resource
		if isTaken || r.Group == "" || !slices.Contains(r.Verbs, "watch") { // nothing names the core group
			continue
		}
		switch {
		case name == r.Name, name == r.SingularName, name == strings.ToLower(r.Kind):
			out = append(out, name+"."+r.Group)
		case slices.Contains(r.ShortNames, name):
			out = append(out, r.Name+"."+r.Group)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nearestKind returns the served kind, or its plural, that is most similar to what a user wrote; empty if none is. It
// has a group if that was written.
func nearestKind(written string, served []metav1.APIResource) string {
	var known []string
	for _, r := range served {
		for _, name := range []string{strings.ToLower(r.Kind), r.Name} {
			if strings.Contains(written, ".") && r.Group != "" {
				name += "." + r.Group
			}
			known = append(known, name)
		}
	}
	return diag.Nearest(strings.ToLower(written), known)
}
