package provider

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed/activation"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/demand"
	sdk "github.com/espalier-dev/espalier/sdk/managed"
)

func (s starter) activate(p sdk.Provider) {
	if p.Catalog == nil {
		return
	}
	s.Serve(p.Activations, &activation.Reconciler{
		Provider: p.Name, Kind: p.Activations, Catalog: &activation.Catalog{Catalog: p.Catalog, Provider: p.Name},
		Cluster: s.Client, CRDs: s.Kinds, Written: s.RecordCRD, Cache: s.Hub, Events: s.Events, Now: s.Now, Enqueue: s.Enqueue,
		Watch:       func(of watch.Subscriber) activation.Lease { return s.Hub.Begin(of) },
		Serve:       func(kind sdk.Kind) (stop func()) { return s.serve(kind).Stop },
		Definitions: demand.Kinds,
	})
	s.Enqueue(activation.Key(p.Activations)) // also without activations, kinds may be left to remove
}

// Dependents returns what to enqueue when a CustomResourceDefinition changes: the activations of the provider with its
// kind in the catalog.
func Dependents(providers []sdk.Provider, c *apiextensionsv1.CustomResourceDefinition) []object.Key {
	var out []object.Key
	for _, p := range providers {
		if p.Catalog == nil {
			continue
		}
		if _, _, ok := p.Catalog.TypeOf(crd.GroupKind(c)); ok || activation.IsOf(p.Name, c) {
			out = append(out, activation.Key(p.Activations))
		}
	}
	return out
}

// Remedy says how a kind of a provider's catalog is activated; empty for other kinds.
func Remedy(providers []sdk.Provider, kind schema.GroupKind) string {
	for _, p := range providers {
		if p.Catalog == nil {
			continue
		}
		if name, _, ok := p.Catalog.TypeOf(kind); ok {
			return fmt.Sprintf("it continues when %s is activated: espalier %s activate %s, or allow it in spec.onDemand of %s", name, p.Name, name, p.Activations.Kind)
		}
	}
	return ""
}
