package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// program is how the Deployments of an engine are labelled where its chart has installed it.
type program struct{ engine, selector string }

func (d Dialect) program() program {
	if d == Composition {
		return program{"Crossplane", "app=crossplane"}
	}
	return program{"kro", "app.kubernetes.io/name=kro"}
}

// unserved are kinds of an engine that have objects and that this program doesn't serve.
func (d Dialect) unserved() []schema.GroupVersionResource {
	if d != Composition {
		return nil
	}
	packages, operations := schema.GroupVersion{Group: "pkg.crossplane.io", Version: "v1"}, schema.GroupVersion{Group: "ops.crossplane.io", Version: "v1alpha1"}
	return []schema.GroupVersionResource{
		packages.WithResource("providers"), packages.WithResource("configurations"),
		operations.WithResource("operations"), operations.WithResource("cronoperations"), operations.WithResource("watchoperations"),
	}
}

// formerNotes are what there is to know of the engines that dialects are taken over from. What
// can't be read is left out: these are remarks.
func formerNotes(ctx context.Context, client dynamic.Interface, dialects []Dialect) []string {
	var out []string
	for _, d := range dialects {
		out = append(out, runningNotes(ctx, client, d.program())...)
		var counts []string
		for _, gvr := range d.unserved() {
			list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
			if err == nil && len(list.Items) > 0 {
				counts = append(counts, fmt.Sprintf("%s (%d)", gvr.GroupResource(), len(list.Items)))
			}
		}
		if len(counts) > 0 {
			out = append(out, "objects of "+strings.Join(counts, ", ")+" stay as they are: Espalier doesn't serve these kinds. Providers run on, and nobody upgrades them")
		}
	}
	return out
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// runningNotes name the Deployments of a program that isn't stopped.
func runningNotes(ctx context.Context, client dynamic.Interface, p program) []string {
	list, err := client.Resource(deployments).List(ctx, metav1.ListOptions{LabelSelector: p.selector})
	if err != nil {
		return nil
	}
	var out []string
	for _, o := range list.Items {
		if replicas, said, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); !said || replicas > 0 {
			out = append(out, fmt.Sprintf("%s may be running: Deployment %s/%s has replicas. Scale it to zero before Espalier starts; two engines undo each other's work",
				p.engine, o.GetNamespace(), o.GetName()))
		}
	}
	slices.Sort(out)
	return out
}
