package simulation

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// crdPage is how many CustomResourceDefinitions a list has.
const crdPage = 100

// ServesMoreColumns says whether the controllers that serve kinds in a cluster add the columns of moreColumns: a plan that does not add
// them as well would remove them.
func ServesMoreColumns(ctx context.Context, client dynamic.Interface) (bool, error) {
	options := metav1.ListOptions{Limit: crdPage}
	for {
		list, err := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).List(ctx, options)
		if err != nil {
			return false, fmt.Errorf("read CustomResourceDefinitions: %w", err)
		}
		for _, o := range list.Items {
			var c apiextensionsv1.CustomResourceDefinition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &c); err == nil && hasMoreColumns(&c) {
				return true, nil
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return false, nil
		}
	}
}

// hasMoreColumns says whether a kind that Espalier serves has the columns of moreColumns.
func hasMoreColumns(c *apiextensionsv1.CustomResourceDefinition) bool {
	if _, applied := c.Annotations[v1alpha1.AppliedAnnotation]; !applied {
		return false
	}
	return slices.ContainsFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return !slices.ContainsFunc(report.PrinterColumns(report.FieldSet{}), func(column apiextensionsv1.CustomResourceColumnDefinition) bool {
			return !slices.Contains(v.AdditionalPrinterColumns, column)
		})
	})
}

// servesGraphs says whether a cluster has the kind Graph.
func servesGraphs(ctx context.Context, client dynamic.Interface) (bool, error) {
	name := v1alpha1.GroupVersion.WithResource("graphs").GroupResource().String()
	_, err := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	return err == nil, nil
}
