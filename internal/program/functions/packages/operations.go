package packages

import (
	"context"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Operations calls functions for operations. A package has to have the capability for that; which capabilities other functions have is
// unknown, so each of them is called.
type Operations struct{ *Registry }

// Run calls a function.
func (o Operations) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	return o.run(ctx, o.route(name), name, request)
}

// Problem is why a function cannot be called now; empty if it can be. Subscribers are notified when that may have changed.
func (o Operations) Problem(name string) string { return o.route(name).Problem.Message }

func (o Operations) route(name string) Route {
	if o.Route(name).Problem.Reason == FunctionsNotKnown {
		o.trackUnsynced(name)
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	in := o.routeInput(name)
	in.operation = true
	return routeFor(in)
}
