package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube"
)

// crossplaneLease is the name of the lease of Crossplane's leader, in its namespace.
const crossplaneLease = "crossplane-leader-election-core"

// Crossplane knows whether a Crossplane runs that manages the packages of the cluster: two that write the same objects would undo
// each other's work forever. It is safe for concurrent use.
type Crossplane struct {
	Cluster   Cluster
	Namespace string
	Now       func() time.Time
	// Log is called when it begins or ends to run.
	Log func(text string)

	mu      sync.Mutex
	checked time.Time
	running bool
}

// IsRunning reads the lease at most once in a while. What cannot be read does not run.
func (c *Crossplane) IsRunning(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if !c.checked.IsZero() && now.Sub(c.checked) < crossplaneInterval/2 {
		return c.running
	}
	o, err := c.Cluster.Get(ctx, coordinationv1.SchemeGroupVersion.WithKind("Lease"), c.Namespace, crossplaneLease)
	if err != nil && !kube.IsObjectNotFound(err, crossplaneLease) {
		return c.running
	}
	running := err == nil && isHeld(o, now)
	if running != c.running {
		c.Log(map[bool]string{true: c.note(), false: "Crossplane does not run any more: its packages and operations are managed here"}[running])
	}
	c.checked, c.running = now, running
	return running
}

// Notes describes that it runs; empty otherwise.
func (c *Crossplane) Notes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return nil
	}
	return []string{c.note()}
}

func (c *Crossplane) note() string {
	return fmt.Sprintf("Crossplane runs (Lease %s/%s) and manages packages and operations, so that is not done here: stop it to let this program take over",
		c.Namespace, crossplaneLease)
}

func isHeld(lease *unstructured.Unstructured, now time.Time) bool {
	l, err := decode[coordinationv1.Lease](lease)
	if err != nil || l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		return false
	}
	return now.Before(l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second))
}
