// Package gitops writes what tools of GitOps need to know the health of the kinds that Espalier serves: health checks of
// Argo CD, in Lua, and of Flux, in CEL. Both read the conditions by which kstatus computes the same.
// See docs/design/0003-waiting-readiness-and-statuses.md.
//
// Pure: it decides from values alone.
package gitops

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Script is the health check of Argo CD for every kind. It needs none of Lua's libraries but the basic one.
//
//go:embed health.lua
var Script string

// Expressions are a health check of Flux, as an item of spec.healthCheckExprs of a Kustomization has them. Flux evaluates
// InProgress, Failed and Current in this order, and compares status.observedGeneration before.
type Expressions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	InProgress string `json:"inProgress"`
	Failed     string `json:"failed"`
	Current    string `json:"current"`
}

// ExpressionsOf returns the health check of Flux for a kind.
func ExpressionsOf(kind schema.GroupVersionKind) Expressions {
	const (
		conditions = "status.?conditions.orValue([])"
		state      = "status.?state.orValue('')"
	)
	is := func(kind string) string {
		return fmt.Sprintf("%s.exists(c, c.type == '%s' && c.status == 'True')", conditions, kind)
	}
	apiVersion, name := kind.ToAPIVersionAndKind()
	return Expressions{
		APIVersion: apiVersion, Kind: name,
		InProgress: is("Reconciling"),
		Failed:     is("Stalled") + " || " + state + " == 'ERROR'",
		// An author of a definition may have replaced the conditions, by others than Ready.
		Current: is("Ready") + " || " + state + " == 'ACTIVE' && !" + conditions + ".exists(c, c.type == 'Ready')",
	}
}

// Flux returns the part of a Kustomization with the health checks of kinds.
func Flux(kinds []schema.GroupVersionKind) map[string]any {
	checks := make([]Expressions, len(kinds))
	for i, kind := range kinds {
		checks[i] = ExpressionsOf(kind)
	}
	return map[string]any{"spec": map[string]any{"healthCheckExprs": checks}}
}

// maxConfigMapSize is how much data the API server stores in a ConfigMap, in bytes; Argo CD has other settings in its own.
const maxConfigMapSize = 768 << 10

// ArgoCD returns the ConfigMap argocd-cm with only the health checks of kinds, for a server-side apply that leaves its other
// settings as they are.
func ArgoCD(kinds []schema.GroupVersionKind, namespace string) (map[string]any, error) {
	data := map[string]any{}
	for _, kind := range kinds {
		data["resource.customizations.health."+kind.Group+"_"+kind.Kind] = Script
	}
	if size := len(data) * len(Script); size > maxConfigMapSize {
		return nil, fmt.Errorf("the checks of %d kinds are %d KiB, and a ConfigMap has room for %d; name the kinds that you need", len(data), size>>10,
			maxConfigMapSize>>10)
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": "argocd-cm", "namespace": namespace,
			"labels": map[string]any{"app.kubernetes.io/name": "argocd-cm", "app.kubernetes.io/part-of": "argocd"},
		},
		"data": data,
	}, nil
}

// Kinds returns the kinds of CustomResourceDefinitions whose status has conditions, each in its storage version, sorted.
func Kinds(crds []*apiextensionsv1.CustomResourceDefinition) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for _, c := range crds {
		if fields := statusFields(c); fields != nil {
			if _, reports := fields["conditions"]; reports {
				out = append(out, crd.GroupKind(c).WithVersion(crd.StorageVersion(c)))
			}
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(out)
}

// Select returns the kinds with the given names: Vpc, or Vpc.kro.run, in any case. Without names it returns all.
func Select(kinds []schema.GroupVersionKind, names []string) ([]schema.GroupVersionKind, error) {
	if len(names) == 0 {
		return kinds, nil
	}
	selected := map[schema.GroupVersionKind]bool{}
	for _, name := range names {
		found := false
		for _, kind := range kinds {
			if strings.EqualFold(name, kind.Kind) || strings.EqualFold(name, kind.GroupKind().String()) {
				selected[kind], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no kind %s with conditions that Espalier serves", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(k schema.GroupVersionKind) bool { return !selected[k] }), nil
}

var graphKind = v1alpha1.GroupVersion.WithKind(v1alpha1.GraphKind).GroupKind()

// IsOurs says whether Espalier serves or reconciles the kind of a CustomResourceDefinition: it is that of a definition, or of a
// provider, that of Graphs, or a kind of Espalier's own.
func IsOurs(c *apiextensionsv1.CustomResourceDefinition) bool {
	if _, owned := crd.Owner(c); owned || crd.GroupKind(c) == graphKind {
		return true
	}
	if owner := metav1.GetControllerOfNoCopy(c); owner != nil && owner.Kind == v1.DefinitionKind {
		return true
	}
	_, isManaged := statusFields(c)["lastHandledReconcileAt"] // as package sdk/managed/resource has it
	return isManaged || c.Labels[resource.CatalogLabel] != "" || c.Spec.Group == "espalier.dev" || strings.HasSuffix(c.Spec.Group, ".espalier.dev")
}

// statusFields are the fields of the status in the storage version.
func statusFields(c *apiextensionsv1.CustomResourceDefinition) map[string]apiextensionsv1.JSONSchemaProps {
	for _, v := range c.Spec.Versions {
		if v.Storage && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			return v.Schema.OpenAPIV3Schema.Properties["status"].Properties
		}
	}
	return nil
}
