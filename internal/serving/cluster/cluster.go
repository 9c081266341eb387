// Package cluster is what all controllers share: a connection to an API server, discovery of
// its kinds, watches, and the engine that runs controllers.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/inflight"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/wire"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/hold"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// Options configure a cluster.
type Options struct {
	// Config is the connection to the API server.
	Config *rest.Config
	// Workers is the number of concurrent reconciles.
	Workers int
	// Timeouts bound the reconciles of kinds that have a bound of their own; others have one minute.
	Timeouts map[schema.GroupKind]time.Duration
	// RequestsInFlight is how many of their requests are sent at a time; 0 is inflight.DefaultSeats.
	RequestsInFlight int
	Log              logr.Logger
	// Observe is called after each reconcile; optional.
	Observe func(reconcile.Run)
	// Tracer makes spans of events, reconciles and requests; nil for none.
	Tracer *tracing.Tracer
	// CRDDependents returns the objects to enqueue when a CustomResourceDefinition changes;
	// GroupDependents those that use kinds of a group, when its versions change. Both are
	// optional, are called concurrently and must not block.
	CRDDependents   func(*apiextensionsv1.CustomResourceDefinition) []object.Key
	GroupDependents func(group string) []object.Key
	// Remedy says what to do so that a kind is served that is not; optional. See kube.Kinds.
	Remedy func(schema.GroupKind) string
	// OnPermissionsChange is called when the permissions of a user have changed, as far as
	// they were requested before; an empty name is this program. It is optional, is called
	// concurrently and must not block.
	OnPermissionsChange func(user string)
	// Lease is the lease of the leader election; empty without leader election.
	Lease Lease
	// Shard selects the objects that this installation works on, if several share the cluster.
	Shard shard.Selector
	// Installations returns the names of the leases of this program that are held, one for each installation; nil if
	// there is only one.
	Installations func(context.Context) ([]string, error)
	// WatchLimits bound the watches of all hubs together.
	WatchLimits watch.Limits
	// SigningKeyNamespace is where the signing key is created, unless the cluster records another
	// namespace; empty for controllers that need no key.
	SigningKeyNamespace string
	// Annotated are the kinds of which all annotations are cached; optional.
	Annotated []schema.GroupVersionKind
	// ClusterRolesOnly says that this program has its permissions on kinds in all namespaces, as providers have: it watches
	// ClusterRoles for them, and needs no permission to read Roles.
	ClusterRolesOnly bool
	// ExtraCRDs returns the CustomResourceDefinitions that Run installs in addition to the
	// cluster's own, one YAML document per file. It is optional, and is called before the
	// controllers start, with a function that returns those that are installed.
	ExtraCRDs func(installed func(name string) (*apiextensionsv1.CustomResourceDefinition, bool)) []fs.FS
}

// Cluster is a connection to one API server with everything that controllers share. Its
// fields are safe for concurrent use.
type Cluster struct {
	Client *kube.Client
	Kinds  *kube.Kinds
	Hub    *watch.Hub
	Engine *queue.Engine
	CRDs   *kube.CRDs
	// Quota counts the watches of all hubs.
	Quota *watch.Quota
	// Gate suspends controllers while there is a Hold.
	Gate *hold.Gate
	// Requests limits the requests in flight of reconciles.
	Requests *inflight.Limiter
	// Profiler measures what each kind costs.
	Profiler *telemetry.Profiler
	// Keys are the signing keys of the installation, once controllers start.
	Keys inventory.Keys

	options     Options
	accounts    accounts
	permissions *permissionReviewer
	runContext  context.Context // of Run
	started     chan struct{}   // closed once the controllers run
}

// New returns a cluster; Run runs it.
func New(o Options) (*Cluster, error) {
	k := &Cluster{started: make(chan struct{}), Requests: inflight.New(o.RequestsInFlight)}
	sent := traced(kube.CountRequests(o.Config, telemetry.CountRequest), o.Tracer)
	if !o.Shard.All() {
		sent = kube.RefuseWrites(sent)
	}
	o.Config = kube.PlainWatches(kube.RetryInitializing(k.Requests.Wrap(sent)))
	if o.Config.WarningHandler == nil && o.Config.WarningHandlerWithContext == nil {
		o.Config.WarningHandler = rest.NoWarnings{} // they are for the authors of objects: that a version is deprecated, for example
	}
	if o.CRDDependents == nil {
		o.CRDDependents = func(*apiextensionsv1.CustomResourceDefinition) []object.Key { return nil }
	}
	if o.GroupDependents == nil {
		o.GroupDependents = func(string) []object.Key { return nil }
	}
	k.permissions = newPermissionReviewer(k)
	config := k.permissions.watchForbidden(o.Config, "")
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	dyn, err := wire.NewClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	disc, err := discovery.NewDiscoveryClientForConfig(withTimeout(o.Config))
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	k.options, k.Kinds = o, kube.NewKinds(disc)
	k.Kinds.Remedy = o.Remedy
	if k.CRDs, err = kube.NewCRDs(config, httpClient, o.Log.WithName("kinds"), crd.Keep, k.crdChanged); err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	k.Client = kube.NewClient(dyn, k.Kinds)
	k.Client.OnPermissionsChange(func() { k.permissionsChanged("") })
	k.Quota = watch.NewQuota(o.WatchLimits)
	k.Hub = watch.New(k.watchConfig(dyn))
	k.Gate = &hold.Gate{Cluster: k.Client, Hub: k.Hub, Enqueue: k.Enqueue, Now: time.Now, Log: o.Log.WithName("hold")}
	k.Profiler = telemetry.NewProfiler(time.Now(), func() []schema.GroupVersionKind { return k.Engine.Kinds() })
	k.Gate.Installation, k.Gate.Installations = o.Lease.Name, o.Installations
	k.Engine = queue.New(queue.Config{
		Hub: k.Hub, Workers: o.Workers, Timeouts: o.Timeouts, Log: o.Log.WithName("reconcile"), Observe: k.observe, Tracer: o.Tracer, OnBehalfOf: k.claimNamespace,
		Context: k.reconcileContext,
	})
	return k, nil
}

// reconcileContext is the context of the reconciles of a kind and namespace.
func (k *Cluster) reconcileContext(ctx context.Context, kind schema.GroupVersionKind, namespace string) context.Context {
	return inflight.WithFlow(k.Profiler.Context(ctx, kind), inflight.Flow{Kind: kind.GroupKind(), Namespace: namespace})
}

// observe is called after each reconcile.
func (k *Cluster) observe(run reconcile.Run) {
	k.Profiler.Observe(run)
	if k.options.Observe != nil {
		k.options.Observe(run)
	}
}

// traced returns a configuration whose requests a tracer makes spans of.
func traced(config *rest.Config, t *tracing.Tracer) *rest.Config {
	if t == nil {
		return config
	}
	config = rest.CopyConfig(config)
	config.Wrap(t.Transport)
	return config
}

// claimNamespace returns the namespace of the claim of a composite; empty for other cluster-scoped
// objects.
func (k *Cluster) claimNamespace(kind schema.GroupVersionKind, key object.Key) string {
	composite, _ := k.Hub.GetCached(kind, "", key.Name)
	if composite == nil {
		return ""
	}
	return composite.GetLabels()[apiextensions.ClaimNamespaceLabel]
}

// watchConfig returns the configuration of a hub that watches with a client.
func (k *Cluster) watchConfig(client dynamic.Interface) watch.Config {
	kinds := rbacKinds
	if k.options.ClusterRolesOnly {
		kinds = clusterRBACKinds
	}
	return watch.Config{
		Client:            client,
		Resolve:           k.resolve,
		Enqueue:           func(s watch.Subscriber, cause watch.Cause) { k.Engine.Enqueue(s, cause) },
		Wrote:             func(s watch.Subscriber, w watch.Write) { k.Engine.Wrote(s, w) },
		ManagedLabel:      v1alpha1.ApplySetPartOfLabel,
		FieldManager:      v1alpha1.ChildManager,
		IsForeignEntry:    keepsEntry,
		KeepLastApplied:   k.options.Annotated,
		KeepIfDeletedWith: inventory.IsFinalizer,
		PermissionKinds:   kinds,
		Quota:             k.Quota,
		Tracer:            k.options.Tracer,
		Logger:            k.options.Log.WithName("watch"),
	}
}

// keepsEntry reports whether caches keep a managed fields entry of another manager than our own: to tell the owner of an
// object, or to see what a contribution owns.
func keepsEntry(manager, operation, subresource string) bool {
	return managedfields.IsForeign(manager, operation, subresource) || plan.IsContributor(manager, operation)
}

// withTimeout returns a configuration whose requests time out: discovery takes no context, and
// an aggregated API may never respond.
func withTimeout(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Timeout = 15 * time.Second
	return config
}

// rbacKinds are the kinds that grant permissions to this program.
var rbacKinds = []schema.GroupVersionKind{
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// Run runs until the context ends, or an error that retrying cannot resolve. It calls start,
// which starts controllers, once all kinds are known: whether an object is gone for good
// depends on its kind, so that no controller may run before. Run returns when everything that
// it started has ended.
func (k *Cluster) Run(ctx context.Context, start func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	k.runContext = ctx
	defer k.accounts.running.Wait()
	group.Go(func() error {
		k.CRDs.Run(ctx)
		return nil
	})
	group.Go(func() error { return k.Hub.Run(ctx) })
	group.Go(func() error {
		k.dropAccounts(ctx)
		return nil
	})
	if k.options.OnPermissionsChange != nil {
		group.Go(func() error {
			k.permissions.run(ctx)
			return nil
		})
	}
	groups, groupsKnown := k.followGroups()
	defer groups.Stop()
	group.Go(func() error { return k.Engine.Run(ctx) })
	group.Go(func() error {
		for _, known := range []<-chan struct{}{k.CRDs.Synced(), groupsKnown} {
			select {
			case <-known:
			case <-ctx.Done():
				return nil
			}
		}
		if err := k.installAndStart(ctx, start); err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil
			}
			return err
		}
		close(k.started)
		k.Gate.Run(ctx)
		return nil
	})
	return group.Wait()
}

// installAndStart installs kinds, and starts the controllers once it is known whether there is
// a Hold.
func (k *Cluster) installAndStart(ctx context.Context, start func(context.Context) error) error {
	if err := retryOutage(ctx, k.options.Log, k.prepare); err != nil {
		return err
	}
	select {
	case <-k.Gate.Watch():
	case <-ctx.Done():
		return ctx.Err()
	}
	return start(ctx)
}

// prepare installs kinds, and records or reads what all programs of the cluster share. It may be repeated.
func (k *Cluster) prepare(ctx context.Context) error {
	if err := k.install(ctx); err != nil {
		return err
	}
	if err := k.recordLease(ctx); err != nil {
		return err
	}
	return k.loadSigningKeys(ctx)
}

// Base returns the cluster of controllers that embed it.
func (k *Cluster) Base() *Cluster { return k }

// CheckStarted returns nil once the controllers run, and otherwise why they do not.
func (k *Cluster) CheckStarted() error {
	select {
	case <-k.started:
		return nil
	default:
	}
	if why := k.Gate.Unreadable(); why != "" {
		return fmt.Errorf("the controllers are not running yet: cannot determine whether there is a Hold: %s", why)
	}
	return errors.New("the controllers are not running yet")
}

// WaitStarted waits until the controllers run, or returns the cause of the context's end.
func (k *Cluster) WaitStarted(ctx context.Context) error {
	select {
	case <-k.started:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Enqueue enqueues an object.
func (k *Cluster) Enqueue(key object.Key) {
	k.Engine.Enqueue(watch.Subscriber{Key: key}, watch.Cause{Priority: watch.Normal})
}

func (k *Cluster) resolve(ctx context.Context, gvk schema.GroupVersionKind) (watch.Resource, error) {
	r, err := k.Kinds.Resolve(ctx, gvk)
	var missing *kube.NoKindMatchError
	if errors.As(err, &missing) {
		_, defined := k.Kinds.CRD(gvk.GroupKind())
		return watch.Resource{}, &watch.UnavailableError{Reason: watch.WaitingForKind, Message: err.Error(), Remedy: missing.Remedy, Gone: !defined}
	}
	if err != nil {
		return watch.Resource{}, err
	}
	return watch.Resource{GVR: r.GVR, Namespaced: r.Namespaced}, nil
}
