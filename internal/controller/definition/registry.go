package definition

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/controller/instance"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/engine"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/rights"
	"github.com/espalier-dev/espalier/internal/tally"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Registry is what is known of all definitions: what each compiled to, what it
// uses and defines, and the controller that serves its kind. It is safe for
// concurrent use.
type Registry struct {
	mu      sync.Mutex
	entries map[object.Key]*entry
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{entries: map[object.Key]*entry{}} }

// entry is one definition's. Its fields belong to the pass over it, but for
// uses, defines, called, user and unmet, which the registry guards.
type entry struct {
	uses    []schema.GroupKind
	defines []schema.GroupKind
	// called is the name of the CustomResourceDefinition that the definition asks for.
	called string
	// user is as whom the instances are looked after, and unmet what is missing for that.
	user  string
	unmet permissions
	// serving is the controller of the instances, with what it was started for.
	serving   *engine.Controller
	began     time.Time // when it was started
	instances *instance.Reconciler
	// chooser composes the instances; nil while there is no good graph.
	chooser *chooser
	// own is the compilation of the definition as it is, where that is no revision, and
	// revisions those of the revisions that were looked at. Served is that by which the
	// kind was last published, where no revision is kept of it.
	own       *compilation
	revisions map[int64]*compilation
	served    compilation
	shelf     shelf
	// pins are the revisions that instances ask for themselves.
	pins pins
	// account is by whose rights the instances are looked after, for the definition of the
	// key. Asked names what was last asked for, and lacks is what of it was not granted.
	account Account
	key     object.Key
	asked   string
	lacks   permissions
	lacking lacking
	// grants is the state of what lets the controllers act as the account, and confirm when to
	// ask again since that has changed.
	grants  string
	confirm time.Time
	// missing is what was last told of that.
	missing  string
	refusals telemetry.Refusals
	// rolling says that a rollout waits for instances, counted is when that was told, and
	// looked when so many members were last looked at.
	rolling         atomic.Bool
	counted, looked time.Time
	members         int
	// migration is of instances that may be stored in a version that isn't stored any
	// more; nil for none.
	migration *migration
	// told is what was last said of the instances that a deleted definition
	// waits for.
	told tally.Count
}

func (g *Registry) entry(key object.Key) *entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, ok := g.entries[key]
	if !ok {
		e = &entry{own: &compilation{}, revisions: map[int64]*compilation{}}
		g.entries[key] = e
	}
	return e
}

func (g *Registry) forget(key object.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.entries, key)
}

// setUses notes which kinds the definition's compilations looked up.
func (g *Registry) setUses(e *entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.uses = nil
	for _, c := range append(slices.Collect(maps.Values(e.revisions)), e.own, &e.served) {
		for _, gvk := range c.kinds {
			if !slices.Contains(e.uses, gvk.GroupKind()) {
				e.uses = append(e.uses, gvk.GroupKind())
			}
		}
	}
}

// setDefines notes which kinds are the definition's: the one that it asks for,
// whether it may have it or not, and those that it has; and how the
// CustomResourceDefinition of the former is called.
func (g *Registry) setDefines(e *entry, kinds []schema.GroupKind, called string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.defines, e.called = kinds, called
}

// setPermissions notes by whose rights the definition's instances are looked after, and what
// is missing of them.
func (g *Registry) setPermissions(e *entry, user string, unmet permissions) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.user, e.unmet = user, unmet
}

// ActingAs lists, sorted, the definitions whose instances are looked after by the rights of
// a user, or, for an empty name, of the controllers: all of them need these.
func (g *Registry) ActingAs(user string) []object.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []object.Key
	for key, e := range g.entries {
		if user == "" || e.user == user {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, object.Key.Compare)
	return out
}

// Missing are rights that somebody needs for a definition and hasn't got.
type Missing struct {
	Definition object.Key
	// User is who that is; empty for the controllers.
	User  string
	Needs []rights.Need
}

// Missing lists, sorted, which rights are missing.
func (g *Registry) Missing() []Missing {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Missing
	for key, e := range g.entries {
		for _, m := range []Missing{{key, e.user, e.unmet.account}, {key, "", e.unmet.controllers}} {
			if len(m.Needs) > 0 {
				out = append(out, m)
			}
		}
	}
	slices.SortFunc(out, func(a, b Missing) int { return cmp.Or(a.Definition.Compare(b.Definition), cmp.Compare(a.User, b.User)) })
	return out
}

// Concerned lists, sorted, the definitions that a change of a
// CustomResourceDefinition concerns: those that use its kind, and those that
// define it or want its name.
func (g *Registry) Concerned(c *apiextensionsv1.CustomResourceDefinition) []object.Key {
	gk := crd.GroupKind(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []object.Key
	for key, e := range g.entries {
		if e.called == c.Name || slices.Contains(e.defines, gk) || slices.Contains(e.uses, gk) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, object.Key.Compare)
	return out
}

// Using lists, sorted, the definitions that use kinds of a group.
func (g *Registry) Using(group string) []object.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []object.Key
	for key, e := range g.entries {
		if slices.ContainsFunc(e.uses, func(gk schema.GroupKind) bool { return gk.Group == group }) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, object.Key.Compare)
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
