package server

import (
	"context"
	"strings"

	ops "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/operation"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
)

// OperationOptions are how operations are run.
type OperationOptions struct {
	// Namespace has the lease of a Crossplane.
	Namespace string
	// ServiceAccount is the account of operations that name none; nil for none.
	ServiceAccount *ops.ServiceAccountReference
	// OneUser has operations without an account reconciled as the controllers.
	OneUser bool
}

// startOperations serves Operations, CronOperations and WatchOperations.
func (c *Controllers) startOperations(ctx context.Context) {
	runner := packages.Operations{Registry: c.Functions}
	config := operation.Config{
		Cluster: c.Client, Hub: c.Hub, Kinds: c.Kinds, Functions: runner, Events: c.options.Events, Now: c.options.Now,
		DefaultAccount: c.options.Operations.ServiceAccount, OneUser: c.options.OneUser || c.options.Operations.OneUser, OtherEngine: c.crossplane.IsRunning,
		Account: func(named ops.ServiceAccountReference) (operation.Account, error) {
			a, err := c.AccountFor(named.Namespace, named.Name)
			if err != nil {
				return operation.Account{}, err
			}
			return operation.Account{Cluster: a.Client, Hub: a.Hub}, nil
		},
	}
	context.AfterFunc(ctx, c.Functions.Subscribe(func(string) {
		for _, key := range c.Hub.Keys(operation.Kind) { // those that wait for functions
			c.Engine.Enqueue(watch.Subscriber{Key: key}, watch.Cause{Priority: watch.Background})
		}
	}))
	c.Serve(operation.Kind, &operation.Operations{Config: config})
	c.Serve(operation.CronKind, &operation.CronOperations{Config: config})
	c.Serve(operation.WatchKind, &operation.WatchOperations{Config: config})
}

// operationOptions returns nil if no operations are run.
func (c ControllerConfiguration) operationOptions() *OperationOptions {
	if !c.Operations.Enabled {
		return nil
	}
	o := &OperationOptions{Namespace: c.packageNamespace()}
	if namespace, name, ok := strings.Cut(c.Operations.ServiceAccount, "/"); ok {
		o.ServiceAccount = &ops.ServiceAccountReference{Namespace: namespace, Name: name}
	}
	return o
}
