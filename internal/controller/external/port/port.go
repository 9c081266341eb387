// Package port is how the controller of managed resources sees a provider: without
// its Go types.
package port

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Kind is a kind of managed resources.
type Kind struct {
	GVK     schema.GroupVersionKind
	Caps    func() external.Caps
	Connect func(context.Context, *unstructured.Unstructured) (Session, error)
}

// Session is a provider's client, connected for one managed resource: see
// managed.Client.
type Session interface {
	Identify() (external.Key, error)
	Observe(context.Context, external.Ref) (external.Observation, error)
	Find(context.Context, external.Key, external.Mark) ([]external.Observation, error)
	Prepare(external.Verb, external.Observation) (external.Request, error)
	Begin(context.Context, external.Intent) (external.Op, error)
	Poll(context.Context, external.Op) (external.Op, error)
	Close() error
}
