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

// ownerOf names the definition that controls a CustomResourceDefinition, in whatever
// incarnation, if one does.
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

// ownedCRDs lists the CustomResourceDefinitions that a definition controls: that of its
// composites, which has its name, and those of claims.
func (r *Dialect) ownedCRDs(v *session) (composite, claim *extv1.CustomResourceDefinition) {
	for _, c := range r.Config.Kinds.Where(func(c *extv1.CustomResourceDefinition) bool {
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

// Categories by which a CustomResourceDefinition that nobody controls can be told to have
// been a definition's once: one whose deletion has left it behind, say.
var categories = []string{"composite", "claim"}

// otherOwner says whose a CustomResourceDefinition is that a definition can't have; empty if it can
// have it.
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

// workingVersion is the kind of a CustomResourceDefinition in the version that is worked in: the
// one that objects are stored in, or else the first that is served.
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
