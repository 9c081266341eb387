package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/controller/external"
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
	installation, err := c.installation(ctx)
	if err != nil {
		return err
	}
	for _, p := range c.options.Providers {
		if err := c.install(ctx, p.CRDs); err != nil {
			return fmt.Errorf("provider %s: %w", p.Name, err)
		}
		for _, kind := range p.Kinds {
			gvk := kind.Port().GVK
			c.Engine.Start(gvk, c.gate.Keep(gvk, &external.Reconciler{
				Port: kind.Port(), Cluster: c.Client, Hub: c.Hub, Events: c.options.Events, Now: c.options.Now,
				Random: rand.Text, Installation: installation, Poll: pollManaged, Wake: c.Wake,
			}), nil)
		}
	}
	c.Engine.Start(external.Kind, c.gate.Keep(external.Kind, &external.Expirer{Cluster: c.Client, Hub: c.Hub, Now: c.options.Now}), nil)
	return nil
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
