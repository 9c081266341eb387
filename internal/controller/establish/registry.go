package establish

import (
	"slices"
	"sync"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/engine"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/tally"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Registry is what is known of all definitions: which kinds each asks for, and what serves
// them. It is safe for concurrent use.
type Registry struct {
	mu      sync.Mutex
	entries map[object.Key]*entry
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{entries: map[object.Key]*entry{}} }

// entry is one definition's. Its fields belong to the pass over it, but for wants, which
// the registry guards.
type entry struct {
	wants  []want
	judged judgement
	// good is the definition as its composite kind was last published for; goodMark tells
	// that apart from what it was before.
	good             *v1.CompositeResourceDefinition
	goodMark         string
	composite, claim serving
	refusals         telemetry.Refusals
}

// want is a kind that a definition asks for, and the CustomResourceDefinition that this
// would have.
type want struct {
	kind schema.GroupKind
	name string
}

// serving is what serves one of a definition's kinds.
type serving struct {
	controller *engine.Controller
	served     Served
	// of is the incarnation of the definition that it was begun for, and used tells apart
	// what it was last given.
	of   types.UID
	used string

	// asked are the objects whose deletion was asked for, and refused why it was refused,
	// while the definition is being deleted; told is what was last said of them.
	asked   map[types.UID]struct{}
	refused map[types.UID]string
	told    tally.Count
}

func (s *serving) halt() {
	if s.controller != nil {
		s.controller.Stop()
		s.controller, s.served, s.used = nil, nil, ""
	}
}

func (g *Registry) entry(key object.Key) *entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, ok := g.entries[key]
	if !ok {
		e = &entry{}
		g.entries[key] = e
	}
	return e
}

func (g *Registry) forget(key object.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.entries, key)
}

func (g *Registry) setWants(e *entry, wants []want) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.wants = wants
}

// Concerned lists, sorted, the definitions that a change of a CustomResourceDefinition
// concerns: the one that controls it, and those that want its kind or its name.
func (g *Registry) Concerned(c *extv1.CustomResourceDefinition) []object.Key {
	gk := crd.GroupKind(c)
	owner, owned := ownerOf(c)
	return g.where(func(key object.Key, e *entry) bool {
		return owned && owner == key.Name || slices.ContainsFunc(e.wants, func(w want) bool { return w.kind == gk || w.name == c.Name })
	})
}

// Wanting lists, sorted, the definitions that ask for a kind; all of them for the empty
// kind.
func (g *Registry) Wanting(gk schema.GroupKind) []object.Key {
	return g.where(func(_ object.Key, e *entry) bool {
		return gk.Empty() || slices.ContainsFunc(e.wants, func(w want) bool { return w.kind == gk })
	})
}

func (g *Registry) where(so func(object.Key, *entry) bool) []object.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []object.Key
	for key, e := range g.entries {
		if so(key, e) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, object.Key.Compare)
	return out
}
