// Package provider starts what serves providers' managed resources on a cluster.
package provider

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed"
	"github.com/espalier-dev/espalier/internal/manager/cluster"
	"github.com/espalier-dev/espalier/internal/telemetry"
	sdk "github.com/espalier-dev/espalier/sdk/managed"
)

// Options say what is served.
type Options struct {
	Providers []sdk.Provider
	Events    telemetry.Recorder
	// Poll is how often external resources are looked at that nothing happens to; the
	// constant of that name by default.
	Poll time.Duration
	// Now tells the time.
	Now func() time.Time
	// Until is until when no other process can be at the same work; optional, and
	// zero for as long as this one likes.
	Until func() time.Time
	// Usages tells which managed resources are in use; optional.
	Usages managed.Usages
}

// Poll is how often external resources are looked at that nothing happens to, unless
// something else is said.
const Poll = time.Minute

// CRDs hold the CustomResourceDefinitions of providers, which the cluster is to install.
func CRDs(providers []sdk.Provider) []fs.FS {
	var out []fs.FS
	for _, p := range providers {
		out = append(out, p.CRDs)
	}
	return out
}

// Start starts a controller for each kind of the providers, and one for what is left of
// those that have gone. Without providers it does nothing.
func Start(ctx context.Context, k *cluster.Cluster, o Options) error {
	if len(o.Providers) == 0 {
		return nil
	}
	installation, err := installation(ctx, k)
	if err != nil {
		return err
	}
	if o.Until == nil {
		o.Until = func() time.Time { return time.Time{} }
	}
	begin := func(s watch.Subscriber) managed.Lease { return k.Hub.Begin(s) }
	served := map[schema.GroupKind]struct{}{}
	for _, p := range o.Providers {
		guardConfigs(k, o, p)
		for _, kind := range p.Kinds {
			served[kind.Port().GVK.GroupKind()] = struct{}{}
			k.Serve(kind.Port().GVK, &managed.Reconciler{
				Port: kind.Port(), Bindings: k.Client, Resources: k.Client, Secrets: k.Client, Cache: k.Hub, Watch: begin,
				Events: o.Events, Now: o.Now, Until: o.Until,
				Random: rand.Text, Installation: installation, Poll: cmp.Or(o.Poll, Poll), Wake: k.Wake,
				Usages: o.Usages,
			})
		}
	}
	k.Serve(managed.Kind, &managed.Expirer{Kinds: served, Bindings: k.Client, Cache: k.Hub, Watch: begin, Now: o.Now})
	return nil
}

// guardConfigs keeps the configurations of a provider as long as they are used.
func guardConfigs(k *cluster.Cluster, o Options, p sdk.Provider) {
	var users []schema.GroupVersionKind
	for _, kind := range p.Kinds {
		users = append(users, kind.Port().GVK)
	}
	for i, config := range p.Configs {
		k.Engine.Start(config, &managed.Guard{
			Config: config, Default: i == 0, Users: users, Configs: k.Client, Cache: k.Hub, Events: o.Events,
			Watch: func(s watch.Subscriber) managed.Lease { return k.Hub.Begin(s) },
		}, nil)
	}
}

// installation names this control plane for good, by the UID of its first
// namespace.
func installation(ctx context.Context, k *cluster.Cluster) (string, error) {
	namespace, err := k.Client.Get(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), "", "kube-system")
	if err != nil {
		return "", fmt.Errorf("find out which control plane this is: %w", err)
	}
	return string(namespace.GetUID()), nil
}
