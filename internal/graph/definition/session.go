// Package definition turns definitions into served kinds: it compiles a
// definition's graph, publishes its CustomResourceDefinition, and starts the
// controller of its instances; when the definition goes, it waits for the
// instances and retires what it made.
package definition

import (
	"context"
	"errors"
	"time"

	"github.com/espalier-dev/espalier/internal/serving"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"

	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Config is what the controllers of definitions need, in both spellings, which share a Registry.
type Config struct {
	serving.Config
	Registry *Registry
	Version  string
	// AllowCRDDeletion deletes the CustomResourceDefinition of a definition that is deleted and has no instances. Off,
	// it stays.
	AllowCRDDeletion bool
	// Usages knows which objects are in use.
	Usages instance.Usages
	// As returns the account that impersonates a service account, or, without a name, the
	// controllers' own account.
	As func(v1alpha1.ServiceAccount) (Account, error)
	// Rollouts counts the outcomes of rollouts.
	Rollouts *telemetry.Rollouts
	// Layers measures how long values take upwards.
	Layers *telemetry.StatusPropagation
	// Conversions has the conversion webhook for versions of kinds; nil if there is none.
	Conversions Conversions
}

// Dialect is the dialect of graphs, in one of its spellings.
type Dialect struct{ Config }

// New returns the reconciler of definitions of graphs.
func New(c Config) *serving.Reconciler {
	return &serving.Reconciler{Config: c.Config, Dialect: &Dialect{c}}
}

// session is one reconcile of one definition: what its stages have found so far, a field for each.
type session struct {
	*serving.Definition
	r          *Dialect
	owner      object.Definition
	registered *serving.Entry[*memory]
	memory     *memory
	// status is what was written last.
	status v1alpha1.DefinitionStatus
	// account is the account that reconciles the instances.
	account Account

	// source is the spec of the definition.
	source source
	// lease has the watches that the reconcile asks for.
	lease *watch.Lease
	// history are the definition's revisions.
	history history
	// result is what the definition compiles to; lookupErr says why that is not known, because a kind could not be
	// looked up.
	result    compiled
	lookupErr error
	// kindAbsent says that the API server is not built with a kind that is used. Another release of it may be, and no
	// event says so.
	kindAbsent bool
	// choice is which revision is to serve.
	choice choice
	// readiness is whether the kind is served as the choice wants it.
	readiness *serving.Readiness
	// review is the result of the permission review.
	review review
	// rollout is the step that the instances take.
	rollout rollout
}

// source is the spec of a definition, as far as it can be decoded.
type source struct {
	spec *v1alpha1.DefinitionSpec
	// unreadable says that the spec cannot be decoded, so that spec is empty. readable is the spec without the parts
	// that cannot be decoded.
	unreadable bool
	readable   *v1alpha1.DefinitionSpec
	// kind is the kind that it asks for; empty if that cannot be read.
	kind schema.GroupKind
}

// history are the revisions of a definition.
type history struct {
	// revisions are in their order.
	revisions []*rev.GraphRevision
	// unrecorded says why the definition as it is has no revision, if that is so.
	unrecorded unrecorded
	// current is the revision that the definition is; 0 if it is none.
	current int64
}

// choice is which revision is to serve.
type choice struct {
	// target is what the definition asks for, and waves how it gets to the instances.
	target revision.Target
	waves  revision.Waves
	// candidate is what is to serve for the target; without a compilation if nothing can, as obstacle says.
	candidate candidate
	obstacle  obstacle
}

// review is the result of a permission review.
type review struct {
	// err says why the granted permissions are unknown.
	err error
	// requeueAfter is the delay of the next review; 0 to wait for a change.
	requeueAfter time.Duration
}

// rollout is the step that the instances take.
type rollout struct {
	step revision.Step
	// proceeding says that the step leads toward the target.
	proceeding bool
}

// Managers are the field managers of what is written to definitions.
func (r *Dialect) Managers() (object, status string) {
	return v1alpha1.InstanceManager, v1alpha1.StatusManager
}

// Forget stops what serves the kind of a definition that is gone.
func (r *Dialect) Forget(key object.Key) {
	r.Registry.Entry(key).Memory.running.Stop()
	r.Registry.Forget(key)
}

// Open begins a reconcile: it decodes the definition, and resolves the account of its instances.
func (r *Dialect) Open(d *serving.Definition) serving.Session {
	v := &session{
		Definition: d, r: r, status: statusOf(d.Unstructured), readiness: &serving.Readiness{},
		owner:      object.Definition{Name: d.Key.Name, Namespace: d.Key.Namespace, UID: d.GetUID()},
		registered: r.Registry.Entry(d.Key),
	}
	v.memory = v.registered.Memory
	spec, problems := specOf(d.Unstructured)
	v.result.problems, v.source.readable = problems, spec
	if len(problems) > 0 {
		v.source.unreadable, spec = true, &v1alpha1.DefinitionSpec{}
	}
	v.source.spec, v.source.kind = spec, schemaOf(d.Unstructured).InstanceKind().GroupKind()
	r.registerKinds(v)
	r.resolveAccount(v)
	return v
}

// Finalizers keep the definition while there are instances.
func (v *session) Finalizers() []string { return []string{v1alpha1.Finalizer} }

// Compile compiles the definition, keeps what is new as a revision, and chooses the revision that is to serve.
func (v *session) Compile(ctx context.Context) reconcile.Result {
	v.lease = v.r.Hub.Begin(watch.Subscriber{Key: v.Key})
	if out := v.r.loadRevisions(ctx, v); out.IsFinal() {
		return out
	}
	v.r.compile(ctx, v)
	if out := v.r.createRevision(ctx, v); out.IsFinal() {
		return out
	}
	v.r.chooseRevision(ctx, v)
	return reconcile.Result{}
}

// Serve lets each instance be composed by its revision.
func (v *session) Serve(ctx context.Context) error {
	v.r.reviewPermissions(ctx, v)
	return v.r.serve(ctx, v)
}

// Report writes the status, and then rewrites instances that are stored in a former version.
func (v *session) Report(ctx context.Context, failed, served error) reconcile.Result {
	if failed != nil {
		return v.r.report(ctx, v, errors.Join(failed, served))
	}
	err := errors.Join(served, v.r.pruneRevisions(ctx, v))
	if v.lookupErr != nil {
		err = v.lookupErr
	}
	return v.r.migrate(ctx, v, v.requeue(v.r.report(ctx, v, err)))
}

// Close keeps the watches that were asked for.
func (v *session) Close() {
	if v.lease != nil {
		v.lease.Commit()
	}
}

// registerKinds records, before anything is read, the kinds that wake the definition when they change.
func (r *Dialect) registerKinds(v *session) {
	var kinds []serving.Kind
	if v.source.kind.Kind != "" {
		kinds = append(kinds, serving.Kind{GroupKind: v.source.kind, Name: kind.NameOf(schemaOf(v.Unstructured))})
	}
	for _, c := range r.Kinds.CRDsOwnedBy(v.owner) {
		if gk := crd.GroupKind(c); gk != v.source.kind {
			kinds = append(kinds, serving.Kind{GroupKind: gk})
		}
	}
	r.Registry.SetDefines(v.registered, kinds)
}

// schemaOf reads the kind of a definition from its undecoded spec, of which the rest may be
// invalid.
func schemaOf(raw *unstructured.Unstructured) *v1alpha1.Schema {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(raw.Object, "spec", "schema", field)
		return value
	}
	return &v1alpha1.Schema{Kind: text("kind"), Group: text("group"), Plural: text("plural")}
}

// specOf decodes a definition's spec, which is the same in both spellings, as far as possible.
func specOf(raw *unstructured.Unstructured) (*v1alpha1.DefinitionSpec, diag.List) {
	spec, _ := raw.Object["spec"].(map[string]any)
	return graph.Read(spec)
}
