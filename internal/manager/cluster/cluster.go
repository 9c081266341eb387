// Package cluster is what every program of ours runs on: one connection to an API
// server, what is known of its kinds, shared watches, and the engine that runs
// controllers. Which controllers these are is for others to say.
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

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/manager/hold"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
)

// Options are what a cluster needs to know.
type Options struct {
	// Config is how to reach the API server.
	Config *rest.Config
	// Workers is how many objects are worked on side by side.
	Workers int
	Log     logr.Logger
	// Observe is told of each pass; optional.
	Observe func(reconcile.Run)
	// Concerned lists the objects to look at again when a kind changes, and Using
	// those that use kinds of a group; both are optional. They are called from many
	// goroutines and must not block.
	Concerned func(*apiextensionsv1.CustomResourceDefinition) []object.Key
	Using     func(group string) []object.Key
	// Permitted is told that this program, or the user of an account, is allowed something
	// else than before, as far as that was asked for; optional. An empty name is for the
	// program. It is called from many goroutines and must not block.
	Permitted func(user string)
	// Annotated are kinds all of whose annotations are read; optional.
	Annotated []schema.GroupVersionKind
	// Installs tells which CustomResourceDefinitions Run installs beside the cluster's own, one
	// YAML document a file; optional. It is asked before the controllers begin, with those
	// that there are.
	Installs func(installed func(name string) (*apiextensionsv1.CustomResourceDefinition, bool)) []fs.FS
}

// Cluster is a connection to one API server with all that controllers share. Its
// parts are safe for concurrent use.
type Cluster struct {
	Client *kube.Client
	Kinds  *kube.Kinds
	Hub    *watch.Hub
	Engine *queue.Engine
	CRDs   *kube.CRDs
	// Gate lets controllers rest while there is a Hold.
	Gate *hold.Gate

	options     Options
	accounts    accounts
	permissions *permissions
	life        context.Context // of Run
	started     chan struct{}   // closed once the controllers run
}

// New prepares a cluster; Run runs it.
func New(o Options) (*Cluster, error) {
	o.Config = kube.RetryInitializing(o.Config)
	if o.Config.WarningHandler == nil && o.Config.WarningHandlerWithContext == nil {
		o.Config.WarningHandler = rest.NoWarnings{} // they are for those who write the objects: that a version is deprecated, say
	}
	if o.Concerned == nil {
		o.Concerned = func(*apiextensionsv1.CustomResourceDefinition) []object.Key { return nil }
	}
	if o.Using == nil {
		o.Using = func(string) []object.Key { return nil }
	}
	k := &Cluster{started: make(chan struct{})}
	k.permissions = newPermissions(k)
	noticing := k.permissions.noticing(o.Config, "")
	httpClient, err := rest.HTTPClientFor(noticing)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	dyn, err := dynamic.NewForConfigAndClient(noticing, httpClient)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	disc, err := discovery.NewDiscoveryClientForConfig(bounded(o.Config))
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	k.options, k.Kinds = o, kube.NewKinds(disc)
	if k.CRDs, err = kube.NewCRDs(noticing, httpClient, o.Log.WithName("kinds"), k.crdChanged); err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	k.Client = kube.NewClient(dyn, k.Kinds)
	k.Client.OnChange(func() { k.permitted("") })
	k.Hub = watch.New(k.watching(dyn))
	k.Gate = &hold.Gate{Cluster: k.Client, Hub: k.Hub, Wake: k.Wake, Now: time.Now, Log: o.Log.WithName("hold")}
	k.Engine = queue.New(queue.Config{Hub: k.Hub, Workers: o.Workers, Log: o.Log.WithName("reconcile"), Observe: o.Observe})
	return k, nil
}

// watching is how the cluster's hubs watch.
func (k *Cluster) watching(client dynamic.Interface) watch.Config {
	return watch.Config{
		Client:       client,
		Resolve:      k.resolve,
		Enqueue:      func(s watch.Subscriber, cause watch.Cause) { k.Engine.Enqueue(s, cause) },
		Managed:      v1alpha1.ApplySetPartOfLabel,
		FieldManager: v1alpha1.ChildManager,
		Former:       managedfields.IsFormer,
		Annotated:    k.options.Annotated,
		Rights:       rights,
		Logger:       k.options.Log.WithName("watch"),
	}
}

// bounded returns a configuration whose requests end: discovery takes no context,
// and an aggregated API may never answer.
func bounded(config *rest.Config) *rest.Config {
	bounded := rest.CopyConfig(config)
	bounded.Timeout = 15 * time.Second
	return bounded
}

// rights are the kinds that grant this program what it may do.
var rights = []schema.GroupVersionKind{
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// Run runs until the context ends, or something that can't be repaired fails.
// Begin is called once all kinds are known: what is known of them decides whether
// objects are gone for good, so that no controller may run before. Run returns
// when everything that it started has ended.
func (k *Cluster) Run(ctx context.Context, begin func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	k.life = ctx
	defer k.accounts.lives.Wait()
	group.Go(func() error {
		k.CRDs.Run(ctx)
		return nil
	})
	group.Go(func() error { return k.Hub.Run(ctx) })
	if k.options.Permitted != nil {
		group.Go(func() error {
			k.permissions.run(ctx)
			return nil
		})
	}
	groups, told := k.followGroups()
	defer groups.Stop()
	group.Go(func() error { return k.Engine.Run(ctx) })
	group.Go(func() error {
		for _, known := range []<-chan struct{}{k.CRDs.Complete(), told} {
			select {
			case <-known:
			case <-ctx.Done():
				return nil
			}
		}
		if err := k.begin(ctx, begin); err != nil {
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

// begin installs kinds, and lets the controllers begin once it is known whether there is
// a Hold.
func (k *Cluster) begin(ctx context.Context, begin func(context.Context) error) error {
	if err := k.install(ctx); err != nil {
		return err
	}
	select {
	case <-k.Gate.Watch():
	case <-ctx.Done():
		return ctx.Err()
	}
	return begin(ctx)
}

// Serve starts the controller of a kind whose passes rest while there is a Hold.
func (k *Cluster) Serve(kind schema.GroupVersionKind, r queue.Reconciler) {
	k.Engine.Start(kind, k.Gate.Wrap(kind, r), nil)
}

// Base is the cluster itself, of controllers that embed it.
func (k *Cluster) Base() *Cluster { return k }

// Serving says whether the controllers run that Run begins: nil when they do.
func (k *Cluster) Serving() error {
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

// AwaitServing waits until they run.
func (k *Cluster) AwaitServing(ctx context.Context) error {
	select {
	case <-k.started:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wake asks for a pass over an object.
func (k *Cluster) Wake(key object.Key) {
	k.Engine.Enqueue(watch.Subscriber{Key: key}, watch.Cause{Priority: watch.Normal})
}

func (k *Cluster) resolve(ctx context.Context, gvk schema.GroupVersionKind) (watch.Resource, error) {
	r, err := k.Kinds.Resolve(ctx, gvk)
	if kube.IsUnavailable(err) {
		_, defined := k.Kinds.CRD(gvk.GroupKind())
		return watch.Resource{}, &watch.UnavailableError{Reason: watch.WaitingForKind, Message: err.Error(), Gone: !defined}
	}
	if err != nil {
		return watch.Resource{}, err
	}
	return watch.Resource{GVR: r.GVR, Namespaced: r.Namespaced}, nil
}
