package controller

import (
	"context"
	"time"

	"github.com/espalier-dev/espalier/internal/composition/packages/runtime"
	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// Runtime runs the programs of revisions. Its methods are called in each reconcile of a revision: they write only what differs,
// and do not wait. A change of what they return brings another reconcile: of objects by the lease, of anything else by the
// runtime itself. They are called concurrently for different revisions.
type Runtime interface {
	// Start makes a program run as it is described.
	Start(ctx context.Context, lease *watch.Lease, p runtime.Program) (State, error)
	// TakeOver points the endpoint of the package at this revision. Its program is ready.
	TakeOver(ctx context.Context, lease *watch.Lease, p runtime.Program) error
	// Stop ends a program. The endpoint stays with the revision that has taken over.
	Stop(ctx context.Context, lease *watch.Lease, p runtime.Program) error
}

// State is the state of a program.
type State struct {
	// Ready says that it can take over, or serves already; otherwise Message says why not.
	Ready   bool
	Message string
	// Serves says that the endpoint of the package leads to it.
	Serves bool
	// Endpoint is the address of the package, and the Secrets have its certificates.
	Endpoint, ServerSecret, ClientSecret string
	// After is when the state has to be looked at again; 0 if an event says so.
	After time.Duration
}
