package kube

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// Kinds knows the kinds of a cluster. ObserveCRD and ForgetCRD report the kinds of CustomResourceDefinitions, which
// cost no request; discovery looks up each other kind once. It is safe for concurrent use.
type Kinds struct {
	// Remedy says how to get an unserved kind served; empty for the usual, to install its CustomResourceDefinition. It
	// is optional, and must not be changed once Kinds is used.
	Remedy func(schema.GroupKind) string

	discovery discovery.DiscoveryInterface
	schemas   resolver.SchemaResolver
	flights   singleflight.Group // lookups in flight
	now       func() time.Time

	mu   sync.RWMutex
	crds map[schema.GroupKind]*crd.Stored
	// crdSchemas contains only schemas that were looked up.
	crdSchemas map[schema.GroupVersionKind]crdSchema
	// observedRevision is how far the watch of CustomResourceDefinitions has come: a
	// definition up to this revision that is not in crds is gone.
	observedRevision uint64
	// defined are the versions of kinds that a CustomResourceDefinition has or had, with the time when one was last
	// observed to have them. Discovery lags behind and may list one that is gone, and no event would correct that.
	defined map[schema.GroupVersionKind]time.Time
	// groups are the versions of groups that the server has, if APIServices can be watched.
	groups groups
	// builtin and openAPI cache discovery of kinds without a CustomResourceDefinition;
	// missing caches that a kind does not exist.
	builtin map[schema.GroupVersionKind]Resource
	openAPI map[schema.GroupVersionKind]*spec.Schema
	missing map[schema.GroupVersionKind]absentKind
}

// absentKind is when discovery last reported that a kind does not exist, and which kinds its
// version has instead.
type absentKind struct {
	at       time.Time
	siblings []string
}

// NewKinds returns an empty Kinds.
func NewKinds(d discovery.DiscoveryInterface) *Kinds {
	return &Kinds{
		discovery:  d,
		schemas:    &resolver.ClientDiscoveryResolver{Discovery: d},
		now:        time.Now,
		crds:       map[schema.GroupKind]*crd.Stored{},
		crdSchemas: map[schema.GroupVersionKind]crdSchema{},
		defined:    map[schema.GroupVersionKind]time.Time{},
		builtin:    map[schema.GroupVersionKind]Resource{},
		openAPI:    map[schema.GroupVersionKind]*spec.Schema{},
		missing:    map[schema.GroupVersionKind]absentKind{},
	}
}

// CRDChange is how a CustomResourceDefinition differs from the one known before.
type CRDChange int

// Changes, by increasing weight.
const (
	CRDUnchanged     CRDChange = iota
	CRDStatusChanged           // its owner or its conditions changed
	CRDSpecChanged             // its kind is new, or is served differently
)

// ObserveCRD records a CustomResourceDefinition that the watch delivered, and returns what
// changed.
func (k *Kinds) ObserveCRD(c *crd.Stored) CRDChange {
	gk := schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.observedRevision = max(k.observedRevision, revisionOf(c.CustomResourceDefinition))
	return k.observe(gk, c)
}

// RecordCRD records the answer to a write, which the watch may have overtaken, and returns
// what changed.
func (k *Kinds) RecordCRD(written *apiextensionsv1.CustomResourceDefinition) CRDChange {
	c := crd.Keep(written)
	gk := schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
	k.mu.Lock()
	defer k.mu.Unlock()
	if revisionOf(written) <= k.observedRevision {
		return CRDUnchanged
	}
	return k.observe(gk, c)
}

func (k *Kinds) observe(gk schema.GroupKind, c *crd.Stored) CRDChange {
	k.markDefined(gk, c.CustomResourceDefinition)
	old, had := k.crds[gk]
	if had && old.Name != c.Name && crd.IsEstablished(old.CustomResourceDefinition) {
		return CRDUnchanged // two definitions claim the kind; the established one counts
	}
	if had && old.UID == c.UID && revisionOf(c.CustomResourceDefinition) < revisionOf(old.CustomResourceDefinition) {
		return CRDUnchanged // the answer to our write came before this event
	}
	k.crds[gk] = c
	if !had {
		return CRDSpecChanged
	}
	return changeBetween(old.CustomResourceDefinition, c.CustomResourceDefinition)
}

func changeBetween(old, c *apiextensionsv1.CustomResourceDefinition) CRDChange {
	wasOwner, wasOurs := crd.Owner(old)
	isOwner, isOurs := crd.Owner(c)
	switch {
	case old.UID != c.UID, old.Generation != c.Generation, crd.IsEstablished(old) != crd.IsEstablished(c), wasOurs != isOurs:
		return CRDSpecChanged
	case wasOwner != isOwner, controllerOf(old) != controllerOf(c), !sameConditions(old, c):
		return CRDStatusChanged
	}
	return CRDUnchanged
}

func controllerOf(c *apiextensionsv1.CustomResourceDefinition) types.UID {
	if owner := metav1.GetControllerOfNoCopy(c); owner != nil {
		return owner.UID
	}
	return ""
}

// Their times are ignored.
func sameConditions(a, b *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, func(x, y apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message
	})
}

// The API documents resource versions as numbers. It is 0 if it is none.
func revisionOf(c *apiextensionsv1.CustomResourceDefinition) uint64 {
	return parseRevision(c.ResourceVersion)
}

func parseRevision(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// markDefined records the versions that a CustomResourceDefinition has, and drops what is cached from discovery of its kind. A
// version that it does not have may be built into the API server.
func (k *Kinds) markDefined(gk schema.GroupKind, c *apiextensionsv1.CustomResourceDefinition) {
	_, exists := k.crds[gk]
	isNew := !exists
	for i := range c.Spec.Versions {
		gvk := gk.WithVersion(c.Spec.Versions[i].Name)
		_, known := k.defined[gvk]
		isNew = isNew || !known
		k.defined[gvk] = k.now()
	}
	if isNew {
		k.dropDiscovered(func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == gk })
	}
}

// The lock is held.
func (k *Kinds) dropDiscovered(which func(schema.GroupVersionKind) bool) {
	maps.DeleteFunc(k.builtin, func(gvk schema.GroupVersionKind, _ Resource) bool { return which(gvk) })
	maps.DeleteFunc(k.openAPI, func(gvk schema.GroupVersionKind, _ *spec.Schema) bool { return which(gvk) })
	maps.DeleteFunc(k.missing, func(gvk schema.GroupVersionKind, _ absentKind) bool { return which(gvk) })
}

// ForgetCRD records that a CustomResourceDefinition is gone, and reports whether it served
// its kind: if two definitions claim a kind, the deletion of the other one does not end the
// kind.
func (k *Kinds) ForgetCRD(c *apiextensionsv1.CustomResourceDefinition) (served bool) {
	gk := schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.observedRevision = max(k.observedRevision, revisionOf(c))
	k.markDefined(gk, c)
	old, ok := k.crds[gk]
	if !ok || old.Name != c.Name || old.UID != c.UID {
		return false
	}
	delete(k.crds, gk)
	maps.DeleteFunc(k.crdSchemas, func(gvk schema.GroupVersionKind, _ crdSchema) bool { return gvk.GroupKind() == gk })
	return true
}

// CRD returns the CustomResourceDefinition of a kind, as last observed, without its schemas and managed fields. It is
// shared and must not be changed.
func (k *Kinds) CRD(gk schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool) {
	c, ok := k.storedCRD(gk)
	if !ok {
		return nil, false
	}
	return c.CustomResourceDefinition, true
}

// WholeCRD is CRD with the schemas and managed fields. It may have to decode them.
func (k *Kinds) WholeCRD(gk schema.GroupKind) (*apiextensionsv1.CustomResourceDefinition, bool) {
	c, ok := k.storedCRD(gk)
	if !ok {
		return nil, false
	}
	return c.Whole(), true
}

// servingCRD returns the CustomResourceDefinition of a kind if it decides whether a version of the kind is served: it
// does not for versions that are built into the API server.
func (k *Kinds) servingCRD(gvk schema.GroupVersionKind) (*crd.Stored, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	c, ok := k.crds[gvk.GroupKind()]
	if !ok || k.groups.server[gvk.GroupVersion()] == BuiltIn {
		return nil, false
	}
	if !k.groups.complete && object.IsKubernetesGroup(gvk.Group) && !hasVersion(c.CustomResourceDefinition, gvk.Version) {
		return nil, false // discovery reports whether it is built in
	}
	return c, true
}

func hasVersion(c *apiextensionsv1.CustomResourceDefinition, version string) bool {
	return slices.ContainsFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
}

func (k *Kinds) storedCRD(gk schema.GroupKind) (*crd.Stored, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	c, ok := k.crds[gk]
	return c, ok
}

// CRDsOwnedBy returns the CustomResourceDefinitions of a definition as CRD does, sorted by name.
func (k *Kinds) CRDsOwnedBy(owner object.Definition) []*apiextensionsv1.CustomResourceDefinition {
	return k.ListCRDs(func(c *apiextensionsv1.CustomResourceDefinition) bool { return crd.BelongsTo(c, owner) })
}

// ListCRDs returns the CustomResourceDefinitions that match as CRD does, sorted by name.
func (k *Kinds) ListCRDs(matches func(*apiextensionsv1.CustomResourceDefinition) bool) []*apiextensionsv1.CustomResourceDefinition {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, c := range k.crds {
		if matches(c.CustomResourceDefinition) {
			out = append(out, c.CustomResourceDefinition)
		}
	}
	slices.SortFunc(out, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// IsTerminating reports whether a kind is being deleted: its objects are being deleted, and new ones are rejected.
func (k *Kinds) IsTerminating(gk schema.GroupKind) bool {
	c, ok := k.CRD(gk)
	return ok && c.DeletionTimestamp != nil
}
