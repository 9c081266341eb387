package cli

import (
	"context"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// discoveryTimeout bounds how long 'up' waits until clients find all kinds.
const discoveryTimeout = 30 * time.Second

// awaitDiscovery waits until the API server lists all kinds of CustomResourceDefinitions to clients, which it does a moment after
// it serves them: until then, the first command of a user fails with "no matches for kind". What it waits for has no watch.
func awaitDiscovery(ctx context.Context, config *rest.Config) {
	ctx, stop := context.WithTimeout(ctx, discoveryTimeout)
	defer stop()
	crds, err := apiextensionsclient.NewForConfig(config)
	if err != nil {
		return
	}
	listed, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return
	}
	for {
		all, err := crds.CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
		if err == nil {
			_, lists, _ := listed.ServerGroupsAndResources() // an error concerns other groups
			if areDiscovered(all.Items, lists) {
				return
			}
		}
		if !pause(ctx, 100*time.Millisecond) {
			return
		}
	}
}

// areDiscovered reports whether discovery lists the served versions of all CustomResourceDefinitions, apart from those whose names
// conflict with those of another one.
func areDiscovered(crds []apiextensionsv1.CustomResourceDefinition, lists []*metav1.APIResourceList) bool {
	found := map[string]bool{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			found[list.GroupVersion+"/"+r.Name] = true
		}
	}
	for _, c := range crds {
		if slices.ContainsFunc(c.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse
		}) {
			continue
		}
		for _, v := range c.Spec.Versions {
			if v.Served && !found[c.Spec.Group+"/"+v.Name+"/"+c.Spec.Names.Plural] {
				return false
			}
		}
	}
	return true
}
