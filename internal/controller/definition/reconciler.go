// Package definition turns definitions into served kinds: it compiles a
// definition's graph, publishes its CustomResourceDefinition, and starts the
// controller of its instances; when the definition goes, it waits for the
// instances and retires what it made.
package definition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/controller/instance"
	"github.com/espalier-dev/espalier/internal/controller/publish"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/engine"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/revision"
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
	// MoreColumns has kubectl get show more of the kinds than the dialect's columns.
	MoreColumns bool
	// AllowCRDDeletion removes the CustomResourceDefinition of a definition
	// that is deleted and has no instances. Off, it stays.
	AllowCRDDeletion bool
	// Published is told of each CustomResourceDefinition as it was written, before
	// its event arrives.
	Published func(*apiextensionsv1.CustomResourceDefinition)
	Now       func() time.Time
	// Held wraps the reconciler of a definition's instances, which rests while there
	// is a Hold. Definitions themselves don't.
	Held func(schema.GroupVersionKind, engine.Reconciler) engine.Reconciler
	// Usages tells which objects are in use.
	Usages instance.Usages
	// As gives the account of a service account, or, without a name, the program's own.
	As func(v1alpha1.ServiceAccount) (Account, error)
	// Rollouts counts what becomes of revisions.
	Rollouts *telemetry.Rollouts
	// Layers measures how long values take upwards.
	Layers *telemetry.Layers
	// Conversions says where the API server has instances converted between the versions
	// of their kind; nil for nowhere.
	Conversions Conversions
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
	// wants is the kind that the definition asks for; empty if that can't be read.
	wants schema.GroupKind

	// status is what was written last, and lease what this pass looks at.
	status v1alpha1.DefinitionStatus
	lease  *watch.Lease
	// revisions are the definition's, in their order; unkept says why none is kept of what
	// it is, if that is so. Current is the one that it is; 0 if it is none.
	revisions []*rev.GraphRevision
	unkept    unkept
	current   int64

	compiled compiled
	// unsure is why it isn't known what the definition compiles to.
	unsure error

	// target is what the definition asks for, and lead what is to serve for it, if it can;
	// hitch says why it can't.
	target revision.Target
	waves  revision.Waves
	lead   candidate
	hitch  hitch
	kind   publish.Standing
	// unread says that the spec can't be read: nothing is known of what it asks for. Legible
	// is the spec without what can't be.
	unread  bool
	legible *v1alpha1.DefinitionSpec
	// account is by whose rights instances are looked after.
	account Account
	// unasked is why it isn't known what is allowed.
	unasked error
	// patience is when to ask again, since something is lacking. Absent says that a kind is
	// that the API server isn't built with: another release of it may be, with no event.
	patience time.Duration
	absent   bool
	step     revision.Step
	// proceeding says that the step is one toward the target.
	proceeding bool
	// orphaning says that the definition goes and leaves instances behind.
	orphaning bool
}

// Reconcile tells one pass: compile, keep what is new as a revision, choose the revision
// that is to serve, publish the kind, serve it, report. Each step goes as far as the one
// before it allows; what served before goes on serving until something better is in its
// place.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) outcome.Outcome {
	v, out := r.begin(ctx, key)
	if out.Settled() {
		return out
	}
	v.lease = r.Hub.Begin(watch.Subscriber{Key: key})
	defer v.lease.Commit()
	if out := r.recall(ctx, v); out.Settled() {
		return out
	}
	r.compile(ctx, v)
	if out := r.issue(ctx, v); out.Settled() {
		return out
	}
	r.choose(ctx, v)
	published := r.publish(ctx, v)
	r.authorize(ctx, v)
	err := r.serve(ctx, v) // what was published before is served all the same
	switch {
	case published != nil && v.kind.Reason == publish.Refused:
		return r.report(ctx, v, errors.Join(published, err))
	case published != nil:
		return outcome.Fail(errors.Join(published, err))
	}
	err = errors.Join(err, r.curate(ctx, v))
	if v.unsure != nil {
		err = v.unsure
	}
	return r.migrate(ctx, v, v.again(r.report(ctx, v, err)))
}

// begin loads the definition and puts its finalizer on.
func (r *Reconciler) begin(ctx context.Context, key object.Key) (*visit, outcome.Outcome) {
	raw, ok := r.Hub.Served(r.Kind, key.Namespace, key.Name)
	if !ok {
		r.halt(r.Registry.entry(key))
		r.Registry.forget(key)
		r.Hub.Forget(watch.Subscriber{Key: key})
		return nil, outcome.Done()
	}
	v := &visit{
		key: key,
		raw: raw, status: statusOf(raw),
		owner: inventory.Definition{Name: key.Name, Namespace: key.Namespace, UID: raw.GetUID()},
		entry: r.Registry.entry(key),
	}
	spec, problems := specOf(raw)
	v.compiled.problems, v.legible = problems, spec
	if len(problems) > 0 {
		v.unread, spec = true, &v1alpha1.DefinitionSpec{}
	}
	v.spec, v.wants = spec, schemaOf(raw).InstanceKind().GroupKind()
	r.define(v)
	r.engage(v)
	if raw.GetDeletionTimestamp() != nil {
		return nil, r.retire(ctx, v)
	}
	if !slices.Contains(raw.GetFinalizers(), v1alpha1.Finalizer) {
		answer, err := r.Cluster.SetFinalizers(ctx, raw, append(slices.Clone(raw.GetFinalizers()), v1alpha1.Finalizer), v1alpha1.InstanceManager)
		if cluster.IsGone(err) {
			return nil, outcome.Done()
		}
		if err != nil {
			r.refused(v, telemetry.FailedFinalizer, "its finalizer can't be put on, and nothing is done for it until it can", err)
			return nil, outcome.Fail(fmt.Errorf("put the finalizer on: %w", err))
		}
		v.entry.refusals.Granted(telemetry.FailedFinalizer)
		r.record(v, answer)
	}
	return v, outcome.Outcome{}
}

func (r *Reconciler) record(v *visit, answer *unstructured.Unstructured) {
	r.Hub.Record(answer, watch.Subscriber{Key: v.key})
	v.raw = answer
}

// define notes, before anything is read, whose changes concern the definition.
func (r *Reconciler) define(v *visit) {
	var kinds []schema.GroupKind
	called := ""
	if v.wants.Kind != "" {
		kinds, called = append(kinds, v.wants), crd.NameOf(schemaOf(v.raw))
	}
	for _, c := range r.Kinds.OwnedBy(v.owner) {
		if gk := crd.GroupKind(c); gk != v.wants {
			kinds = append(kinds, gk)
		}
	}
	r.Registry.setDefines(v.entry, kinds, called)
}

// schemaOf reads which kind a definition asks for, from its spec as it is: the rest
// of that may be unreadable.
func schemaOf(raw *unstructured.Unstructured) *v1alpha1.Schema {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(raw.Object, "spec", "schema", field)
		return value
	}
	return &v1alpha1.Schema{Kind: text("kind"), Group: text("group"), Plural: text("plural")}
}

// specOf reads a definition's spec, which is the same in both spellings, as far as it can be.
func specOf(raw *unstructured.Unstructured) (*v1alpha1.DefinitionSpec, diag.List) {
	spec, _ := raw.Object["spec"].(map[string]any)
	return graph.Read(spec)
}
