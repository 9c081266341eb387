package xrd

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// ValidateUpdate lists the changes of immutable fields: the names and the scope of the kinds, and the enforced
// composition.
func ValidateUpdate(before, after *v1.CompositeResourceDefinition) diag.List {
	var out diag.List
	fixed := func(at object.Path, was, is string) {
		if was != is {
			out.Addf(at, "is immutable: it cannot change from %q to %q", was, is)
		}
	}
	fixed("spec.group", before.Spec.Group, after.Spec.Group)
	fixed("spec.scope", string(before.ScopeOrDefault()), string(after.ScopeOrDefault()))
	checkNamesUnchanged(&before.Spec.Names, &after.Spec.Names, "spec.names", &out)
	switch {
	case before.Spec.ClaimNames == nil: // they may be added
	case after.Spec.ClaimNames == nil:
		out.Addf("spec.claimNames", "cannot be removed")
	default:
		checkNamesUnchanged(before.Spec.ClaimNames, after.Spec.ClaimNames, "spec.claimNames", &out)
	}
	if was, is := before.Spec.EnforcedCompositionRef, after.Spec.EnforcedCompositionRef; was != nil && is != nil {
		fixed("spec.enforcedCompositionRef.name", was.Name, is.Name)
	}
	return out.Sorted()
}

func checkNamesUnchanged(before, after *extv1.CustomResourceDefinitionNames, at object.Path, out *diag.List) {
	if !equality.Semantic.DeepEqual(before, after) {
		out.Addf(at, "is immutable: it cannot change from %s to %s", namesText(before), namesText(after))
	}
}

func namesText(n *extv1.CustomResourceDefinitionNames) string {
	out := n.Kind + " (" + n.Plural
	if n.Singular != "" {
		out += ", " + n.Singular
	}
	if n.ListKind != "" {
		out += ", " + n.ListKind
	}
	for _, more := range [][]string{n.ShortNames, n.Categories} {
		for _, name := range more {
			out += ", " + name
		}
	}
	return out + ")"
}
