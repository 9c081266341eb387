package definition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

var definitionKinds = []schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGraphDefinitionKind),
	v1alpha1.GroupVersion.WithKind(v1alpha1.ResourceGroupKind),
}

const maxNamedDependants = 10

// dependants names the definitions that compose the kind and compile with the current
// CustomResourceDefinition, but would not with the wanted one, each with the expressions
// that would fail. While there are any, a change of any definition triggers a reconcile.
func (v *session) dependants(ctx context.Context, wanted *apiextensionsv1.CustomResourceDefinition) (problem string, err error) {
	var broken []string
	for _, kind := range definitionKinds {
		all, state := v.lease.Matching(kind, "", labels.Everything())
		if state.Phase != watch.Synced {
			return "", fmt.Errorf("list definitions that compose %s: %s is %s: %s", v.source.kind.Kind, kind.Kind, state.Phase, state.Message)
		}
		for _, o := range all {
			if object.KeyOf(o) == v.Key || o.GetDeletionTimestamp() != nil {
				continue
			}
			problem, err := v.wouldBreak(ctx, o, wanted)
			if err != nil {
				return "", err
			}
			if problem != "" {
				broken = append(broken, fmt.Sprintf("%s: %s", object.KeyOf(o), problem))
			}
		}
	}
	if more := len(broken) - maxNamedDependants; more > 0 {
		broken = append(broken[:maxNamedDependants], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(broken, "; "), nil
}

// wouldBreak says why a definition would not compile with the wanted CustomResourceDefinition;
// empty if it would, or if it does not compile now.
func (v *session) wouldBreak(ctx context.Context, definition *unstructured.Unstructured, wanted *apiextensionsv1.CustomResourceDefinition) (problem string, err error) {
	spec := v.servingSpec(definition)
	if spec == nil {
		return "", nil
	}
	composes := func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == v.source.kind }
	uses := graph.UsedKinds(spec)
	if !slices.ContainsFunc(uses, composes) {
		return "", nil
	}
	kinds, err := LookUpKinds(ctx, v.Kinds, uses)
	if err != nil {
		return "", err
	}
	if g, _ := graph.Compile(spec, kinds, acceptSecretOutputs); g == nil {
		return "", nil
	}
	next := maps.Clone(kinds)
	for _, gvk := range slices.DeleteFunc(slices.Clone(uses), func(gvk schema.GroupVersionKind) bool { return !composes(gvk) }) {
		kind, known := kinds[gvk]
		if !known {
			continue
		}
		if !crd.Serves(wanted, gvk.Version) {
			return fmt.Sprintf("it composes version %s of %s, which would no longer be served", gvk.Version, gvk.Kind), nil
		}
		kind.Schema = crd.SchemaOf(wanted, gvk.Version)
		next[gvk] = kind
	}
	g, problems := graph.Compile(spec, next, acceptSecretOutputs)
	if g != nil {
		return "", nil
	}
	return strings.Join(strings.Fields(messageOf(problems.Sorted().Err())), " "), nil
}

// servingSpec is the spec that composes a definition's instances: the spec of the serving revision if it is in
// memory, or else the definition's own; nil if it cannot be decoded.
func (r *Dialect) servingSpec(definition *unstructured.Unstructured) *v1alpha1.DefinitionSpec {
	owner := object.Definition{Name: definition.GetName(), Namespace: definition.GetNamespace(), UID: definition.GetUID()}
	if serving := statusOf(definition).ServingRevision; serving != 0 {
		of := labels.SelectorFromSet(labels.Set{v1alpha1.DefinitionNameLabel: object.LabelValue(owner.Name)})
		for _, o := range r.Hub.Select(RevisionKind, "", of) {
			if one, err := decodeRevision(o); err == nil && one.Spec.Revision == serving && revision.BelongsTo(one, owner) {
				return &one.Spec.Snapshot.Spec
			}
		}
	}
	spec, problems := specOf(definition)
	if len(problems) > 0 {
		return nil
	}
	return spec
}
