package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/inventory"
	specschema "github.com/espalier-dev/espalier/internal/schema"
)

// Resource is how a kind is served.
type Resource struct {
	GVR        schema.GroupVersionResource
	Namespaced bool
}

// Unavailable is the error for a kind that no server knows.
type Unavailable struct{ Kind schema.GroupVersionKind }

func (u *Unavailable) Error() string {
	return fmt.Sprintf("the server knows no kind %s in %s; it continues when its CustomResourceDefinition is installed", u.Kind.Kind, u.Kind.GroupVersion())
}

// IsUnavailable says whether the error is that no server knows the kind.
func IsUnavailable(err error) bool {
	var u *Unavailable
	return errors.As(err, &u)
}

// Kinds knows which kinds there are. Those of CustomResourceDefinitions are told
// by Observe as they come, change and go, and cost no request; others are looked
// up once. It is safe for concurrent use.
type Kinds struct {
	discovery discovery.DiscoveryInterface
	schemas   resolver.SchemaResolver

	mu     sync.RWMutex
	custom map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition
	// defined are the kinds that have or had a CustomResourceDefinition. Of these
	// nobody else is asked: discovery lags behind, and would tell of a kind that
	// is gone with no event to tell the truth afterwards.
	defined map[schema.GroupKind]bool
	// builtin and typed hold answers of the server about kinds without a
	// CustomResourceDefinition. Only positive ones: what is missing may come.
	builtin map[schema.GroupVersionKind]Resource
	typed   map[schema.GroupVersionKind]*spec.Schema
}

// NewKinds returns an empty Kinds.
func NewKinds(d discovery.DiscoveryInterface) *Kinds {
	return &Kinds{
		discovery: d,
		schemas:   &resolver.ClientDiscoveryResolver{Discovery: d},
		custom:    map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{},
		defined:   map[schema.GroupKind]bool{},
		builtin:   map[schema.GroupVersionKind]Resource{},
		typed:     map[schema.GroupVersionKind]*spec.Schema{},
	}
}

// Observe takes note of a CustomResourceDefinition as it is now, and reports
// whether that changes what is known of its kind.
func (k *Kinds) Observe(c *apiextensionsv1.CustomResourceDefinition) (changed bool) {
	gk := schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.define(gk)
	old, had := k.custom[gk]
	if had && old.Name != c.Name && crd.Established(old) {
		return false // two claim the kind; the one that serves it counts
	}
	k.custom[gk] = c
	if !had {
		return true
	}
	_, wasOurs := crd.Owner(old)
	_, isOurs := crd.Owner(c)
	return old.UID != c.UID || old.Generation != c.Generation || crd.Established(old) != crd.Established(c) || wasOurs != isOurs
}

// define remembers that a kind is a CustomResourceDefinition's, and forgets what
// discovery said of it before.
func (k *Kinds) define(gk schema.GroupKind) {
	if k.defined[gk] {
		return
	}
	k.defined[gk] = true
	maps.DeleteFunc(k.builtin, func(gvk schema.GroupVersionKind, _ Resource) bool { return gvk.GroupKind() == gk })
	maps.DeleteFunc(k.typed, func(gvk schema.GroupVersionKind, _ *spec.Schema) bool { return gvk.GroupKind() == gk })
}

// Forget takes note that a CustomResourceDefinition is gone, and reports whether
// it was the one that served its kind: of two that claim a kind the end of the
// other is not the kind's.
func (k *Kinds) Forget(c *apiextensionsv1.CustomResourceDefinition) (served bool) {
	gk := schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.define(gk)
	old, ok := k.custom[gk]
	if !ok || old.Name != c.Name {
		return false
	}
	delete(k.custom, gk)
	return true
}

// CRD returns the CustomResourceDefinition of a kind, as last observed. It is
// shared and must not be changed.
func (k *Kinds) CRD(gk schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	c, ok := k.custom[gk]
	return c, ok
}

// OwnedBy lists the CustomResourceDefinitions that belong to a definition, sorted
// by name. They are shared and must not be changed.
func (k *Kinds) OwnedBy(owner inventory.Definition) []*apiextensionsv1.CustomResourceDefinition {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, c := range k.custom {
		if crd.BelongsTo(c, owner) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Resolve finds the resource that serves a kind. A kind that no server knows is
// an *Unavailable.
func (k *Kinds) Resolve(gvk schema.GroupVersionKind) (Resource, error) {
	if c, ok := k.CRD(gvk.GroupKind()); ok {
		return fromCRD(c, gvk)
	}
	k.mu.RLock()
	r, ok := k.builtin[gvk]
	gone := k.defined[gvk.GroupKind()]
	k.mu.RUnlock()
	if ok {
		return r, nil
	}
	if gone {
		return Resource{}, &Unavailable{Kind: gvk}
	}
	r, err := k.discover(gvk)
	if err != nil {
		return Resource{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.defined[gvk.GroupKind()] { // it may have been, while the server was asked
		k.builtin[gvk] = r
	}
	return r, nil
}

func fromCRD(c *apiextensionsv1.CustomResourceDefinition, gvk schema.GroupVersionKind) (Resource, error) {
	serves := slices.ContainsFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == gvk.Version && v.Served
	})
	if !serves || !crd.Established(c) {
		return Resource{}, &Unavailable{Kind: gvk}
	}
	return Resource{
		GVR:        gvk.GroupVersion().WithResource(c.Spec.Names.Plural),
		Namespaced: c.Spec.Scope == apiextensionsv1.NamespaceScoped,
	}, nil
}

func (k *Kinds) discover(gvk schema.GroupVersionKind) (Resource, error) {
	list, err := k.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return Resource{}, &Unavailable{Kind: gvk}
	}
	if err != nil {
		return Resource{}, fmt.Errorf("look up %s: %w", gvk, err)
	}
	for _, r := range list.APIResources {
		if r.Kind == gvk.Kind && !strings.Contains(r.Name, "/") {
			return Resource{GVR: gvk.GroupVersion().WithResource(r.Name), Namespaced: r.Namespaced}, nil
		}
	}
	return Resource{}, &Unavailable{Kind: gvk}
}

// Preferred returns a served version of a kind that is known by group and kind
// alone, as an inventory names it.
func (k *Kinds) Preferred(gk schema.GroupKind) (schema.GroupVersionKind, error) {
	if c, ok := k.CRD(gk); ok {
		for _, v := range c.Spec.Versions {
			if v.Served && v.Storage {
				return gk.WithVersion(v.Name), nil
			}
		}
		for _, v := range c.Spec.Versions {
			if v.Served {
				return gk.WithVersion(v.Name), nil
			}
		}
		return schema.GroupVersionKind{}, &Unavailable{Kind: gk.WithVersion("")}
	}
	k.mu.RLock()
	for gvk := range k.builtin {
		if gvk.GroupKind() == gk {
			k.mu.RUnlock()
			return gvk, nil
		}
	}
	gone := k.defined[gk]
	k.mu.RUnlock()
	if gone {
		return schema.GroupVersionKind{}, &Unavailable{Kind: gk.WithVersion("")}
	}
	return k.preferredByDiscovery(gk)
}

// preferredByDiscovery asks the server which versions a group has. One whose own
// server is down may well have the kind: that is a failure, and not the answer
// that there is none.
func (k *Kinds) preferredByDiscovery(gk schema.GroupKind) (schema.GroupVersionKind, error) {
	group, down, err := k.group(gk.Group)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("look up group %q: %w", gk.Group, err)
	}
	if group == nil && down == nil {
		return schema.GroupVersionKind{}, &Unavailable{Kind: gk.WithVersion("")}
	}
	if group != nil {
		for _, version := range group.Versions {
			gvk := gk.WithVersion(version.Version)
			if _, err := k.Resolve(gvk); err == nil {
				return gvk, nil
			} else if !IsUnavailable(err) {
				return schema.GroupVersionKind{}, err
			}
		}
		if len(group.Versions) == 0 && down == nil {
			down = errors.New("it is listed without versions")
		}
	}
	if down != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("look up group %q: %w", gk.Group, down)
	}
	return schema.GroupVersionKind{}, &Unavailable{Kind: gk.WithVersion("")}
}

// group returns a group as the server lists it, nil if it lists none, and why a
// version of it is missing from that.
func (k *Kinds) group(name string) (group *metav1.APIGroup, down, err error) {
	var groups *metav1.APIGroupList
	var failed map[schema.GroupVersion]error
	if aggregated, ok := k.discovery.(discovery.AggregatedDiscoveryInterface); ok {
		groups, _, failed, err = aggregated.GroupsAndMaybeResources()
	} else {
		groups, err = k.discovery.ServerGroups()
	}
	if err != nil {
		return nil, nil, err
	}
	for gv, why := range failed {
		if gv.Group == name {
			down = why
		}
	}
	for i := range groups.Groups {
		if groups.Groups[i].Name == name {
			return &groups.Groups[i], down, nil
		}
	}
	return nil, down, nil
}

// Lookup tells a compiler what is known of a kind; false says that no server
// knows it. That it couldn't be found out is an error.
func (k *Kinds) Lookup(gvk schema.GroupVersionKind) (graph.Kind, bool, error) {
	r, err := k.Resolve(gvk)
	if IsUnavailable(err) {
		return graph.Kind{}, false, nil
	}
	if err != nil {
		return graph.Kind{}, false, err
	}
	kind := graph.Kind{Namespaced: r.Namespaced}
	if c, ok := k.CRD(gvk.GroupKind()); ok {
		_, kind.Nested = crd.Owner(c)
		kind.Revision = fmt.Sprintf("%s/%d", c.UID, c.Generation)
		kind.Schema = crdSchema(c, gvk.Version)
		return kind, true, nil
	}
	kind.Schema, err = k.serverSchema(gvk)
	return kind, err == nil, err
}

func crdSchema(c *apiextensionsv1.CustomResourceDefinition, version string) *spec.Schema {
	for _, v := range c.Spec.Versions {
		if v.Name == version && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			return specschema.OpenAPI(v.Schema.OpenAPIV3Schema)
		}
	}
	return nil
}

// serverSchema reads the OpenAPI schema of a kind that the server builds in. A
// kind that has none is untyped rather than unusable.
func (k *Kinds) serverSchema(gvk schema.GroupVersionKind) (*spec.Schema, error) {
	k.mu.RLock()
	s, ok := k.typed[gvk]
	k.mu.RUnlock()
	if ok {
		return s, nil
	}
	s, err := k.schemas.ResolveSchema(gvk)
	if errors.Is(err, resolver.ErrSchemaNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gvk, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.defined[gvk.GroupKind()] {
		k.typed[gvk] = s
	}
	return s, nil
}
