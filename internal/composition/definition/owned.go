package definition

import (
	"slices"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// ownedCRDs lists the CustomResourceDefinitions that a definition controls: the one of its composites, which has its
// name, and those of claims.
func (v *session) ownedCRDs() (composite, claim *extv1.CustomResourceDefinition) {
	for _, c := range v.Config.Kinds.ListCRDs(func(c *extv1.CustomResourceDefinition) bool {
		owner, owned := ownerOf(c)
		return owned && owner == v.Key.Name
	}) {
		if c.Name == v.Key.Name {
			composite = c
		} else {
			claim = c // a definition's claim names can't change, so there is one
		}
	}
	return composite, claim
}

// ownerOf is the name of the definition that controls a CustomResourceDefinition, whatever
// its UID, or "".
func ownerOf(c *extv1.CustomResourceDefinition) (name string, owned bool) {
	owner := metav1.GetControllerOfNoCopy(c)
	if owner == nil || owner.Kind != v1.DefinitionKind || groupOf(owner.APIVersion) != Kind.Group {
		return "", false
	}
	return owner.Name, true
}

func groupOf(apiVersion string) string {
	group, _, _ := strings.Cut(apiVersion, "/")
	return group
}

// Categories identify a CustomResourceDefinition without a controller as a former one of a definition, for example
// one that was orphaned by the definition's deletion.
var categories = []string{"composite", "claim"}

// otherOwner is the owner of a CustomResourceDefinition that a definition cannot take over;
// empty if it can.
func otherOwner(c *extv1.CustomResourceDefinition, definition string) string {
	name, owned := ownerOf(c)
	_, signed := c.Annotations[v1alpha1.AppliedAnnotation]
	graph, ofGraph := crd.Owner(c)
	controller := metav1.GetControllerOfNoCopy(c)
	switch {
	case owned && name == definition:
		return ""
	case controller != nil:
		return "is controlled by " + controller.Kind + " " + controller.Name
	case ofGraph && graph.Namespace != "":
		return "belongs to " + v1alpha1.ResourceGroupKind + " " + graph.Namespace + "/" + graph.Name
	case ofGraph:
		return "belongs to " + v1alpha1.ResourceGraphDefinitionKind + " " + graph.Name
	case slices.ContainsFunc(c.Spec.Names.Categories, func(of string) bool { return slices.Contains(categories, of) }):
		return ""
	case signed:
		return "is part of the control plane"
	}
	return "exists already and is not from a definition"
}

// workingVersion is the kind of a CustomResourceDefinition in the version that is reconciled:
// the storage version if it is served, or else the first served version.
func workingVersion(c *extv1.CustomResourceDefinition) (kind schema.GroupVersionKind, served bool) {
	for _, v := range c.Spec.Versions {
		switch {
		case v.Served && v.Storage:
			return crd.GroupKind(c).WithVersion(v.Name), true
		case v.Served && !served:
			kind, served = crd.GroupKind(c).WithVersion(v.Name), true
		}
	}
	return kind, served
}
