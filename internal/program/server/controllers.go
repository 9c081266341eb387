// Package server wires the program together; nothing else does.
package server

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition"
	compositiondefinition "github.com/espalier-dev/espalier/internal/composition/definition"
	"github.com/espalier-dev/espalier/internal/composition/operation"
	"github.com/espalier-dev/espalier/internal/composition/packages/controller"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/graph/standalone"
	"github.com/espalier-dev/espalier/internal/instance"
	kubecrd "github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/managed/provider"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/serving/admission"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// Options configure the controllers.
type Options struct {
	// ConversionEndpoint is where the conversion webhook is, if another process serves it; optional.
	ConversionEndpoint *install.Endpoint
	// Config is how to reach the API server.
	Config *rest.Config
	Settings
	// OneUser says that the API server has one user only, as that of 'espalier up': a ResourceGroup that names no account has
	// the controllers' permissions then, and not those of the account "espalier" of its namespace.
	OneUser bool
	// Version is this program's version.
	Version string
	Log     logr.Logger
	Events  telemetry.Recorder
	// Observe is called after each reconcile; optional.
	Observe func(reconcile.Run)
	// Tracer makes spans of events, reconciles and requests; nil for none.
	Tracer *tracing.Tracer
	// ObservePropagation is called each time a value has reached the status of one layer from the
	// status of the layer below, with the time that took; optional.
	ObservePropagation func(below, above schema.GroupKind, took time.Duration)
	// Decided receives what is decided for instances; optional.
	Decided instance.Decided
	// Providers serve managed resources.
	Providers []managed.Provider
	// Composites returns the Reconcilers that serve composites and claims of the composition
	// dialect; by default the instance engine.
	Composites func(*cluster.Cluster) compositiondefinition.Reconcilers
	// WrapRunner wraps the runner of functions; optional.
	WrapRunner func(pipeline.Runner) pipeline.Runner
	// Functions configure functions beyond the cluster's objects.
	Functions packages.Options
	// Packages installs packages; nil leaves them to another program.
	Packages *PackageOptions
	// Operations runs operations; nil leaves them to another program.
	Operations *OperationOptions
	// LeaderUntil is until when this process is certain to be the only leader; optional, and zero
	// without leader election.
	LeaderUntil func() time.Time
	// Lease is the lease of the leader election; empty without leader election.
	Lease cluster.Lease
	// Shard selects the objects of this installation, if several share the cluster. Installations returns the leases of all
	// of them; nil if there is only one.
	Shard         shard.Selector
	Installations func(context.Context) ([]string, error)
	// SigningKeyNamespace is where the Secret with the signing key is created, unless the cluster
	// records another namespace; by default DefaultSigningKeyNamespace.
	SigningKeyNamespace string
	// Leader returns this process and the epoch of its leadership; optional.
	Leader func() (holder string, epoch int64)
	// Needs are the permissions that the controllers need in every cluster; by default those
	// that follow from these options.
	Needs []rbac.Permission
	// Now is the clock; by default the wall clock.
	Now func() time.Time
}

// DefaultSigningKeyNamespace is the namespace of the signing key of controllers that run outside of
// a cluster and without leader election.
const DefaultSigningKeyNamespace = "kube-system"

// Controllers are everything that runs against one API server.
type Controllers struct {
	*cluster.Cluster
	// Functions calls the functions of the cluster's compositions.
	Functions *packages.Registry
	// Rollouts counts the outcomes of definitions' revisions.
	Rollouts *telemetry.Rollouts

	options  Options
	registry *definition.Registry
	// composites are the composition dialect's definitions.
	composites *compositiondefinition.Registry
	dialects   dialects
	usages     *usages
	layers     *telemetry.StatusPropagation
	limits     instance.Limits
	// conversions has the address of the conversion webhook.
	conversions *conversions
	permissions *permissions
	// crossplane knows whether a Crossplane runs that manages packages and operations; nil if neither is done here.
	crossplane *controller.Crossplane
	// graphs reconciles Graphs; nil if they are not served.
	graphs *standalone.Graphs
}

// NewControllers prepares the controllers; Run runs them.
func NewControllers(o Options) (*Controllers, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Controllers{options: o, dialects: dialects{configured: o.Dialects}, registry: definition.NewRegistry(),
		composites: compositiondefinition.NewRegistry(), Rollouts: telemetry.NewRollouts(), layers: telemetry.NewStatusPropagation(o.ObservePropagation)}
	c.limits = instance.Limits{Limits: o.InstanceLimits, Exceeded: telemetry.NewExceededLimits()}
	var err error
	if o.Needs == nil {
		if o.Needs, err = Needs(ManagerOptions{Settings: Settings{Dialects: o.Dialects, Graphs: o.Graphs}, Providers: o.Providers, Functions: o.Functions, Packages: o.Packages, Operations: o.Operations}); err != nil {
			return nil, err
		}
	}
	c.permissions = newPermissions(o.Needs, o.Log.WithName("permissions"))
	c.Cluster, err = cluster.New(cluster.Options{
		Config: o.Config, Workers: o.Workers, RequestsInFlight: o.RequestsInFlight, Log: o.Log, Observe: o.Observe, Tracer: o.Tracer,
		Timeouts:      map[schema.GroupKind]time.Duration{operation.Kind.GroupKind(): operation.ReconcileTimeout},
		CRDDependents: c.crdDependents, GroupDependents: c.groupDependents, Annotated: composition.Annotated, OnPermissionsChange: c.permissionsChanged,
		Remedy:    func(kind schema.GroupKind) string { return provider.Remedy(o.Providers, kind) },
		ExtraCRDs: c.crdsToInstall, Lease: o.Lease, Shard: o.Shard, Installations: o.Installations, WatchLimits: o.WatchLimits,
		SigningKeyNamespace: cmp.Or(o.SigningKeyNamespace, DefaultSigningKeyNamespace),
	})
	if err != nil {
		return nil, err
	}
	c.permissions.account, c.permissions.watches, c.permissions.registry, c.permissions.enqueue = c.Client, c.Hub, c.registry, c.Enqueue
	if o.Packages != nil {
		if o.Functions.Certificates == nil && o.Functions.CertificatesSecret == (packages.SecretName{}) {
			o.Functions.CertificatesSecret = packages.SecretName{Namespace: o.Packages.Namespace, Name: controller.ClientSecret}
		}
		c.crossplane = c.otherEngine(o.Packages.Namespace)
	} else if o.Operations != nil {
		c.crossplane = c.otherEngine(o.Operations.Namespace)
	}
	c.Functions = packages.New(c.Hub, o.Functions)
	c.usages = newUsages(c.Cluster, o, func() bool { return c.dialects.serves(Composition) })
	if o.Graphs {
		c.graphs = standalone.New(standalone.Config{
			Cluster: c.Client, Hub: c.Hub, Kinds: c.Kinds, As: c.account, Enqueue: c.Enqueue, Events: o.Events, Version: o.Version,
			Usages: c.usages.index, Limits: c.limits, Decided: o.Decided, SecretOutputs: o.SecretOutputs, Now: o.Now,
		})
	}
	c.conversions = &conversions{at: o.ConversionEndpoint, changed: func() {
		for _, key := range c.registry.Keys() {
			c.Enqueue(key)
		}
	}}
	return c, nil
}

// otherEngine knows whether a Crossplane runs in a namespace.
func (c *Controllers) otherEngine(namespace string) *controller.Crossplane {
	return &controller.Crossplane{Cluster: c.Client, Namespace: namespace, Now: c.options.Now, Log: func(text string) { c.options.Log.Info(text) }}
}

// permissionsChanged is called when the permissions of a user have changed; "" stands for the
// controllers' own.
func (c *Controllers) permissionsChanged(user string) {
	c.permissions.permissionsChanged(user)
}

// crdsToInstall chooses the dialects that are served, and returns their CustomResourceDefinitions
// and all others to install.
func (c *Controllers) crdsToInstall(installed func(name string) (*apiextensionsv1.CustomResourceDefinition, bool)) []fs.FS {
	served := c.dialects.choose(installed)
	for _, note := range c.dialects.notes() {
		c.options.Log.Info("warning: " + note)
	}
	return filesOf(served, c.options.Graphs, c.options.Usages, c.options.Packages != nil, c.options.Operations != nil, c.options.Providers)
}

// crdDependents returns the definitions, of both dialects, and the activations to reconcile after a
// change of a CustomResourceDefinition. If it defines a kind of usages, that is served from now on.
func (c *Controllers) crdDependents(crd *apiextensionsv1.CustomResourceDefinition) []object.Key {
	c.usages.crdChanged(crd)
	var waiting []object.Key // for another kind of their namespace to be deleted
	if owner, owned := kubecrd.Owner(crd); owned && owner.Namespace != "" {
		if _, exists := c.Kinds.CRD(kubecrd.GroupKind(crd)); !exists {
			waiting = c.registry.InNamespace(owner.Namespace)
		}
	}
	return slices.Concat(c.registry.Concerned(crd), c.graphs.Concerned(crd), c.composites.Concerned(crd), provider.Dependents(c.options.Providers, crd), packageOf(crd), waiting)
}

// groupDependents returns the definitions of both dialects to reconcile after a change of how a version of an API group is served.
func (c *Controllers) groupDependents(group string) []object.Key {
	return slices.Concat(c.registry.InGroup(group), c.graphs.InGroup(group), c.composites.InGroup(group))
}

// Run installs the dialects' kinds, then runs the controllers until the context ends or a
// permanent failure. It returns when everything that it started has ended.
func (c *Controllers) Run(ctx context.Context) error {
	defer c.Functions.Close()
	ctx, cancel := context.WithCancel(ctx)
	var checks sync.WaitGroup
	checks.Go(func() { c.permissions.run(ctx) })
	defer checks.Wait()
	defer cancel() // also if the cluster fails
	err := c.Cluster.Run(ctx, func(ctx context.Context) error {
		if c.options.AdmissionPolicies {
			go c.installPolicies(ctx)
		}
		c.usages.startServing()
		if err := c.startProviders(ctx); err != nil {
			return err
		}
		if c.dialects.serves(Composition) {
			if err := c.startFunctions(ctx); err != nil {
				return err
			}
			c.startComposites(ctx)
			if c.options.Operations != nil {
				c.startOperations(ctx)
			}
		}
		if c.dialects.serves(Graph) {
			c.startGraphs()
		}
		return nil
	})
	return c.permissions.explain(ctx, err)
}

// startGraphs serves the graph dialect's definitions, and the kinds that they define.
func (c *Controllers) startGraphs() {
	c.Serve(definition.RevisionKind, &definition.Orphans{Cluster: c.Client, Kinds: c.Kinds, Hub: c.Hub, Now: c.options.Now})
	for _, kind := range []string{v1alpha1.ResourceGraphDefinitionKind, v1alpha1.ResourceGroupKind} {
		gvk := v1alpha1.GroupVersion.WithKind(kind)
		c.Start(gvk, definition.New(c.definitionConfig(gvk)))
	}
	if c.graphs != nil {
		c.graphs.Keys = c.Keys
		c.Serve(graph.GraphKind, c.graphs)
	}
}

// installPolicies installs the admission policies, and retries until that succeeds. A forbidden
// request is among the missing permissions that Notes and metrics report.
func (c *Controllers) installPolicies(ctx context.Context) {
	log := c.options.Log.WithName("admission")
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 8, Cap: 5 * time.Minute}
	for {
		err := admission.Install(ctx, c.Client)
		if err == nil || ctx.Err() != nil {
			return
		}
		log.Error(err, "cannot install the admission policies; until then any author of definitions can name any service account; retrying")
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Step()):
		}
	}
}

// Collectors are the metrics besides those of watches and reconciles.
func (c *Controllers) Collectors() []prometheus.Collector {
	return []prometheus.Collector{c.Rollouts, c.limits.Exceeded, c.Quota, newPermissionCollector(c.permissions.missing),
		telemetry.NewReadiness(c.Engine.Kinds, c.Objects)}
}

// Notes are remarks on the state of the controllers, each in one line.
func (c *Controllers) Notes() []string {
	notes := append(c.dialects.notes(), c.permissions.notes()...)
	if c.crossplane != nil {
		notes = append(notes, c.crossplane.Notes()...)
	}
	return notes
}

// startProviders serves managed resources.
func (c *Controllers) startProviders(ctx context.Context) error {
	return provider.Start(ctx, c.Cluster, provider.Options{
		Providers: c.options.Providers, Events: c.options.Events, PollInterval: c.options.Poll.Duration, Now: c.options.Now,
		LeaderUntil: c.options.LeaderUntil, Leader: c.options.Leader, Usages: c.usages.index,
	})
}

// startComposites serves the composition dialect's definitions, and the kinds that they
// define.
func (c *Controllers) startComposites(ctx context.Context) {
	composites := composition.Options{
		Runner: c.Functions, SubscribeToFunctions: c.Functions.Subscribe, Functions: c.Functions.NamesWithoutObject(), CheckInput: c.Functions.CheckInput,
		Usages: c.usages.index, Layers: c.layers, Limits: c.limits, Decided: c.options.Decided,
		Version: c.options.Version, AdditionalPrinterColumns: c.options.MoreColumns, Registry: c.composites, Events: c.options.Events,
		Rollouts: c.Rollouts, Now: c.options.Now,
	}
	if c.options.WrapRunner != nil {
		composites.Runner = c.options.WrapRunner(c.Functions)
	}
	composites.Runner = measuredFunctions{composites.Runner}
	if c.options.Composites != nil {
		composites.Reconcilers = c.options.Composites(c.Cluster)
	}
	composition.Start(ctx, c.Cluster, composites)
}

// startFunctions starts the controllers of functions and their revisions: those that install them, or those that only report what
// serves them.
func (c *Controllers) startFunctions(ctx context.Context) error {
	if c.options.Packages != nil {
		if err := c.startPackages(ctx); err != nil {
			return err
		}
		c.Functions.Start(c.Enqueue)
		return nil
	}
	r := packages.Reconciler{Registry: c.Functions, Cluster: c.Client, Hub: c.Hub, Now: c.options.Now}
	c.Serve(packages.FunctionKind, &r)
	c.Serve(packages.RevisionKind, &packages.Revisions{Reconciler: r})
	c.Functions.Start(c.Enqueue)
	return nil
}

func (c *Controllers) definitionConfig(kind schema.GroupVersionKind) definition.Config {
	return definition.Config{
		Config: serving.Config{
			Kind: kind, Cluster: c.Client, Kinds: c.Kinds, Hub: c.Hub, Engine: c.Engine, Events: c.options.Events, Now: c.options.Now,
			Published: c.RecordCRD, Held: c.Instances, AdditionalPrinterColumns: c.options.MoreColumns,
			MaxKindsPerNamespace: c.options.ResourceGroups.MaxKinds,
		},
		Registry: c.registry, NamespacedGroups: c.options.ResourceGroups.APIGroups, Version: c.options.Version, Keys: c.Keys,
		AllowCRDDeletion: c.options.AllowCRDDeletion, RequireServiceAccount: c.options.RequireServiceAccount, OneUser: c.options.OneUser, SecretOutputs: c.options.SecretOutputs,
		Usages: c.usages.index, Layers: c.layers, Limits: c.limits, Decided: c.options.Decided, Rollouts: c.Rollouts, As: c.account,
		Conversions: c.conversions, Shard: c.options.Shard,
	}
}

// account returns the service account that the instances of a definition are reconciled as.
func (c *Controllers) account(named v1alpha1.ServiceAccount) (definition.Account, error) {
	a, err := c.AccountFor(named.Namespace, named.Name)
	if err != nil {
		return definition.Account{}, err
	}
	return definition.Account{User: a.User, Named: named, Cluster: a.Client, Hub: a.Hub, Lifetime: a}, nil
}
