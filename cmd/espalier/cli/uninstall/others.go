package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"

	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// notSearched are the resources in which the labels of the chart mean nothing: what stays on purpose, and
// what Kubernetes writes for Services.
var notSearched = sets.New(
	schema.GroupResource{Resource: "namespaces"}, schema.GroupResource{Resource: "endpoints"},
	schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"},
)

// others finds the objects with the labels of the chart that Remove leaves in the cluster, such as those that
// a newer release has installed. The kinds that cannot be listed are returned, too.
func (c *Cluster) others(ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition) (found, unsearched []string, err error) {
	skipped := notSearched.Clone()
	for _, crd := range crds {
		if isWritten(crd) {
			skipped.Insert(schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural})
		}
	}
	served, err := c.Kinds.Served("list", "delete")
	var failed *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &failed) {
		for group := range failed.Groups {
			unsearched = append(unsearched, group.String())
		}
	} else if err != nil {
		return nil, nil, fmt.Errorf("discover the kinds of the cluster: %w", err)
	}
	for _, r := range served {
		resource := reader.ResourceOf(r)
		if skipped.Has(resource.GroupResource()) {
			continue
		}
		list, err := c.List(ctx, reader.Query{Resource: resource, Labels: selector})
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case apierrors.IsMethodNotSupported(err):
		case err != nil:
			unsearched = append(unsearched, resource.GroupResource().String())
			continue
		}
		for _, o := range list {
			if len(o.GetOwnerReferences()) == 0 && !c.removes(resource.GroupResource(), o) {
				found = append(found, o.GetKind()+" "+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
			}
		}
	}
	slices.Sort(found)
	slices.Sort(unsearched)
	return found, unsearched, nil
}

// removes reports whether Remove deletes an object of the chart.
func (c *Cluster) removes(resource schema.GroupResource, o *unstructured.Unstructured) bool {
	switch resource {
	case deployments.GroupResource(), pods.GroupResource():
		return o.GetNamespace() == c.namespace
	}
	for _, known := range objects {
		if known.resource.GroupResource() == resource {
			return c.isIn(known.scope, o)
		}
	}
	return false
}

// isIn reports whether an object is in a namespace in which the chart has objects of its kind.
func (c *Cluster) isIn(in scope, o *unstructured.Unstructured) bool {
	return in == clusterScoped || o.GetNamespace() == c.namespace || in == alsoNamespaces && slices.Contains(grantedElsewhere, o.GetName())
}
