package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// Lease is the lease by which the processes of a program elect their leader.
type Lease struct {
	Namespace, Name string
	// Program is the name of the lease of an installation that works on all objects; that of one with a shard is another.
	Program string
}

// String is NAMESPACE/NAME, or empty for no lease.
func (l Lease) String() string {
	if l.Name == "" {
		return ""
	}
	return l.Namespace + "/" + l.Name
}

// bindingsCRD is the CustomResourceDefinition of Bindings. All programs that call external APIs
// install it, and there is one in a cluster.
const bindingsCRD = "bindings.espalier.dev"

// leaseAnnotation is on bindingsCRD: the namespace of the lease of that name. Two installations
// with leases in different namespaces would both lead, and both call external APIs.
func leaseAnnotation(name string) string { return "lease.espalier.dev/" + name }

// recordLease records where the leader is elected, in the cluster. It fails if another namespace
// is recorded.
func (k *Cluster) recordLease(ctx context.Context) error {
	lease := k.options.Lease
	if lease.Name == "" {
		return nil
	}
	if known, cached := k.CRDs.Get(bindingsCRD); cached && known.Annotations[leaseAnnotation(lease.Program)] == lease.Namespace {
		return nil
	}
	return retry.OnError(retry.DefaultRetry, kube.IsStale, func() error {
		current, err := k.Client.Get(ctx, crd.Kind, "", bindingsCRD)
		if err != nil {
			return fmt.Errorf("read CustomResourceDefinition %s: %w", bindingsCRD, err)
		}
		recorded, exists := current.GetAnnotations()[leaseAnnotation(lease.Program)]
		switch {
		case exists && recorded == lease.Namespace:
			return nil
		case exists:
			return lease.elsewhere(recorded)
		}
		return k.writeLease(ctx, current)
	})
}

func (k *Cluster) writeLease(ctx context.Context, current *unstructured.Unstructured) error {
	lease := k.options.Lease
	change := map[string]any{"metadata": map[string]any{"annotations": map[string]any{leaseAnnotation(lease.Program): lease.Namespace}}}
	if _, err := k.Client.Patch(ctx, current, change, v1alpha1.StatusManager); err != nil {
		return fmt.Errorf("record the lease's namespace on CustomResourceDefinition %s: %w", bindingsCRD, err)
	}
	return nil
}

func (l Lease) elsewhere(namespace string) error {
	return fmt.Errorf("the controllers of this cluster elect their leader by Lease %s in namespace %s, and this process does in namespace %s: both would lead. "+
		"Set --leader-election-namespace %s or, if no controllers run there any more, 'kubectl annotate crd %s %s-'",
		l.Program, namespace, l.Namespace, namespace, bindingsCRD, leaseAnnotation(l.Program))
}
