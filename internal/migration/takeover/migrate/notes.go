package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
)

// deployment is the name of an engine and the labels of its Deployments, as its chart sets them.
type deployment struct{ engine, selector string }

func deploymentOf(e managedfields.Engine) deployment {
	if e == managedfields.Crossplane {
		return deployment{"Crossplane", "app=crossplane"}
	}
	return deployment{"kro", "app.kubernetes.io/name=kro"}
}

// unserved are the kinds of an engine that Espalier does not serve, or not without being configured to, and what about them.
func unserved(e managedfields.Engine, graphs bool) (kinds []schema.GroupVersionResource, why string) {
	switch {
	case e != managedfields.Crossplane && graphs:
		return nil, ""
	case e != managedfields.Crossplane:
		return []schema.GroupVersionResource{v1alpha1.GroupVersion.WithResource("graphs")},
			"Espalier serves them only where graphs is set in the file of --config, here and for espalier run"
	}
	packages, operations := schema.GroupVersion{Group: "pkg.crossplane.io", Version: "v1"}, schema.GroupVersion{Group: "ops.crossplane.io", Version: "v1alpha1"}
	return []schema.GroupVersionResource{
		packages.WithResource("providers"), packages.WithResource("configurations"),
		operations.WithResource("operations"), operations.WithResource("cronoperations"), operations.WithResource("watchoperations"),
	}, "Espalier serves packages and operations only where packages.enabled and operations.enabled are set. Providers keep running, but are no longer upgraded"
}

// Notes are remarks on the engines that objects are taken over from: which may still run, and
// which of their kinds Espalier does not serve. Graphs says that it serves Graphs. What cannot be read is left out.
func Notes(ctx context.Context, client dynamic.Interface, engines []managedfields.Engine, graphs bool) []string {
	var out []string
	for _, e := range engines {
		out = append(out, runningNotes(ctx, client, deploymentOf(e))...)
		var counts []string
		kinds, why := unserved(e, graphs)
		for _, gvr := range kinds {
			list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
			if err == nil && len(list.Items) > 0 {
				counts = append(counts, fmt.Sprintf("%s (%d)", gvr.GroupResource(), len(list.Items)))
			}
		}
		if len(counts) > 0 {
			out = append(out, "objects of "+strings.Join(counts, ", ")+" stay unchanged: "+why)
		}
	}
	return out
}

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// runningNotes name the Deployments of an engine that are not scaled to zero.
func runningNotes(ctx context.Context, client dynamic.Interface, d deployment) []string {
	list, err := client.Resource(deployments).List(ctx, metav1.ListOptions{LabelSelector: d.selector})
	if err != nil {
		return nil
	}
	var out []string
	for _, o := range list.Items {
		if replicas, isSet, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); !isSet || replicas > 0 {
			out = append(out, fmt.Sprintf("%s may be running: Deployment %s/%s has replicas. Scale it to zero before Espalier starts; two engines undo each other's work",
				d.engine, o.GetNamespace(), o.GetName()))
		}
	}
	slices.Sort(out)
	return out
}
