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

// Kinds knows which kinds there are. Those of CustomResourceDefinitions are told
// by Observe as they come, change and go, and cost no request; others are looked
// up once. It is safe for concurrent use.
type Kinds struct {
	discovery discovery.DiscoveryInterface
	schemas   resolver.SchemaResolver
	flights   singleflight.Group // lookups under way
	now       func() time.Time

	mu     sync.RWMutex
	custom map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition
	// seen is how far the watch of CustomResourceDefinitions is: what it is past
	// and isn't in custom, is gone.
	seen uint64
	// defined are the kinds that have or had a CustomResourceDefinition. Of these
	// nobody else is asked: discovery lags behind, and would tell of a kind that
	// is gone with no event to tell the truth afterwards.
	defined map[schema.GroupKind]bool
	// groups are the versions of groups that the server has, if it tells.
	groups groups
	// builtin and typed hold answers of the server about kinds without a
	// CustomResourceDefinition, missing that it has none.
	builtin map[schema.GroupVersionKind]Resource
	typed   map[schema.GroupVersionKind]*spec.Schema
	missing map[schema.GroupVersionKind]absence
}

// absence is when the server said that it doesn't have a kind, and which others it has in
// that version.
type absence struct {
	at       time.Time
	siblings []string
}

// NewKinds returns an empty Kinds.
func NewKinds(d discovery.DiscoveryInterface) *Kinds {
	return &Kinds{
		discovery: d,
		schemas:   &resolver.ClientDiscoveryResolver{Discovery: d},
		now:       time.Now,
		custom:    map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{},
		defined:   map[schema.GroupKind]bool{},
		builtin:   map[schema.GroupVersionKind]Resource{},
		typed:     map[schema.GroupVersionKind]*spec.Schema{},
		missing:   map[schema.GroupVersionKind]absence{},
	}
}

// CRDChange is what a CustomResourceDefinition says that wasn't known before.
type CRDChange int

// News, in order of weight.
const (
	CRDUnchanged     CRDChange = iota
	CRDStatusChanged           // it is another's, or the API server has another thing to say of it
	CRDSpecChanged             // the kind is another, or is served otherwise
)

// Observe takes note of a CustomResourceDefinition as it is now, and reports
// what that changes.
func (k *Kinds) Observe(c *apiextensionsv1.CustomResourceDefinition) CRDChange {
	gk := schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = max(k.seen, revisionOf(c))
	return k.observe(gk, c)
}

// Record takes note of the answer to a write, which the watch may have overtaken,
// and reports what that changes.
func (k *Kinds) Record(c *apiextensionsv1.CustomResourceDefinition) CRDChange {
	gk := schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
	k.mu.Lock()
	defer k.mu.Unlock()
	if revisionOf(c) <= k.seen {
		return CRDUnchanged
	}
	return k.observe(gk, c)
}

func (k *Kinds) observe(gk schema.GroupKind, c *apiextensionsv1.CustomResourceDefinition) CRDChange {
	k.define(gk)
	old, had := k.custom[gk]
	if had && old.Name != c.Name && crd.Established(old) {
		return CRDUnchanged // two claim the kind; the one that serves it counts
	}
	if had && old.UID == c.UID && revisionOf(c) < revisionOf(old) {
		return CRDUnchanged // the answer to a write of ours was faster
	}
	k.custom[gk] = c
	if !had {
		return CRDSpecChanged
	}
	wasOwner, wasOurs := crd.Owner(old)
	isOwner, isOurs := crd.Owner(c)
	switch {
	case old.UID != c.UID, old.Generation != c.Generation, crd.Established(old) != crd.Established(c), wasOurs != isOurs:
		return CRDSpecChanged
	case wasOwner != isOwner, controllerOf(old) != controllerOf(c), !sameRemarks(old, c):
		return CRDStatusChanged
	}
	return CRDUnchanged
}

// controllerOf is the UID of what controls a CustomResourceDefinition, if anything does.
func controllerOf(c *apiextensionsv1.CustomResourceDefinition) types.UID {
	if owner := metav1.GetControllerOfNoCopy(c); owner != nil {
		return owner.UID
	}
	return ""
}

// sameRemarks tells whether the conditions of two say the same.
func sameRemarks(a, b *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.EqualFunc(a.Status.Conditions, b.Status.Conditions, func(x, y apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message
	})
}

// revisionOf returns a revision as a number, which the API documents it to be; 0
// if it isn't.
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

// define remembers that a kind is a CustomResourceDefinition's, and forgets what
// discovery said of it before.
func (k *Kinds) define(gk schema.GroupKind) {
	if k.defined[gk] {
		return
	}
	k.defined[gk] = true
	k.renounce(func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == gk })
}

// renounce forgets what discovery said of kinds. The lock is held.
func (k *Kinds) renounce(which func(schema.GroupVersionKind) bool) {
	maps.DeleteFunc(k.builtin, func(gvk schema.GroupVersionKind, _ Resource) bool { return which(gvk) })
	maps.DeleteFunc(k.typed, func(gvk schema.GroupVersionKind, _ *spec.Schema) bool { return which(gvk) })
	maps.DeleteFunc(k.missing, func(gvk schema.GroupVersionKind, _ absence) bool { return which(gvk) })
}

// Forget takes note that a CustomResourceDefinition is gone, and reports whether
// it was the one that served its kind: of two that claim a kind the end of the
// other is not the kind's.
func (k *Kinds) Forget(c *apiextensionsv1.CustomResourceDefinition) (served bool) {
	gk := schema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = max(k.seen, revisionOf(c))
	k.define(gk)
	old, ok := k.custom[gk]
	if !ok || old.Name != c.Name || old.UID != c.UID {
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
func (k *Kinds) OwnedBy(owner object.Definition) []*apiextensionsv1.CustomResourceDefinition {
	return k.Where(func(c *apiextensionsv1.CustomResourceDefinition) bool { return crd.BelongsTo(c, owner) })
}

// Where lists the CustomResourceDefinitions of which something is so, sorted by name.
// They are shared and must not be changed.
func (k *Kinds) Where(so func(*apiextensionsv1.CustomResourceDefinition) bool) []*apiextensionsv1.CustomResourceDefinition {
	k.mu.RLock()
	defer k.mu.RUnlock()
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, c := range k.custom {
		if so(c) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Terminating tells whether a kind is on its way out: its objects are being
// deleted, and no new ones are accepted.
func (k *Kinds) Terminating(gk schema.GroupKind) bool {
	c, ok := k.CRD(gk)
	return ok && c.DeletionTimestamp != nil
}
