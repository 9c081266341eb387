package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/controller/external"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// pollManaged is how often external resources are looked at that nothing happens
// to.
const pollManaged = time.Minute

// serveProviders installs what providers need and starts a controller for each of
// their kinds, and one for what is left of those that have gone.
func (c *Controllers) serveProviders(ctx context.Context) error {
	if len(c.options.Providers) == 0 {
		return nil
	}
	if err := c.install(ctx, espalier.CRDs); err != nil {
		return err
	}
	installation, err := c.installation(ctx)
	if err != nil {
		return err
	}
	for _, p := range c.options.Providers {
		if err := c.install(ctx, p.CRDs); err != nil {
			return fmt.Errorf("provider %s: %w", p.Name, err)
		}
		for _, kind := range p.Kinds {
			c.Engine.Start(kind.Port().GVK, &external.Reconciler{
				Port: kind.Port(), Cluster: c.Client, Hub: c.Hub, Events: c.options.Events, Now: c.options.Now,
				Random: rand.Text, Installation: installation, Poll: pollManaged, Wake: c.Wake,
			}, nil)
		}
		c.guardConfigs(p)
	}
	c.Engine.Start(external.Kind, &external.Expirer{Cluster: c.Client, Hub: c.Hub, Now: c.options.Now}, nil)
	return nil
}

// guardConfigs keeps the configurations of a provider as long as they are used.
func (c *Controllers) guardConfigs(p managed.Provider) {
	var users []schema.GroupVersionKind
	for _, kind := range p.Kinds {
		users = append(users, kind.Port().GVK)
	}
	for i, config := range p.Configs {
		c.Engine.Start(config, &external.Guard{
			Config: config, Default: i == 0, Users: users, Cluster: c.Client, Hub: c.Hub, Events: c.options.Events,
		}, nil)
	}
}

// installation names this control plane for good, by the UID of its first
// namespace.
func (c *Controllers) installation(ctx context.Context) (string, error) {
	namespace, err := c.Client.Get(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), "", "kube-system")
	if err != nil {
		return "", fmt.Errorf("find out which control plane this is: %w", err)
	}
	return string(namespace.GetUID()), nil
}
