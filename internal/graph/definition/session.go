// Package definition reconciles definitions of graphs: it compiles a definition's graph, publishes its
// CustomResourceDefinition, and starts the controller of its instances. When the definition is deleted,
// it waits until the instances are gone, then stops the controller, deletes the
// CustomResourceDefinition if that is allowed, and removes the finalizer.
// See docs/design/0004-compiling-definitions.md and 0012-revisions-rollouts-and-versions.md.
package definition

import (
	"context"
	"errors"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/serving/revision"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Config is what the controllers of ResourceGraphDefinitions and ResourceGroups need; both share a Registry.
type Config struct {
	serving.Config
	Registry *Registry
	Version  string
	// Keys prove which objects are children of instances.
	Keys inventory.Keys
	// AllowCRDDeletion says that the CustomResourceDefinition is deleted with the definition once no instance remains.
	AllowCRDDeletion bool
	// Usages knows which objects are in use.
	Usages instance.Usages
	// RequireServiceAccount refuses cluster-scoped definitions that name no service account, which
	// would be reconciled with the controllers' own permissions.
	RequireServiceAccount bool
	// OneUser lets definitions in a namespace that name no service account have the controllers' own permissions too, unless
	// RequireServiceAccount is set.
	OneUser bool
	// NamespacedGroups are the API groups in which definitions of a namespace define kinds, as in server.ResourceGroups.
	NamespacedGroups []string
	// SecretOutputs is what happens to definitions that put data of Secrets into outputs.
	SecretOutputs graph.SecretOutputs
	// As returns the account that impersonates a service account, or, without a name, the
	// controllers' own account.
	As func(v1alpha1.ServiceAccount) (Account, error)
	// Rollouts counts the outcomes of rollouts.
	Rollouts *telemetry.Rollouts
	// Limits bound each instance.
	Limits instance.Limits
	// Layers measures how long status values take to reach the parent.
	Layers *telemetry.StatusPropagation
	// Decided receives what is decided for instances; optional.
	Decided instance.Decided
	// Conversions provides the conversion webhook for versions of kinds; nil if there is none.
	Conversions Conversions
	// Shard selects the instances of this installation.
	Shard shard.Selector
}

// Dialect is the dialect of graphs, for ResourceGraphDefinitions or for ResourceGroups.
type Dialect struct {
	Config
	unstored unstoredFields
}

// New returns the reconciler of definitions of graphs.
func New(c Config) *serving.Reconciler {
	return &serving.Reconciler{Config: c.Config, Dialect: &Dialect{Config: c}}
}

// session is one reconcile of one definition: what its stages have found so far, a field for each.
type session struct {
	*serving.Definition
	*Dialect
	owner      object.Definition
	registered *serving.Entry[*memory]
	memory     *memory
	// status is what was written last.
	status v1alpha1.DefinitionStatus
	// account is the account that the definition names; its Cluster is nil if that is invalid.
	account Account
	// unreadAccount is the state of the watch of a service account that is not read yet; nil if all are.
	unreadAccount *watch.State

	// restored: the status is from an annotation, because the definition was created again.
	restored bool
	// servesPublished says that number 0 is what the kind was last published for, and not the definition as it is.
	servesPublished bool

	source source
	// lease holds the watches that the reconcile requests.
	lease   *watch.Lease
	history history
	// result is what the definition compiles to; lookupErr says why that is not known, because a kind could not be
	// looked up.
	result    compiled
	lookupErr error
	// kindAbsent says that the definition uses a built-in kind that this release of the API server does not have. No
	// event says when an upgrade adds it.
	kindAbsent bool
	choice     choice
	// readiness reports whether the kind is served with the schema of the choice.
	readiness *serving.Readiness
	review    review
	rollout   rollout
}

type source struct {
	spec *v1alpha1.DefinitionSpec
	// unreadable says that parts of the spec cannot be decoded; then spec is empty, and readable is the spec without
	// these parts.
	unreadable bool
	readable   *v1alpha1.DefinitionSpec
	// kind is empty if it cannot be read.
	kind schema.GroupKind
}

// overrides says which annotations of instances apply. They belong to the definition and not to a revision: a
// rollback, or an instance that selects a revision, changes nothing about them.
func (v *session) overrides() inventory.Overrides {
	return inventory.OverridesOf(v.source.readable.InstanceOverrides)
}

type history struct {
	// revisions are in their order.
	revisions  []*rev.GraphRevision
	unrecorded unrecorded
	// current is the number of the revision with the current content of the definition; 0 if there is none.
	current int64
}

type choice struct {
	// target is the revision that the definition requests, and waves are the waves of its rollout.
	target revision.Target
	waves  revision.Waves
	// candidate is the compiled target; it has no compilation if the target cannot serve, as obstacle says.
	candidate candidate
	obstacle  obstacle
}

type review struct {
	users []string
	// err says why the granted permissions are unknown.
	err error
	// requeueAfter is the delay of the next review; 0 to wait for a change.
	requeueAfter time.Duration
}

type rollout struct {
	step revision.Step
	// proceeding: the step leads toward the target.
	proceeding bool
	// served is the CustomResourceDefinition of the kind, and graphs are the graphs of the revisions of the step.
	served *apiextensionsv1.CustomResourceDefinition
	graphs map[int64]*graph.Graph
}

// Managers are the field managers of what is written to definitions.
func (r *Dialect) Managers() (object, status string) {
	return v1alpha1.InstanceManager, v1alpha1.StatusManager
}

// Forget stops the controller of a definition that is gone.
func (r *Dialect) Forget(key object.Key) {
	r.Registry.Entry(key).Memory.running.Stop()
	r.Registry.Forget(key)
}

// Open begins a reconcile: it decodes the definition, and resolves the account of its instances.
func (r *Dialect) Open(d *serving.Definition) serving.Session {
	v := &session{
		Definition: d, Dialect: r, status: statusOf(d.Unstructured), readiness: &serving.Readiness{},
		owner:      object.Definition{Name: d.Key.Name, Namespace: d.Key.Namespace, UID: d.GetUID()},
		registered: r.Registry.Entry(d.Key),
	}
	v.memory = v.registered.Memory
	recorded, _, _ := unstructured.NestedMap(d.Unstructured.Object, "status")
	v.restored = len(recorded) == 0
	spec, problems := specOf(d.Unstructured)
	v.result.problems, v.source.readable = problems, spec
	if len(problems) > 0 {
		v.source.unreadable, spec = true, &v1alpha1.DefinitionSpec{}
	}
	v.source.spec, v.source.kind = spec, schemaOf(d.Unstructured).InstanceKind().GroupKind()
	v.registerKinds()
	v.resolveAccount()
	v.checkGroup()
	return v
}

// Finalizers keep the definition while there are instances.
func (v *session) Finalizers() []string { return []string{v1alpha1.Finalizer} }

// Compile compiles the definition, creates a revision of new content, and chooses the revision that is to serve.
func (v *session) Compile(ctx context.Context) reconcile.Result {
	v.lease = v.Hub.Begin(watch.Subscriber{Key: v.Key})
	if out := v.loadRevisions(ctx); out.IsFinal() {
		return out
	}
	v.compile(ctx)
	if out := v.createRevision(ctx); out.IsFinal() {
		return out
	}
	v.chooseRevision(ctx)
	return reconcile.Result{}
}

// Serve starts the controller, and sets the revision by which each instance is composed.
func (v *session) Serve(ctx context.Context) error {
	v.reviewPermissions(ctx)
	return v.serve(ctx)
}

// Report writes the status, and then rewrites instances that are stored in a former version.
func (v *session) Report(ctx context.Context, publishErr, serveErr error) reconcile.Result {
	if !kube.MayWrite(ctx) { // another installation reports
		if err := errors.Join(publishErr, serveErr); err != nil {
			return reconcile.Fail(err)
		}
		return v.requeue(reconcile.RequeueAfter(v.rollout.step.RequeueAfter))
	}
	if publishErr != nil {
		return v.report(ctx, errors.Join(publishErr, serveErr))
	}
	err := errors.Join(serveErr, v.pruneRevisions(ctx))
	if v.lookupErr != nil {
		err = v.lookupErr
	}
	return v.migrate(ctx, v.requeue(v.report(ctx, err)))
}

// Close keeps the watches that were asked for, and of what was compiled only the results.
func (v *session) Close() {
	v.memory.compiled.own.spec = nil
	for _, c := range v.memory.compiled.revisions {
		c.spec = nil
	}
	if v.lease != nil {
		v.lease.Commit()
	}
}

// registerKinds records, before anything is read, the kinds that enqueue the definition when they change.
func (v *session) registerKinds() {
	var kinds []serving.Kind
	if v.source.kind.Kind != "" {
		kinds = append(kinds, serving.Kind{GroupKind: v.source.kind, Name: kind.NameOf(schemaOf(v.Unstructured))})
	}
	for _, c := range v.Kinds.CRDsOwnedBy(v.owner) {
		if gk := crd.GroupKind(c); gk != v.source.kind {
			kinds = append(kinds, serving.Kind{GroupKind: gk})
		}
	}
	v.Registry.SetDefines(v.registered, kinds)
}

// schemaOf reads the kind of a definition from its undecoded spec; the rest of the spec may be invalid.
func schemaOf(raw *unstructured.Unstructured) *v1alpha1.Schema {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(raw.Object, "spec", "schema", field)
		return value
	}
	return &v1alpha1.Schema{Kind: text("kind"), Group: text("group"), Plural: text("plural")}
}

func specOf(raw *unstructured.Unstructured) (*v1alpha1.DefinitionSpec, diag.List) {
	spec, _ := raw.Object["spec"].(map[string]any)
	return graph.Read(spec)
}
