// Package operation reconciles Operations, CronOperations and WatchOperations.
//
// An Operation runs its pipeline until it has succeeded, or has failed too often, and never again. What its functions require is read from
// the API server at that time, and what they return is applied as the operation's service account: an operation never has the controllers'
// own permissions, except where the API server has one user. CronOperations and WatchOperations make Operations; which ones is decided in
// the package plan.
package operation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Manager is the field manager of the three kinds. What an operation applies has a manager of its own.
const Manager = "espalier.dev/operations"

// PausedAnnotation suspends the reconciles of an object while it is true.
const PausedAnnotation = "crossplane.io/paused"

// The kinds.
var (
	Kind      = opsv1alpha1.GroupVersion.WithKind(opsv1alpha1.OperationKind)
	CronKind  = opsv1alpha1.GroupVersion.WithKind(opsv1alpha1.CronOperationKind)
	WatchKind = opsv1alpha1.GroupVersion.WithKind(opsv1alpha1.WatchOperationKind)
)

// Cluster reads and writes on the API server; *kube.Client does.
type Cluster interface {
	writer.Cluster
	Create(ctx context.Context, o *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error)
	Update(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error)
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	ListIn(ctx context.Context, kind schema.GroupVersionKind, namespace, selector string) ([]unstructured.Unstructured, error)
	Delete(ctx context.Context, o *unstructured.Unstructured) error
}

// Kinds knows the kinds of the cluster; *kube.Kinds does.
type Kinds interface {
	Resolve(ctx context.Context, kind schema.GroupVersionKind) (kube.Resource, error)
	Lookup(ctx context.Context, kind schema.GroupVersionKind) (object.KindInfo, bool, error)
}

// Functions calls functions.
type Functions interface {
	pipeline.Runner
	// Problem is why operations cannot call a function now; empty if they can.
	Problem(name string) string
}

// Account is who an operation reads and writes as.
type Account struct {
	Cluster Cluster
	Hub     *watch.Hub
}

// Config is what the reconcilers need.
type Config struct {
	Cluster   Cluster
	Hub       *watch.Hub
	Kinds     Kinds
	Functions Functions
	Events    telemetry.Recorder
	Now       func() time.Time
	// Account returns the account of a service account.
	Account func(opsv1alpha1.ServiceAccountReference) (Account, error)
	// DefaultAccount is the account of operations that name none; nil for none.
	DefaultAccount *opsv1alpha1.ServiceAccountReference
	// OneUser says that the API server has one user only: operations without an account are that user's.
	OneUser bool
	// OtherEngine reports whether a Crossplane runs beside this program; optional.
	OtherEngine func(ctx context.Context) bool
}

// noAccountError is the error of an operation without an account.
type noAccountError struct{}

func (noAccountError) Error() string {
	return "it has no permissions: name an account, with its namespace, in spec.serviceAccount, or a default one in the configuration " +
		"(operations.serviceAccount)"
}

func (c Config) accountOf(spec opsv1alpha1.OperationSpec) (Account, error) {
	switch {
	case spec.ServiceAccount != nil && spec.ServiceAccount.Namespace != "":
		return c.Account(*spec.ServiceAccount)
	case spec.ServiceAccount == nil && c.DefaultAccount != nil:
		return c.Account(*c.DefaultAccount)
	case spec.ServiceAccount == nil && c.OneUser:
		return Account{c.Cluster, c.Hub}, nil
	}
	return Account{}, noAccountError{}
}

func (c Config) writer() writer.Writer {
	return writer.Writer{Cluster: c.Cluster, Caches: c.Hub, Events: c.Events, Manager: Manager, StatusManager: Manager}
}

// decode reads a typed object.
func decode[T any](o *unstructured.Unstructured) (*T, error) {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return out, nil
}
