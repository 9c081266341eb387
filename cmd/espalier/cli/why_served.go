package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/apiextensions"
	xp "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/doctor"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// addServing adds the definitions of the objects of a tree that are not reconciled, and the newest revision of a composition. What may
// not be read adds nothing.
func (i instance) addServing(ctx context.Context, state *observe.ClusterState) {
	definitions := map[schema.GroupKind]*unstructured.Unstructured{}
	state.ServedBy = map[object.Key]*unstructured.Unstructured{}
	for _, o := range state.Objects() {
		gvk := o.GroupVersionKind()
		switch {
		case gvk.GroupKind() == xp.GroupVersion.WithKind(xp.CompositionKind).GroupKind():
			state.ServedBy[object.KeyOf(o)] = i.newestRevision(ctx, o.GetName())
		case strings.Contains(gvk.Group, ".") && observe.IsUnreconciled(o):
			d, known := definitions[gvk.GroupKind()]
			if !known {
				d = i.definitionBehind(ctx, gvk.GroupKind())
				definitions[gvk.GroupKind()] = d
			}
			state.ServedBy[object.KeyOf(o)] = d
		}
	}
}

// newestRevision reads the newest revision of a composition; nil if there is none, or the user is not allowed to read it.
func (i instance) newestRevision(ctx context.Context, composition string) *unstructured.Unstructured {
	all, err := i.ListKind(ctx, xp.GroupVersion.WithKind(xp.CompositionRevisionKind).GroupKind())
	if err != nil {
		return nil
	}
	of := slices.DeleteFunc(all, func(r *unstructured.Unstructured) bool { return r.GetLabels()[xp.CompositionNameLabel] != composition })
	if newest := doctor.NewestRevisions(of); len(newest) > 0 {
		return newest[0]
	}
	return nil
}

// definitionBehind reads the definition that serves a kind, as the CustomResourceDefinition of the kind names it. It is nil if no
// definition serves the kind, or the user is not allowed to read it; one that does not exist has a name only.
func (i instance) definitionBehind(ctx context.Context, kind schema.GroupKind) *unstructured.Unstructured {
	mapping, err := i.Kinds.RESTMapping(kind)
	if err != nil {
		return nil
	}
	raw, err := i.Get(ctx, object.Key{Group: crd.Kind.Group, Kind: crd.Kind.Kind, Name: mapping.Resource.GroupResource().String()})
	if raw == nil || err != nil {
		return nil
	}
	c, err := crd.Decode(raw)
	if err != nil {
		return nil
	}
	gvk, namespace, name := definitionOfKind(c)
	if name == "" {
		return nil
	}
	found, err := i.Get(ctx, object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: namespace, Name: name})
	if found == nil && err == nil {
		found = &unstructured.Unstructured{}
		found.SetGroupVersionKind(gvk)
		found.SetNamespace(namespace)
		found.SetName(name)
	}
	return found
}

// definitionOfKind names the definition that a CustomResourceDefinition belongs to; without a name if it belongs to none.
func definitionOfKind(c *apiextensionsv1.CustomResourceDefinition) (gvk schema.GroupVersionKind, namespace, name string) {
	if owner, owned := crd.Owner(c); owned && owner.Name != "" {
		gvk = v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGraphDefinitionKind)
		if owner.Namespace != "" {
			gvk = v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGroupKind)
		}
		return gvk, owner.Namespace, owner.Name
	}
	of := slices.IndexFunc(c.OwnerReferences, func(r metav1.OwnerReference) bool {
		return strings.HasPrefix(r.APIVersion, apiextensions.Group+"/") && r.Kind == xp.DefinitionKind
	})
	if of < 0 {
		return gvk, "", ""
	}
	return xp.GroupVersion.WithKind(xp.DefinitionKind), "", c.OwnerReferences[of].Name
}

// explainUnknownKind returns the error of a kind that is not served: a definition of that kind says why, if there is one.
func (i instance) explainUnknownKind(ctx context.Context, unknown *reader.UnknownKindError) error {
	for _, kind := range []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGraphDefinitionKind), v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGroupKind),
		xp.GroupVersion.WithKind(xp.DefinitionKind),
	} {
		all, err := i.ListKind(ctx, kind.GroupKind())
		if err != nil {
			continue // the user is not allowed to list them
		}
		for _, d := range all {
			if !observe.Defines(d, unknown.Kind) {
				continue
			}
			why := "it has not been reconciled yet"
			if problem, found := observe.ServingProblem(d); found {
				why, _, _ = strings.Cut(problem.Reason+": "+problem.Message, "\n")
			}
			return fmt.Errorf("no matches for kind %q: %s %s defines it and does not serve it: %s; see espalier why %s", unknown.Kind, d.GetKind(),
				d.GetName(), observe.Printable(why), observe.Arguments(d))
		}
	}
	return unknown
}
