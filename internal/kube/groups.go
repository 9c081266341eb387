package kube

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// groups are the versions of groups that a server has, as its APIServices name
// them: an event for each that comes or goes, so that nobody has to ask again and
// again.
type groups struct {
	// known says that all are here. A server without APIServices, or one that
	// doesn't show them to us, is asked instead.
	known bool
	// server tells for each version who serves it.
	server map[schema.GroupVersion]Server
	// epoch grows with each change: what was asked in one isn't true in another.
	epoch int
}

// Server is who serves a version of a group, and with it, how the version may get kinds.
type Server int

// Servers.
const (
	// Aggregated: an API server of its own, which may get new kinds with no event.
	Aggregated Server = iota
	// CustomResources: the API server, for CustomResourceDefinitions, each of which is an
	// event; or it doesn't say what for.
	CustomResources
	// BuiltIn: the API server, for kinds that it is built with. It serves no
	// CustomResourceDefinition in such a version, and so gets no kind before another release
	// of it is installed.
	BuiltIn
)

// isLocal says whether the API server serves it itself.
func (s Server) isLocal() bool { return s != Aggregated }

// aggregated tells whether a server of its own serves a version of a group.
func (g *groups) aggregated(gv schema.GroupVersion) bool {
	server, there := g.server[gv]
	return there && server == Aggregated
}

// The label by which the API server tells why it has registered a version of a group: since
// it is built with it, as it finds out when it starts, or since there are
// CustomResourceDefinitions.
const (
	registeredLabel = "kube-aggregator.kubernetes.io/automanaged"
	registeredBuilt = "onstart"
)

// ServerOf reads from an APIService who serves its version of a group.
func ServerOf(apiService *unstructured.Unstructured) Server {
	if _, elsewhere, _ := unstructured.NestedFieldNoCopy(apiService.Object, "spec", "service"); elsewhere {
		return Aggregated
	}
	if apiService.GetLabels()[registeredLabel] == registeredBuilt {
		return BuiltIn
	}
	return CustomResources
}

// versions are those of a group; false if it isn't known which there are.
func (g *groups) versions(group string) (versions []string, known bool) {
	for gv := range g.server {
		if gv.Group == group {
			versions = append(versions, gv.Version)
		}
	}
	return versions, g.known
}

// How long it is believed that the server doesn't have a kind: where no event
// would tell of its arrival, where a server of its own may get new kinds without
// one, and where the API server itself may be replaced by a newer one.
const (
	untold  = 10 * time.Second
	foreign = time.Minute
	atHome  = BuiltInAge
)

// BuiltInAge is how old an answer about the kinds that the API server is built with may be.
const BuiltInAge = 10 * time.Minute

// absent tells whether the server is known not to have a kind that has no
// CustomResourceDefinition. The lock is held.
func (k *Kinds) absent(gvk schema.GroupVersionKind) bool {
	gv := gvk.GroupVersion()
	server, there := k.groups.server[gv]
	local := there && server.isLocal()
	said, missing := k.missing[gvk]
	switch {
	case k.groups.known && !there:
		return true
	case k.defined[gvk.GroupKind()] && (local || !k.groups.known):
		// Discovery lags behind, and would tell of a kind that is gone with no
		// event to tell the truth afterwards.
		return true
	case !missing:
		return false
	}
	while := foreign
	switch {
	case !k.groups.known:
		while = untold
	case local:
		while = atHome
	}
	return k.now().Sub(said.at) < while
}

// ObserveGroup takes note of who serves a version of a group, and reports whether what is
// known of its kinds may no longer be true.
func (k *Kinds) ObserveGroup(gv schema.GroupVersion, by Server) (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if was, there := k.groups.server[gv]; there && was == by && by.isLocal() {
		return false // it says how its own servers fare, and nothing of kinds
	}
	if k.groups.server == nil {
		k.groups.server = map[schema.GroupVersion]Server{}
	}
	k.groups.server[gv] = by
	k.groups.epoch++
	k.renounce(func(gvk schema.GroupVersionKind) bool { return gvk.GroupVersion() == gv })
	return true
}

// ForgetGroup takes note that the server no longer has a version of a group.
func (k *Kinds) ForgetGroup(gv schema.GroupVersion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.groups.server, gv)
	k.groups.epoch++
	k.renounce(func(gvk schema.GroupVersionKind) bool { return gvk.GroupVersion() == gv })
}

// GroupsKnown takes note of whether all versions of groups have been observed.
func (k *Kinds) GroupsKnown(known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.groups.known = known
}

// GroupVersionOf reads the version of a group from the name of its APIService:
// "v1.apps", and "v1." for the group without a name.
func GroupVersionOf(apiService string) schema.GroupVersion {
	version, group, _ := strings.Cut(apiService, ".")
	return schema.GroupVersion{Group: group, Version: version}
}

// ask makes a request that others may be making already, and waits for its answer
// for as long as the context allows. The request itself is bounded by its client.
func ask[T any](ctx context.Context, flights *singleflight.Group, what string, do func() (T, error)) (T, error) {
	var none T
	select {
	case answer := <-flights.DoChan(what, func() (any, error) { return do() }):
		if answer.Err != nil {
			return none, answer.Err
		}
		found, _ := answer.Val.(T)
		return found, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
