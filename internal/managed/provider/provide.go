// Package provider starts the controllers of providers' managed resources on a cluster.
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

// Options configure the controllers.
type Options struct {
	Providers []sdk.Provider
	Events    telemetry.Recorder
	// PollInterval is how often external resources are observed without an event;
	// DefaultPollInterval if it is 0.
	PollInterval time.Duration
	// Now is the clock.
	Now func() time.Time
	// LeaderUntil is until when this process is certain to be the only leader. It is optional,
	// and returns zero without leader election.
	LeaderUntil func() time.Time
	// Leader returns this process and the epoch of its leadership. It is optional.
	Leader func() (holder string, epoch int64)
	// Usages knows which managed resources are in use; optional.
	Usages managed.Usages
}

// DefaultPollInterval is how often external resources are observed without an event, unless
// Options set another interval.
const DefaultPollInterval = time.Minute

// CRDs are the CustomResourceDefinitions of providers, which have to be installed.
func CRDs(providers []sdk.Provider) []fs.FS {
	var out []fs.FS
	for _, p := range providers {
		out = append(out, p.CRDs)
	}
	return out
}

// Start starts a controller for each kind of the providers, and one for the Bindings of
// managed resources that are gone. Without providers it does nothing.
func Start(ctx context.Context, k *cluster.Cluster, o Options) error {
	if len(o.Providers) == 0 {
		return nil
	}
	installation, err := installationID(ctx, k)
	if err != nil {
		return err
	}
	if o.LeaderUntil == nil {
		o.LeaderUntil = func() time.Time { return time.Time{} }
	}
	if o.Leader == nil {
		o.Leader = func() (string, int64) { return "", 0 }
	}
	begin := func(s watch.Subscriber) managed.Lease { return k.Hub.Begin(s) }
	served := map[schema.GroupKind]struct{}{}
	for _, p := range o.Providers {
		guardConfigs(k, o, p)
		for _, kind := range p.Kinds {
			served[kind.Port().GVK.GroupKind()] = struct{}{}
			k.Serve(kind.Port().GVK, &managed.Reconciler{
				Port: kind.Port(), Bindings: k.Client, Resources: k.Client, Secrets: k.Client, Cache: k.Hub, Watch: begin,
				Events: o.Events, Now: o.Now, LeaderUntil: o.LeaderUntil, Leader: o.Leader,
				Random: rand.Text, Installation: installation, PollInterval: cmp.Or(o.PollInterval, DefaultPollInterval), Enqueue: k.Enqueue,
				Usages: o.Usages,
			})
		}
	}
	k.Serve(managed.BindingKind, &managed.Expirer{Kinds: served, Bindings: k.Client, Cache: k.Hub, Watch: begin, Now: o.Now})
	return nil
}

// guardConfigs starts the controllers that keep a provider's configurations from being
// deleted while they are used.
func guardConfigs(k *cluster.Cluster, o Options, p sdk.Provider) {
	var users []schema.GroupVersionKind
	for _, kind := range p.Kinds {
		users = append(users, kind.Port().GVK)
	}
	for i, config := range p.Configs {
		k.Engine.Start(config, &managed.Guard{
			Config: config, Default: i == 0, UserKinds: users, Configs: k.Client, Cache: k.Hub, Events: o.Events,
			Watch: func(s watch.Subscriber) managed.Lease { return k.Hub.Begin(s) },
		}, nil)
	}
}

// installationID identifies this control plane permanently: it is the UID of the namespace
// kube-system.
func installationID(ctx context.Context, k *cluster.Cluster) (string, error) {
	namespace, err := k.Client.Get(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), "", "kube-system")
	if err != nil {
		return "", fmt.Errorf("identify the control plane: %w", err)
	}
	return string(namespace.GetUID()), nil
}
