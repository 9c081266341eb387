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

// Registry holds the state of all definitions of graphs. It is safe for concurrent use.
type Registry struct {
	*serving.Registry[*memory]
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{serving.NewRegistry(func() *memory {
		return &memory{compiled: compilations{own: &compilation{}, revisions: map[int64]*compilation{}}}
	})}
}

// memory is the state of one definition between reconciles. Only the reconciles of the definition access it, except
// for review.users and review.reported, which the registry guards.
type memory struct {
	// running is the controller of the instances, with its reconcilers, its start time, and how each instance was.
	running     serving.Running
	reconcilers *reconcilers
	readiness   *instance.ReadinessCache
	startedAt   time.Time
	// composers compose the instances; nil while there is no good graph.
	composers *composers

	compiled compilations
	cache    revisionCache
	pins     pins
	review   reviewMemory
	rollout  rolloutMemory
	// migration rewrites instances that may be stored in a former storage version; nil for
	// none.
	migration *serving.Migration
	// mistyped counts how often the API server refused a revision because it used another schema than is installed.
	mistyped int
}

type compilations struct {
	// own belongs to the definition if no revision has its content, and revisions to the needed revisions.
	own       *compilation
	revisions map[int64]*compilation
	// published is the one that the kind was last published for, if no revision of it is kept, and publishedAccount
	// its account, as revisions record it.
	published        compilation
	publishedAccount string
}

type reviewMemory struct {
	// users are the impersonated users, and reported the missing permissions that were reported last.
	users    []string
	reported permissions
	// needs is the digest of the last reviewed permissions, and missing the permissions that are not granted.
	needs   string
	missing permissions
	backoff reviewBackoff
	// grants is the state of the roles and bindings that let the controllers impersonate the account, and confirmAt
	// the time of the next review after a change of them.
	grants    string
	confirmAt time.Time
	// message is the text of the last event about missing permissions.
	message string
}

type rolloutMemory struct {
	// waits says that the rollout waits for instances, so each changed instance enqueues the definition.
	waits atomic.Bool
	// reportedAt is when the status last reported the number of updated instances, and countedAt when the members
	// were last counted.
	reportedAt, countedAt time.Time
	members               int
}

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

func (g *Registry) setPermissions(m *memory, users []string, missing permissions) {
	g.Update(func() { m.review.users, m.review.reported = users, missing })
}

// ActingAs lists, sorted, the definitions with instances that a user reconciles. For an
// empty name it lists all definitions: each needs permissions of the controllers.
func (g *Registry) ActingAs(user string) []object.Key {
	return g.Where(func(_ object.Key, e *serving.Entry[*memory]) bool {
		return user == "" || slices.Contains(e.Memory.review.users, user)
	})
}

// Missing are permissions that a user needs for a definition and that are not granted.
type Missing struct {
	Definition object.Key
	// User is the user without the permissions; empty for the controllers.
	User        string
	Permissions []rbac.Permission
}

// Missing lists, sorted, the missing permissions.
func (g *Registry) Missing() []Missing {
	var out []Missing
	g.Where(func(key object.Key, entry *serving.Entry[*memory]) bool {
		reported := entry.Memory.review.reported
		for user, needs := range reported.accounts {
			out = append(out, Missing{key, user, needs})
		}
		if len(reported.controllers) > 0 {
			out = append(out, Missing{key, "", reported.controllers})
		}
		return false
	})
	slices.SortFunc(out, func(a, b Missing) int { return cmp.Or(a.Definition.Compare(b.Definition), cmp.Compare(a.User, b.User)) })
	return out
}

// ownerKey returns the key of the definition that owns a CustomResourceDefinition, for
// messages; false if no definition owns it. A name from a label may be shortened.
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
