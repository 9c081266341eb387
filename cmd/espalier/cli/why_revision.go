package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/internal/instance/inventory"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	xp "github.com/espalier-dev/espalier/api/apiextensions/v1"
	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/program/functions"
)

// explainRevision says which revision composes the root of a tree; nil for an object that is no instance, or that is being
// deleted: nothing composes it any more.
func (i instance) explainRevision(ctx context.Context, state observe.ClusterState) (*observe.Revision, error) {
	if inventory.SetOf(state.Root) == "" || state.Root.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	if name, isGraph := observe.DefinitionOf(state.Root); isGraph {
		definition := state.Definitions[name]
		if definition == nil {
			return nil, fmt.Errorf("its definition %s cannot be read", strings.TrimPrefix(name.String(), "/"))
		}
		revisions, err := i.ListKind(ctx, rev.GroupVersion.WithKind(rev.GraphRevisionKind).GroupKind())
		if err != nil {
			return nil, err
		}
		explained := observe.ExplainGraphRevision(state.Root, definition, revisions)
		if explained != nil && explained.Number != 0 && len(revisions) == 0 { // they are not in the record
			return nil, fmt.Errorf("there are no revisions of its definition %s", definition.GetName())
		}
		return explained, nil
	}
	composite, all, err := i.compositeOf(ctx, state.Root)
	if composite == nil || err != nil {
		return nil, err
	}
	snapshot, _, found := all.Snapshot(composite.GroupVersionKind().GroupKind())
	if !found {
		return nil, nil
	}
	var claim *unstructured.Unstructured
	if composite != state.Root {
		claim = state.Root
	}
	explained := observe.ExplainCompositionRevision(composite, claim, snapshot)
	explained.Ignored = ignoredNamespaces(explained.Name, snapshot, state.Children[inventory.SetOf(composite)])
	return explained, nil
}

// ignoredNamespaces says which objects of a namespaced composite are composed in its namespace, although the revision names another one.
func ignoredNamespaces(revision string, s xrd.Snapshot, children []*unstructured.Unstructured) (out []string) {
	i := slices.IndexFunc(s.Revisions, func(r *xp.CompositionRevision) bool { return r.Name == revision })
	if i < 0 || s.Definition.ScopeOrDefault() != xp.NamespacedScope {
		return nil
	}
	for _, step := range s.Revisions[i].Spec.Pipeline {
		input, _ := xrd.InputOf(step)
		for _, t := range functions.Templates(step.FunctionRef.Name, input) {
			named := functions.NamespaceOf(t)
			for _, child := range children {
				if inventory.Node(child) == t.Name && named != "" && child.GetNamespace() != "" && child.GetNamespace() != named {
					out = append(out, fmt.Sprintf("metadata.namespace: %s of resource %s, because %s is composed in the namespace of the composite", named, t.Name,
						report.ObjectOf(child)))
				}
			}
		}
	}
	return out
}

// compositeOf reads the composite of a claim, which a composite is itself, and the objects that its composition follows from. It is nil
// for an object of another dialect, and for a claim without a composite.
func (i instance) compositeOf(ctx context.Context, o *unstructured.Unstructured) (composite *unstructured.Unstructured, all observe.Compositions, err error) {
	for kind, into := range map[string]*[]*unstructured.Unstructured{
		xp.DefinitionKind: &all.Definitions, xp.CompositionKind: &all.Compositions, xp.CompositionRevisionKind: &all.Revisions,
	} {
		if *into, err = i.ListKind(ctx, xp.GroupVersion.WithKind(kind).GroupKind()); err != nil {
			return nil, all, err
		}
	}
	_, isClaim, found := all.Snapshot(o.GroupVersionKind().GroupKind())
	if !found || !isClaim {
		if !found {
			o = nil
		}
		return o, all, nil
	}
	ref, _, _ := unstructured.NestedStringMap(o.Object, "spec", "resourceRef")
	key := schema.FromAPIVersionAndKind(ref["apiVersion"], ref["kind"])
	if ref["name"] == "" {
		return nil, all, nil
	}
	composite, err = i.Get(ctx, object.Key{Group: key.Group, Kind: key.Kind, Name: ref["name"]})
	return composite, all, err
}
