package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"

	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// Resource is where the API server serves a kind.
type Resource struct {
	GVR        schema.GroupVersionResource
	Namespaced bool
}

// NoKindMatchError reports that no API server serves a kind.
type NoKindMatchError struct {
	Kind schema.GroupVersionKind
	// siblings are the kinds that the server lists in the same version, sorted; nil if it
	// does not list the version.
	siblings []string
	// Remedy says how the kind comes to be served; empty for the usual way.
	Remedy string
}

func (u *NoKindMatchError) Error() string {
	remedy := cmp.Or(u.Remedy, "it continues when the CustomResourceDefinition is installed")
	return fmt.Sprintf("no matches for kind %q in version %q; %s", u.Kind.Kind, u.Kind.GroupVersion(), remedy)
}

// undiscoveredError reports that the discovery of a version is not found although the cluster has the version. It does
// not wrap the answer, which would say that an object does not exist.
type undiscoveredError struct {
	kind   schema.GroupVersionKind
	answer string
}

func (u undiscoveredError) Error() string {
	return fmt.Sprintf("%s, although the cluster has %s: is there a proxy that does not reach the API server? It is retried", u.answer, u.kind.GroupVersion())
}

// IsNoKindMatch reports whether the error is a *NoKindMatchError.
func IsNoKindMatch(err error) bool {
	var u *NoKindMatchError
	return errors.As(err, &u)
}

// Resolve finds the resource that serves a kind. The error is a *NoKindMatchError if no
// server serves it. For a kind without a CustomResourceDefinition it requests discovery at
// most once, and not at all for a group that the server is known not to have.
func (k *Kinds) Resolve(ctx context.Context, gvk schema.GroupVersionKind) (Resource, error) {
	r, err := k.resolve(ctx, gvk)
	var u *NoKindMatchError
	if k.Remedy != nil && errors.As(err, &u) {
		if remedy := k.Remedy(gvk.GroupKind()); remedy != "" {
			return r, &NoKindMatchError{Kind: u.Kind, siblings: u.siblings, Remedy: remedy}
		}
	}
	return r, err
}

func (k *Kinds) resolve(ctx context.Context, gvk schema.GroupVersionKind) (Resource, error) {
	if c, ok := k.servingCRD(gvk); ok {
		return resourceFromCRD(c.CustomResourceDefinition, gvk)
	}
	k.mu.RLock()
	r, ok := k.builtin[gvk]
	absent, missing, epoch := k.isAbsent(gvk), k.missing[gvk], k.groups.epoch
	served := k.groups.hasOwnKinds(gvk.GroupVersion())
	k.mu.RUnlock()
	if ok {
		return r, nil
	}
	if absent {
		return Resource{}, &NoKindMatchError{Kind: gvk, siblings: missing.siblings}
	}
	r, err := k.discover(ctx, gvk, epoch)
	switch {
	case apierrors.IsNotFound(err) && served:
		err = undiscoveredError{gvk, err.Error()}
	case apierrors.IsNotFound(err):
		err = &NoKindMatchError{Kind: gvk}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case epoch != k.groups.epoch, k.wasDefined(gvk):
		// The cluster has changed during the request.
	case err == nil:
		k.builtin[gvk] = r
	case IsNoKindMatch(err):
		k.missing[gvk] = absentKind{at: k.now(), siblings: siblingsOf(err)}
	}
	return r, err
}

// These are the kinds that the version has instead of the requested one.
func siblingsOf(err error) []string {
	var u *NoKindMatchError
	if errors.As(err, &u) {
		return u.siblings
	}
	return nil
}

func resourceFromCRD(c *apiextensionsv1.CustomResourceDefinition, gvk schema.GroupVersionKind) (Resource, error) {
	serves := slices.ContainsFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == gvk.Version && v.Served
	})
	if !serves || !crd.IsEstablished(c) {
		return Resource{}, &NoKindMatchError{Kind: gvk}
	}
	return Resource{
		GVR:        gvk.GroupVersion().WithResource(c.Spec.Names.Plural),
		Namespaced: c.Spec.Scope == apiextensionsv1.NamespaceScoped,
	}, nil
}

// The error is NotFound if discovery lacks even the version of the group.
func (k *Kinds) discover(ctx context.Context, gvk schema.GroupVersionKind, epoch int) (Resource, error) {
	of := gvk.GroupVersion().String()
	list, err := doShared(ctx, &k.flights, fmt.Sprintf("resources of %s in %d", of, epoch), func() (*metav1.APIResourceList, error) {
		return k.discovery.ServerResourcesForGroupVersion(of)
	})
	if err != nil {
		return Resource{}, fmt.Errorf("look up %s: %w", gvk, err)
	}
	siblings := []string{}
	for _, r := range list.APIResources {
		switch {
		case strings.Contains(r.Name, "/"): // a subresource
		case r.Kind == gvk.Kind:
			return Resource{GVR: gvk.GroupVersion().WithResource(r.Name), Namespaced: r.Namespaced}, nil
		default:
			siblings = append(siblings, r.Kind)
		}
	}
	slices.Sort(siblings)
	return Resource{}, &NoKindMatchError{Kind: gvk, siblings: slices.Compact(siblings)}
}

// Availability reports whether a kind is served.
type Availability string

// Availabilities.
const (
	Served   Availability = "Served"
	Unserved Availability = "Unserved" // its objects exist, and cannot be read
	Gone     Availability = "Gone"     // no server serves it, and its objects are gone
)

// Availability returns the availability of a kind, given without a version as in an
// inventory, and the version to watch it in.
func (k *Kinds) Availability(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, Availability, error) {
	gvk, err := k.Preferred(ctx, gk)
	if err == nil {
		return gvk, Served, nil
	}
	if !IsNoKindMatch(err) {
		return gvk, "", err
	}
	if c, exists := k.CRD(gk); exists && len(c.Spec.Versions) > 0 {
		return gk.WithVersion(c.Spec.Versions[0].Name), Unserved, nil
	}
	return gvk, Gone, nil
}

// Preferred returns a served version of a kind.
func (k *Kinds) Preferred(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, error) {
	if c, ok := k.CRD(gk); ok {
		if gvk, err := k.firstServed(ctx, gk, k.builtInVersions(gk.Group)); !IsNoKindMatch(err) {
			return gvk, err
		}
		return preferredOfCRD(c, gk)
	}
	k.mu.RLock()
	versions, known := k.groups.versions(gk.Group)
	if !known {
		for gvk := range k.builtin {
			if gvk.GroupKind() == gk {
				versions = append(versions, gvk.Version)
			}
		}
	}
	k.mu.RUnlock()
	sortByStability(versions)
	if known || len(versions) > 0 {
		return k.firstServed(ctx, gk, versions)
	}
	return k.preferredByDiscovery(ctx, gk)
}

func sortByStability(versions []string) {
	slices.SortFunc(versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
}

// It is the kind in the stored version of its CustomResourceDefinition if that is served, or else in the first served
// one.
func preferredOfCRD(c *apiextensionsv1.CustomResourceDefinition, gk schema.GroupKind) (schema.GroupVersionKind, error) {
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
	return schema.GroupVersionKind{}, &NoKindMatchError{Kind: gk.WithVersion("")}
}

// If a version cannot be looked up, that is an error, not the answer that no version serves it.
func (k *Kinds) firstServed(ctx context.Context, gk schema.GroupKind, versions []string) (schema.GroupVersionKind, error) {
	for _, v := range versions {
		gvk := gk.WithVersion(v)
		if _, err := k.Resolve(ctx, gvk); err == nil {
			return gvk, nil
		} else if !IsNoKindMatch(err) {
			return schema.GroupVersionKind{}, err
		}
	}
	return schema.GroupVersionKind{}, &NoKindMatchError{Kind: gk.WithVersion("")}
}

// preferredByDiscovery reads the versions of a group from discovery. A version may have the kind while its aggregated
// API server is down: an error, not the answer that no version serves it.
func (k *Kinds) preferredByDiscovery(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, error) {
	group, down, err := k.group(ctx, gk.Group)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("look up group %q: %w", gk.Group, err)
	}
	var versions []string
	if group != nil {
		for _, v := range group.Versions {
			versions = append(versions, v.Version)
		}
		if len(versions) == 0 && down == nil {
			down = errors.New("discovery lists it without versions")
		}
	}
	gvk, err := k.firstServed(ctx, gk, versions)
	if IsNoKindMatch(err) && down != nil {
		err = fmt.Errorf("look up group %q: %w", gk.Group, down)
	}
	return gvk, err
}

// The result is nil if discovery lists no such group. down is why a version of it is missing from the list.
func (k *Kinds) group(ctx context.Context, name string) (group *metav1.APIGroup, down, err error) {
	all, err := doShared(ctx, &k.flights, "groups", k.allGroups)
	if err != nil {
		return nil, nil, err
	}
	for gv, why := range all.failed {
		if gv.Group == name {
			down = why
		}
	}
	for i := range all.list.Groups {
		if all.list.Groups[i].Name == name {
			return &all.list.Groups[i], down, nil
		}
	}
	return nil, down, nil
}

type allGroups struct {
	list   *metav1.APIGroupList
	failed map[schema.GroupVersion]error
}

func (k *Kinds) allGroups() (all allGroups, err error) {
	if aggregated, ok := k.discovery.(discovery.AggregatedDiscoveryInterface); ok {
		all.list, _, all.failed, err = aggregated.GroupsAndMaybeResources()
	} else {
		all.list, err = k.discovery.ServerGroups()
	}
	return all, err
}
