package definition

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/espalier-dev/espalier/internal/serving"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/object"
)

// Registry is what is known of all definitions of graphs. It is safe for concurrent use.
type Registry struct {
	*serving.Registry[*memory]
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{serving.NewRegistry(func() *memory {
		return &memory{compiled: compilations{own: &compilation{}, revisions: map[int64]*compilation{}}}
	})}
}

// memory is what is kept of one definition between reconciles. It belongs to the reconciles of the definition, but for
// review.user and review.reported, which the registry guards.
type memory struct {
	// running is the controller of the instances, with its reconciler, when it was started, and by whose rights.
	running   serving.Running
	instances *instance.Reconciler
	startedAt time.Time
	account   Account
	// composers compose the instances; nil while there is no good graph.
	composers *composers

	compiled compilations
	cache    revisionCache
	// pins are the revisions that instances ask for themselves.
	pins    pins
	review  reviewMemory
	rollout rolloutMemory
	// migration is of instances that may be stored in a version that isn't stored any
	// more; nil for none.
	migration *migration
}

// compilations are what was compiled for a definition.
type compilations struct {
	// own is of the definition as it is, where that is no revision, and revisions are of the revisions that were needed.
	own       *compilation
	revisions map[int64]*compilation
	// published is that by which the kind was last published, where no revision is kept of it.
	published compilation
}

// reviewMemory is what is known of rights.
type reviewMemory struct {
	// user is as whom the instances are looked after, and reported what was missing for that.
	user     string
	reported permissions
	// needs is the digest of what was last asked for, and missing what of it is not granted.
	needs   string
	missing permissions
	backoff reviewBackoff
	// grants is the state of what lets the controllers impersonate the account, and confirmAt when to
	// ask again since that has changed.
	grants    string
	confirmAt time.Time
	// message is what an event said last of what is missing.
	message string
}

// rolloutMemory is what is known of a rollout.
type rolloutMemory struct {
	// waits says that it waits for instances, so that each that changes wakes the definition.
	waits atomic.Bool
	// reportedAt is when the status said last how many instances are updated, and countedAt when so many members were
	// counted.
	reportedAt, countedAt time.Time
	members               int
}

// setUses notes which kinds the definition's compilations looked up.
func (g *Registry) setUses(e *serving.Entry[*memory]) {
	var uses []schema.GroupKind
	for _, c := range append(slices.Collect(maps.Values(e.Memory.compiled.revisions)), e.Memory.compiled.own, &e.Memory.compiled.published) {
		for _, gvk := range c.kinds {
			if !slices.Contains(uses, gvk.GroupKind()) {
				uses = append(uses, gvk.GroupKind())
			}
		}
	}
	g.SetUses(e, uses)
}

// setPermissions notes by whose rights the definition's instances are looked after, and what
// is missing of them.
func (g *Registry) setPermissions(m *memory, user string, unmet permissions) {
	g.Update(func() { m.review.user, m.review.reported = user, unmet })
}

// ActingAs lists, sorted, the definitions whose instances are looked after by the rights of
// a user, or, for an empty name, of the controllers: all of them need these.
func (g *Registry) ActingAs(user string) []object.Key {
	return g.Where(func(_ object.Key, e *serving.Entry[*memory]) bool { return user == "" || e.Memory.review.user == user })
}

// Missing are rights that somebody needs for a definition and hasn't got.
type Missing struct {
	Definition object.Key
	// User is who that is; empty for the controllers.
	User  string
	Needs []rbac.Need
}

// Missing lists, sorted, which rights are missing.
func (g *Registry) Missing() []Missing {
	var out []Missing
	g.Where(func(key object.Key, entry *serving.Entry[*memory]) bool {
		e := entry.Memory
		for _, m := range []Missing{{key, e.review.user, e.review.reported.account}, {key, "", e.review.reported.controllers}} {
			if len(m.Needs) > 0 {
				out = append(out, m)
			}
		}
		return false
	})
	slices.SortFunc(out, func(a, b Missing) int { return cmp.Or(a.Definition.Compare(b.Definition), cmp.Compare(a.User, b.User)) })
	return out
}

// ownerKey is the key of the definition that a CustomResourceDefinition belongs
// to, if it is one's, for messages: where only a label tells the name, it may be
// shortened.
func ownerKey(c *apiextensionsv1.CustomResourceDefinition) (object.Key, bool) {
	owner, ok := crd.Owner(c)
	if !ok {
		return object.Key{}, false
	}
	key := object.Key{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.ResourceGraphDefinitionKind, Namespace: owner.Namespace, Name: owner.Name}
	if owner.Namespace != "" {
		key.Kind = v1alpha1.ResourceGroupKind
	}
	return key, true
}
