package kube

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// groups are the API group versions of a server, as its APIServices list them. Each that comes or goes is an event, so
// no polling is needed.
type groups struct {
	// complete says that all group versions are here. A server without APIServices, or one
	// that forbids us to list them, is polled instead.
	complete bool
	// server is how each version is served.
	server map[schema.GroupVersion]Server
	// epoch grows with each change. An answer that was requested in an earlier epoch is not
	// cached.
	epoch int
}

// Server is how a version of a group is served, and so how it may get new kinds.
type Server int

// Ways to serve a version of a group.
const (
	// Aggregated: by an aggregated API server, which may get new kinds without an event.
	Aggregated Server = iota
	// CustomResources: by the API server for CustomResourceDefinitions, each one an event, or without a stated purpose.
	CustomResources
	// BuiltIn: by the API server for kinds that it is built with. It serves no
	// CustomResourceDefinition in such a version, and gets no new kind before it is
	// upgraded.
	BuiltIn
)

func (s Server) isLocal() bool { return s != Aggregated }

// hasOwnKinds reports whether a version of a group is known to have kinds without a CustomResourceDefinition. That it
// is not found is then the answer of something else than its server.
func (g *groups) hasOwnKinds(gv schema.GroupVersion) bool {
	server, there := g.server[gv]
	return there && server != CustomResources
}

// The label that says why the API server registered a version of a group: at its start, for a
// built-in version, or for CustomResourceDefinitions.
const (
	automanagedLabel   = "kube-aggregator.kubernetes.io/automanaged"
	automanagedOnStart = "onstart"
)

// ServerOf returns how the version of an APIService is served.
func ServerOf(apiService *unstructured.Unstructured) Server {
	if _, elsewhere, _ := unstructured.NestedFieldNoCopy(apiService.Object, "spec", "service"); elsewhere {
		return Aggregated
	}
	if apiService.GetLabels()[automanagedLabel] == automanagedOnStart {
		return BuiltIn
	}
	return CustomResources
}

// known reports whether these are all.
func (g *groups) versions(group string) (versions []string, known bool) {
	for gv := range g.server {
		if gv.Group == group {
			versions = append(versions, gv.Version)
		}
	}
	return versions, g.complete
}

// For how long the answer that a kind does not exist is cached: where APIServices cannot be
// watched, in a group of an aggregated API server, which may get new kinds without an event,
// and in a group of the API server itself, which may be upgraded.
const (
	absentTTLUnobserved = 10 * time.Second
	absentTTLAggregated = time.Minute
	absentTTLBuiltIn    = BuiltInCacheTTL
)

// BuiltInCacheTTL is the maximum age of a cached answer about kinds that the API server is
// built with.
const BuiltInCacheTTL = 10 * time.Minute

// isAbsent reports whether a kind without a CustomResourceDefinition is known not to exist. The lock is held.
func (k *Kinds) isAbsent(gvk schema.GroupVersionKind) bool {
	gv := gvk.GroupVersion()
	server, there := k.groups.server[gv]
	local := there && server.isLocal()
	absent, missing := k.missing[gvk]
	switch {
	case k.groups.complete && !there:
		return true
	case k.wasDefined(gvk):
		return true
	case !missing:
		return false
	}
	ttl := absentTTLAggregated
	switch {
	case !k.groups.complete:
		ttl = absentTTLUnobserved
	case local:
		ttl = absentTTLBuiltIn
	}
	return k.now().Sub(absent.at) < ttl
}

// wasDefined reports whether a CustomResourceDefinition had a version of a kind that only a CustomResourceDefinition can bring
// back, which is an event: discovery may still list it. Where APIServices cannot be watched, another server may serve it later:
// the kind is looked up again when discovery has caught up. The lock is held.
func (k *Kinds) wasDefined(gvk schema.GroupVersionKind) bool {
	at, defined := k.defined[gvk]
	if !defined || k.groups.hasOwnKinds(gvk.GroupVersion()) {
		return false
	}
	return k.groups.complete || k.now().Sub(at) < absentTTLUnobserved
}

// The most stable one comes first.
func (k *Kinds) builtInVersions(group string) (versions []string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for gv, server := range k.groups.server {
		if gv.Group == group && server == BuiltIn {
			versions = append(versions, gv.Version)
		}
	}
	sortByStability(versions)
	return versions
}

// OtherServer returns a version of a group that the API server serves with built-in kinds, or that an aggregated API server
// serves; empty if all known versions are of CustomResourceDefinitions.
func (k *Kinds) OtherServer(group string) (version string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for gv, server := range k.groups.server {
		if gv.Group == group && server != CustomResources && (version == "" || gv.Version < version) {
			version = gv.Version
		}
	}
	return version
}

// MayBeBuiltIn reports whether kinds of a group may be built into the API server, so the deletion of a
// CustomResourceDefinition does not mean that no version of its kind is served.
func (k *Kinds) MayBeBuiltIn(group string) bool {
	k.mu.RLock()
	complete := k.groups.complete
	k.mu.RUnlock()
	return len(k.builtInVersions(group)) > 0 || !complete && object.IsKubernetesGroup(group)
}

// ObserveGroup records how a version of a group is served, and reports whether what is cached of its kinds might be
// outdated.
func (k *Kinds) ObserveGroup(gv schema.GroupVersion, by Server) (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, there := k.groups.server[gv]; there && known == by && by.isLocal() {
		return false // the event is about the APIService's status, not about kinds
	}
	if k.groups.server == nil {
		k.groups.server = map[schema.GroupVersion]Server{}
	}
	k.groups.server[gv] = by
	k.groups.epoch++
	k.dropDiscovered(func(gvk schema.GroupVersionKind) bool { return gvk.GroupVersion() == gv })
	return true
}

// ForgetGroup records that the server no longer has a version of a group.
func (k *Kinds) ForgetGroup(gv schema.GroupVersion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.groups.server, gv)
	k.groups.epoch++
	k.dropDiscovered(func(gvk schema.GroupVersionKind) bool { return gvk.GroupVersion() == gv })
}

// SetGroupsComplete records whether all versions of groups have been observed.
func (k *Kinds) SetGroupsComplete(known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.groups.complete = known
}

// GroupVersionOf returns the group version of an APIService by its name: "v1.apps", or
// "v1." for the core group.
func GroupVersionOf(apiService string) schema.GroupVersion {
	version, group, _ := strings.Cut(apiService, ".")
	return schema.GroupVersion{Group: group, Version: version}
}

// doShared makes a request, or joins one for the same key that is in flight, and waits for
// the answer until the context ends. The client of the request bounds its duration.
func doShared[T any](ctx context.Context, flights *singleflight.Group, key string, do func() (T, error)) (T, error) {
	var none T
	select {
	case answer := <-flights.DoChan(key, func() (any, error) { return do() }):
		if answer.Err != nil {
			return none, answer.Err
		}
		found, _ := answer.Val.(T)
		return found, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
