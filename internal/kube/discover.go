package kube

import (
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

// Resource is how a kind is served.
type Resource struct {
	GVR        schema.GroupVersionResource
	Namespaced bool
}

// Unavailable is the error for a kind that no server knows.
type Unavailable struct {
	Kind schema.GroupVersionKind
	// siblings are, sorted, the kinds that the server lists in its version; nil if it lists
	// no such version.
	siblings []string
}

func (u *Unavailable) Error() string {
	return fmt.Sprintf("the server knows no kind %s in %s; it continues when its CustomResourceDefinition is installed", u.Kind.Kind, u.Kind.GroupVersion())
}

// IsUnavailable says whether the error is that no server knows the kind.
func IsUnavailable(err error) bool {
	var u *Unavailable
	return errors.As(err, &u)
}

// Resolve finds the resource that serves a kind. A kind that no server knows is
// an *Unavailable. It asks the server at most once about kinds without a
// CustomResourceDefinition, and not at all about groups that the server is known
// not to have.
func (k *Kinds) Resolve(ctx context.Context, gvk schema.GroupVersionKind) (Resource, error) {
	if c, ok := k.CRD(gvk.GroupKind()); ok {
		return fromCRD(c, gvk)
	}
	k.mu.RLock()
	r, ok := k.builtin[gvk]
	absent, said, epoch := k.absent(gvk), k.missing[gvk], k.groups.epoch
	k.mu.RUnlock()
	if ok {
		return r, nil
	}
	if absent {
		return Resource{}, &Unavailable{Kind: gvk, siblings: said.siblings}
	}
	r, err := k.discover(ctx, gvk, epoch)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case epoch != k.groups.epoch, k.defined[gvk.GroupKind()] && !k.groups.aggregated(gvk.GroupVersion()):
		// The world has changed while the server was asked.
	case err == nil:
		k.builtin[gvk] = r
	case IsUnavailable(err):
		k.missing[gvk] = absence{at: k.now(), siblings: siblingsOf(err)}
	}
	return r, err
}

// siblingsOf are the kinds that a version has without the one that was asked for.
func siblingsOf(err error) []string {
	var u *Unavailable
	if errors.As(err, &u) {
		return u.siblings
	}
	return nil
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

func (k *Kinds) discover(ctx context.Context, gvk schema.GroupVersionKind, epoch int) (Resource, error) {
	of := gvk.GroupVersion().String()
	list, err := ask(ctx, &k.flights, fmt.Sprintf("resources of %s in %d", of, epoch), func() (*metav1.APIResourceList, error) {
		return k.discovery.ServerResourcesForGroupVersion(of)
	})
	if apierrors.IsNotFound(err) {
		return Resource{}, &Unavailable{Kind: gvk}
	}
	if err != nil {
		return Resource{}, fmt.Errorf("look up %s: %w", gvk, err)
	}
	siblings := []string{}
	for _, r := range list.APIResources {
		switch {
		case strings.Contains(r.Name, "/"): // a part of another
		case r.Kind == gvk.Kind:
			return Resource{GVR: gvk.GroupVersion().WithResource(r.Name), Namespaced: r.Namespaced}, nil
		default:
			siblings = append(siblings, r.Kind)
		}
	}
	slices.Sort(siblings)
	return Resource{}, &Unavailable{Kind: gvk, siblings: slices.Compact(siblings)}
}

// Availability is what has become of a kind.
type Availability string

// Standings.
const (
	Served   Availability = "Served"
	Unserved Availability = "Unserved" // it has objects that nobody can read
	Gone     Availability = "Gone"     // no server knows it, and its objects are gone with it
)

// Availability tells what there is of a kind that is known by group and kind alone,
// as an inventory names it, and the version to watch it in.
func (k *Kinds) Availability(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, Availability, error) {
	gvk, err := k.Preferred(ctx, gk)
	if err == nil {
		return gvk, Served, nil
	}
	if !IsUnavailable(err) {
		return gvk, "", err
	}
	if c, exists := k.CRD(gk); exists && len(c.Spec.Versions) > 0 {
		return gk.WithVersion(c.Spec.Versions[0].Name), Unserved, nil
	}
	return gvk, Gone, nil
}

// Preferred returns a served version of a kind that is known by group and kind
// alone.
func (k *Kinds) Preferred(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, error) {
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
	versions, known := k.groups.versions(gk.Group)
	if !known {
		for gvk := range k.builtin {
			if gvk.GroupKind() == gk {
				versions = append(versions, gvk.Version)
			}
		}
	}
	absent := !known && k.defined[gk]
	k.mu.RUnlock()
	slices.SortFunc(versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	if known || len(versions) > 0 {
		return k.firstOf(ctx, gk, versions)
	}
	if absent {
		return schema.GroupVersionKind{}, &Unavailable{Kind: gk.WithVersion("")}
	}
	return k.preferredByDiscovery(ctx, gk)
}

// firstOf returns the kind in the first of the versions that it is served in. That
// one of them can't be asked is a failure, and not the answer that there is none.
func (k *Kinds) firstOf(ctx context.Context, gk schema.GroupKind, versions []string) (schema.GroupVersionKind, error) {
	for _, v := range versions {
		gvk := gk.WithVersion(v)
		if _, err := k.Resolve(ctx, gvk); err == nil {
			return gvk, nil
		} else if !IsUnavailable(err) {
			return schema.GroupVersionKind{}, err
		}
	}
	return schema.GroupVersionKind{}, &Unavailable{Kind: gk.WithVersion("")}
}

// preferredByDiscovery asks the server which versions a group has. One whose own
// server is down may well have the kind: that is a failure, and not the answer
// that there is none.
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
			down = errors.New("it is listed without versions")
		}
	}
	gvk, err := k.firstOf(ctx, gk, versions)
	if IsUnavailable(err) && down != nil {
		err = fmt.Errorf("look up group %q: %w", gk.Group, down)
	}
	return gvk, err
}

// group returns a group as the server lists it, nil if it lists none, and why a
// version of it is missing from that.
func (k *Kinds) group(ctx context.Context, name string) (group *metav1.APIGroup, down, err error) {
	all, err := ask(ctx, &k.flights, "groups", k.allGroups)
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
