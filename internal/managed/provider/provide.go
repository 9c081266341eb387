// Package provider starts the controllers of providers' managed resources on a cluster.
package provider

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed"
	"github.com/espalier-dev/espalier/internal/managed/activation"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
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
	// LeaderUntil is how long this process is certain to be the only leader. It is optional, and returns zero without
	// leader election.
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

// Start starts a controller for each kind of the providers, one for the activations of each
// catalog, and one for the Bindings of managed resources that are gone. Without providers it does
// nothing.
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
	s := starter{k, o, installation}
	for _, p := range o.Providers {
		s.guardConfigs(p)
		for _, kind := range p.Kinds {
			s.serve(kind)
		}
		s.activate(p)
	}
	k.Serve(managed.BindingKind, &managed.Expirer{Handles: s.handles, Bindings: k.Client, Cache: k.Hub, Watch: s.begin, Now: o.Now})
	return nil
}

type starter struct {
	*cluster.Cluster
	Options
	installation string
}

func (s starter) begin(of watch.Subscriber) managed.Lease { return s.Hub.Begin(of) }

func (s starter) serve(kind sdk.Kind) *queue.Controller {
	return s.Serve(kind.Port().GVK, &managed.Reconciler{
		Port: kind.Port(), Bindings: s.Client, Resources: s.Client, Secrets: s.Client, Cache: s.Hub, Watch: s.begin,
		Events: s.Events, Now: s.Now, LeaderUntil: s.LeaderUntil, Leader: s.Leader,
		Random: rand.Text, Installation: s.installation, PollInterval: cmp.Or(s.PollInterval, DefaultPollInterval), Enqueue: s.Enqueue,
		Usages: s.Usages,
	})
}

// The kind may be activated or not.
func (s starter) handles(kind schema.GroupKind) bool {
	for _, p := range s.Providers {
		if slices.ContainsFunc(p.Kinds, func(k sdk.Kind) bool { return k.Port().GVK.GroupKind() == kind }) {
			return true
		}
		if p.Catalog != nil {
			if _, _, ok := p.Catalog.TypeOf(kind); ok {
				return true
			}
		}
	}
	return false
}

// They keep a provider's configurations from being deleted while they are used.
func (s starter) guardConfigs(p sdk.Provider) {
	for i, config := range p.Configs {
		s.Start(config, &managed.Guard{
			Config: config, Default: i == 0, UserKinds: func() []schema.GroupVersionKind { return s.userKinds(p) },
			Configs: s.Client, Cache: s.Hub, Events: s.Events, Watch: s.begin,
		})
	}
}

// These include the installed kinds of its catalog, also before they are served, so no configuration is deleted
// meanwhile.
func (s starter) userKinds(p sdk.Provider) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, kind := range p.Kinds {
		out = append(out, kind.Port().GVK)
	}
	if p.Catalog == nil {
		return out
	}
	for _, c := range s.Kinds.ListCRDs(func(c *apiextensionsv1.CustomResourceDefinition) bool {
		return activation.IsOf(p.Name, c) && crd.IsEstablished(c)
	}) {
		out = append(out, crd.GroupKind(c).WithVersion(crd.StorageVersion(c)))
	}
	return out
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
