package definition

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// composers composes each instance by its revision: the one that the instance requests, or
// the one that the rollout state assigns. It is immutable, except that it records the
// revisions that instances request.
type composers struct {
	instance.Composer // of the serving revision
	state             revision.State
	graphs            map[int64]*graph.Graph
	// accounts reconcile the instances of each revision that has a graph. unavailable says, by
	// user, why instances are left as they are.
	accounts    map[int64]*Account
	unavailable map[string]string
	overrides   inventory.Overrides
	// refused says, by revision, why it cannot compose the instances that request it.
	refused map[int64]string
	// digest is equal for composers with equal results.
	digest string
	// requested is called with a revision that an instance requests and that has no graph here.
	requested func(number int64)
}

var (
	_ instance.Chooser    = (*composers)(nil)
	_ instance.Revisioned = (*composers)(nil)
)

// newComposers returns composers with the state, the graphs, their accounts and what is refused
// or unavailable. The serving revision must have a graph, and each graph an account. The graphs are copied: a reconcile of
// the definition adds some for its next composers, while instances are composed by these.
func newComposers(c composers) *composers {
	c.graphs = maps.Clone(c.graphs)
	c.Composer = ComposerOf(c.graphs[c.state.Serving], c.overrides)
	content := []any{c.state.Serving, c.overrides, c.refused, c.unavailable}
	if s := c.state.Rollout; s != nil {
		content = append(content, s.Revision, s.Wave, s.Begun, s.CompletedAt != nil)
	}
	for _, n := range slices.Sorted(maps.Keys(c.graphs)) {
		content = append(content, n, fmt.Sprintf("%p", c.graphs[n]), c.accounts[n].User)
	}
	c.digest = object.Digest(content)
	return &c
}

// composersOf are the composers for the reconciler of one user. The instance, or the composers,
// may have changed since that reconciler was chosen: no revision composes as another account.
type composersOf struct {
	*composers
	user string
}

// RevisionOf names the revision that composes an instance, for traces.
func (c *composers) RevisionOf(o *unstructured.Unstructured) string {
	return strconv.FormatInt(c.number(o), 10)
}

// Choose returns the composer of an instance; one that changes nothing if its revision has another account.
func (c composersOf) Choose(o *unstructured.Unstructured) instance.Composer {
	if c.accountOf(o).User != c.user {
		return instance.Frozen{Composer: c.Composer, Problem: plan.Problem{Reason: plan.WaitingForRevision,
			Message: "the account of the instance has changed; the next reconcile uses it"}}
	}
	return c.composers.Choose(o)
}

func (c *composers) number(o *unstructured.Unstructured) int64 {
	n := c.state.For(o.GetNamespace(), o.GetName(), o.GetLabels())
	if pin, asks := revision.AllowedPinOf(o, c.overrides); asks {
		n = pin.Number
	}
	if c.graphs[n] == nil {
		return c.state.Serving
	}
	return n
}

func (c *composers) accountOf(o *unstructured.Unstructured) Account { return *c.accounts[c.number(o)] }

// Choose returns the composer of an instance.
func (c *composers) Choose(o *unstructured.Unstructured) instance.Composer {
	composer, unknown := c.find(o)
	if unknown != 0 {
		c.requested(unknown)
	}
	return composer
}

// find finds the composer of an instance; unknown is the requested revision, if it has neither a graph nor
// a reason why it has none.
func (c *composers) find(o *unstructured.Unstructured) (composer instance.Composer, unknown int64) {
	frozen := func(reason plan.Reason, message string) instance.Composer {
		return instance.Frozen{Composer: c.Composer, Problem: plan.Problem{Reason: reason, Message: message + "; the instance is not changed until then"}}
	}
	if why := c.unavailable[c.accountOf(o).User]; why != "" {
		return frozen(plan.ServiceAccountNotFound, why), 0
	}
	pin, asks := revision.AllowedPinOf(o, c.overrides)
	if !asks {
		return c.of(c.state.For(o.GetNamespace(), o.GetName(), o.GetLabels())), 0
	}
	if pin.Malformed != "" {
		return frozen(plan.RevisionMissing, pin.Malformed), 0
	}
	if g := c.graphs[pin.Number]; g != nil {
		return ComposerOf(g, c.overrides), 0
	}
	if why, refused := c.refused[pin.Number]; refused {
		return frozen(plan.RevisionMissing, "the requested revision is not available: "+why), 0
	}
	return frozen(plan.WaitingForRevision, fmt.Sprintf("the requested revision %d is being compiled", pin.Number)), pin.Number
}

func (c *composers) unavailableMessage() string {
	var all []string
	for _, user := range slices.Sorted(maps.Keys(c.unavailable)) {
		all = append(all, c.unavailable[user])
	}
	return strings.Join(all, "; ")
}

// composesAs reports whether other composers compose an instance as these do, with the same account.
func (c *composers) composesAs(o *unstructured.Unstructured, other *composers) bool {
	before, _ := c.find(o)
	after, _ := other.find(o)
	return before == after && c.accountOf(o).User == other.accountOf(o).User
}

func (c *composers) of(number int64) instance.Composer {
	if g := c.graphs[number]; g != nil {
		return ComposerOf(g, c.overrides)
	}
	return c.Composer
}

func (c *composers) revisionOf(by instance.Composer) int64 {
	composer, _ := by.(graphComposer)
	for n, g := range c.graphs {
		if g == composer.Graph {
			return n
		}
	}
	return 0
}

// ChildKinds lists the kinds of children of all revisions.
func (c *composers) ChildKinds() []schema.GroupVersionKind {
	out := c.Composer.ChildKinds()
	for _, n := range slices.Sorted(maps.Keys(c.graphs)) {
		for _, gvk := range c.graphs[n].ChildKinds() {
			if !slices.Contains(out, gvk) {
				out = append(out, gvk)
			}
		}
	}
	return out
}

func (c *composers) childKindsOf(user string) (out []schema.GroupVersionKind) {
	for _, n := range slices.Sorted(maps.Keys(c.graphs)) {
		if c.accounts[n].User != user {
			continue
		}
		for _, gvk := range c.graphs[n].ChildKinds() {
			if !slices.Contains(out, gvk) {
				out = append(out, gvk)
			}
		}
	}
	return out
}

// pins are the revisions that instances have requested since the program started. It is
// safe for concurrent use.
type pins struct {
	mu      sync.Mutex
	numbers map[int64]bool
}

// add reports whether the request is new.
func (p *pins) add(number int64) (fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.numbers == nil {
		p.numbers = map[int64]bool{}
	}
	fresh = !p.numbers[number]
	p.numbers[number] = true
	return fresh
}

func (p *pins) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.numbers) > 0
}

func (p *pins) retain(requested map[int64]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.numbers, func(n int64, _ bool) bool { return !requested[n] })
}
