package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/graph"
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

// Forget takes note that a CustomResourceDefinition is gone.
func (k *Kinds) Forget(c *apiextensionsv1.CustomResourceDefinition) {
	gk := schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
	k.mu.Lock()
	defer k.mu.Unlock()
	if old, ok := k.custom[gk]; ok && old.Name == c.Name {
		delete(k.custom, gk)
	}
}

// CRD returns the CustomResourceDefinition of a kind, as last observed. It is
// shared and must not be changed.
func (k *Kinds) CRD(gk schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	c, ok := k.custom[gk]
	return c, ok
}

// Resolve finds the resource that serves a kind. A kind that no server knows is
// an *Unavailable.
func (k *Kinds) Resolve(gvk schema.GroupVersionKind) (Resource, error) {
	if c, ok := k.CRD(gvk.GroupKind()); ok {
		return fromCRD(c, gvk)
	}
	k.mu.RLock()
	r, ok := k.builtin[gvk]
	k.mu.RUnlock()
	if ok {
		return r, nil
	}
	r, err := k.discover(gvk)
	if err != nil {
		return Resource{}, err
	}
	k.mu.Lock()
	k.builtin[gvk] = r
	k.mu.Unlock()
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
	k.mu.RUnlock()
	return k.preferredByDiscovery(gk)
}

func (k *Kinds) preferredByDiscovery(gk schema.GroupKind) (schema.GroupVersionKind, error) {
	groups, err := k.discovery.ServerGroups()
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("look up group %q: %w", gk.Group, err)
	}
	for _, group := range groups.Groups {
		if group.Name != gk.Group {
			continue
		}
		for _, version := range group.Versions {
			gvk := gk.WithVersion(version.Version)
			if _, err := k.Resolve(gvk); err == nil {
				return gvk, nil
			} else if !IsUnavailable(err) {
				return schema.GroupVersionKind{}, err
			}
		}
	}
	return schema.GroupVersionKind{}, &Unavailable{Kind: gk.WithVersion("")}
}

// Lookup tells a compiler what is known of a kind. It fits graph.Kinds.
func (k *Kinds) Lookup(gvk schema.GroupVersionKind) (graph.Kind, bool) {
	r, err := k.Resolve(gvk)
	if err != nil {
		return graph.Kind{}, false
	}
	kind := graph.Kind{Namespaced: r.Namespaced}
	if c, ok := k.CRD(gvk.GroupKind()); ok {
		_, kind.Nested = crd.Owner(c)
		kind.Revision = fmt.Sprintf("%s/%d", c.UID, c.Generation)
		kind.Schema = crdSchema(c, gvk.Version)
		return kind, true
	}
	kind.Schema = k.serverSchema(gvk)
	return kind, true
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
// kind whose schema can't be had is untyped rather than unusable.
func (k *Kinds) serverSchema(gvk schema.GroupVersionKind) *spec.Schema {
	k.mu.RLock()
	s, ok := k.typed[gvk]
	k.mu.RUnlock()
	if ok {
		return s
	}
	s, err := k.schemas.ResolveSchema(gvk)
	if err != nil {
		return nil
	}
	k.mu.Lock()
	k.typed[gvk] = s
	k.mu.Unlock()
	return s
}
