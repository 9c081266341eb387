// Package definition turns definitions into served kinds: it compiles a
// definition's graph, publishes its CustomResourceDefinition, and starts the
// controller of its instances; when the definition goes, it waits for the
// instances and retires what it made.
package definition

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/controller/instance"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/engine"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Config is what the controller of definitions needs. It serves one of the two
// spellings; both share a Registry.
type Config struct {
	Kind     schema.GroupVersionKind
	Cluster  *cluster.Client
	Kinds    *cluster.Kinds
	Hub      *watch.Hub
	Engine   *engine.Engine
	Events   telemetry.Recorder
	Registry *Registry
	Version  string
	// AllowCRDDeletion removes the CustomResourceDefinition of a definition
	// that is deleted and has no instances. Off, it stays.
	AllowCRDDeletion bool
	Now              func() time.Time
}

// Reconciler serves the definitions of one spelling.
type Reconciler struct{ Config }

// New returns a reconciler of definitions.
func New(c Config) *Reconciler { return &Reconciler{c} }

// visit is one pass over one definition.
type visit struct {
	key   object.Key
	raw   *unstructured.Unstructured
	spec  *v1alpha1.DefinitionSpec
	owner inventory.Definition
	entry *entry

	compiled compiled
	kind     kindState
}

// Reconcile tells one pass: compile, publish the kind, serve it, report. Each
// step goes as far as the one before it allows; what served before goes on
// serving until something better is in its place.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) outcome.Outcome {
	v, out := r.begin(ctx, key)
	if out.Settled() {
		return out
	}
	r.compile(v)
	if err := r.publish(ctx, v); err != nil {
		return outcome.Fail(err)
	}
	r.serve(v)
	return r.report(ctx, v)
}

// begin loads the definition and puts its finalizer on.
func (r *Reconciler) begin(ctx context.Context, key object.Key) (*visit, outcome.Outcome) {
	raw, ok := r.Hub.Get(r.Kind, key.Namespace, key.Name)
	if !ok {
		r.halt(r.Registry.entry(key))
		r.Registry.forget(key)
		r.Hub.Forget(watch.Subscriber{Key: key})
		return nil, outcome.Done()
	}
	v := &visit{
		key:   key,
		raw:   raw,
		owner: inventory.Definition{Name: key.Name, Namespace: key.Namespace, UID: raw.GetUID()},
		entry: r.Registry.entry(key),
	}
	spec, err := specOf(raw)
	if err != nil {
		v.compiled.problems.Addf("spec", "can't be read: %v", err)
	}
	v.spec = spec
	if raw.GetDeletionTimestamp() != nil {
		return nil, r.retire(ctx, v)
	}
	if !slices.Contains(raw.GetFinalizers(), v1alpha1.Finalizer) {
		answer, err := r.Cluster.SetFinalizers(ctx, raw, append(slices.Clone(raw.GetFinalizers()), v1alpha1.Finalizer), v1alpha1.InstanceManager)
		if cluster.IsGone(err) {
			return nil, outcome.Done()
		}
		if err != nil {
			return nil, outcome.Fail(fmt.Errorf("put the finalizer on: %w", err))
		}
		r.record(v, answer)
	}
	return v, outcome.Outcome{}
}

func (r *Reconciler) record(v *visit, answer *unstructured.Unstructured) {
	r.Hub.Record(answer, watch.Subscriber{Key: v.key})
	v.raw = answer
}

func specOf(raw *unstructured.Unstructured) (*v1alpha1.DefinitionSpec, error) {
	// Both spellings have the same spec.
	var d v1alpha1.ResourceGraphDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &d); err != nil {
		return &v1alpha1.DefinitionSpec{}, err
	}
	return &d.Spec, nil
}

// Registry is what is known of all definitions: what each compiled to, what it
// uses, and the controller that serves its kind. It is safe for concurrent use.
type Registry struct {
	mu      sync.Mutex
	entries map[object.Key]*entry
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{entries: map[object.Key]*entry{}} }

// entry is one definition's. Its fields belong to the pass over it, but for
// uses, which the registry guards.
type entry struct {
	uses []schema.GroupKind
	// serving is the controller of the instances, with what it was started for.
	serving   *engine.Controller
	instances *instance.Reconciler
	// good is the graph that is served: the last one that compiled and was
	// published.
	good *graph.Graph
	// last is what the last compilation came to, compiledFor names its input,
	// and kinds are what it looked up.
	last        compiled
	compiledFor string
	kinds       []schema.GroupVersionKind
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

func (g *Registry) setUses(e *entry, kinds []schema.GroupVersionKind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.uses = nil
	for _, gvk := range kinds {
		e.uses = append(e.uses, gvk.GroupKind())
	}
}

// Users lists the definitions that use a kind, sorted.
func (g *Registry) Users(gk schema.GroupKind) []object.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []object.Key
	for key, e := range g.entries {
		if slices.Contains(e.uses, gk) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, object.Key.Compare)
	return out
}

// OwnerKey is the key of the definition that a CustomResourceDefinition belongs
// to, if it is one's.
func OwnerKey(c *apiextensionsv1.CustomResourceDefinition) (object.Key, bool) {
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
