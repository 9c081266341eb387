package uninstall

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/internal/program/manager"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// programs have Leases, which are named after them. Where several installations of a program share the cluster, their names
// begin with that.
var programs = []string{"espalier", "aws", "postgresql"}

// leaseNames are the Leases of the programs, in the namespace of the installation.
func (c *Cluster) leaseNames(ctx context.Context) (names []string, err error) {
	all, err := c.List(ctx, reader.Query{Resource: leases, Namespace: c.namespace})
	if err != nil {
		return nil, err
	}
	for _, program := range programs {
		names = append(names, manager.LeaseName(program))
		for _, lease := range all {
			if name := lease.GetName(); name != manager.LeaseName(program) && manager.IsLeaseOf(program, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// awaitLeases returns once no program holds a Lease of the installation, whose pods have ended. It fails
// if one is renewed: a program outside of the installation's pods would write everything again. One that
// is not renewed expires. Only changes of the Lease count, since the clock of its holder may differ.
func (c *Cluster) awaitLeases(ctx context.Context) error {
	names, err := c.leaseNames(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		var seen *unstructured.Unstructured
		var since time.Time
		for {
			lease, err := c.Client.Resource(leases).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
			if ignoreAbsent(err) != nil {
				return fmt.Errorf("read Lease %s: %w", name, err)
			} else if err != nil {
				break
			}
			holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
			seconds, _, _ := unstructured.NestedInt64(lease.Object, "spec", "leaseDurationSeconds")
			if seen == nil {
				seen, since = lease, time.Now()
			}
			if holder == "" || time.Since(since) > time.Duration(seconds)*time.Second {
				break
			}
			if renewTime(lease) != renewTime(seen) {
				return fmt.Errorf("%s renews Lease %s/%s, though no pod of the installation is left: it would write the webhook and the finalizers again; stop that program",
					holder, c.namespace, name)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the Lease %s/%s of %s has not expired", c.namespace, name, holder)
			case <-time.After(time.Second):
			}
		}
	}
	return nil
}

func renewTime(lease *unstructured.Unstructured) string {
	at, _, _ := unstructured.NestedString(lease.Object, "spec", "renewTime")
	return at
}

// The programs record the namespaces of their leases in annotations of a CustomResourceDefinition.
const (
	bindingsCRD     = "bindings.espalier.dev"
	leaseAnnotation = "lease.espalier.dev/" // and the name of the lease
)

// recordedLeases returns the annotations that record the namespaces of leases.
func (c *Cluster) recordedLeases(ctx context.Context) (map[string]string, error) {
	crd, err := c.Client.Resource(crdResource).Get(ctx, bindingsCRD, metav1.GetOptions{})
	if ignoreAbsent(err) != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", bindingsCRD, err)
	} else if err != nil {
		return nil, nil
	}
	out := crd.GetAnnotations()
	maps.DeleteFunc(out, func(name, _ string) bool { return !strings.HasPrefix(name, leaseAnnotation) })
	return out, nil
}
