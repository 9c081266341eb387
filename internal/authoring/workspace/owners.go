package workspace

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// It reports another CustomResourceDefinition, or another definition, of the kind that a definition defines.
func (w *Workspace) checkOwner(d *Document, c *apiextensionsv1.CustomResourceDefinition, kind object.Path) {
	other, exists := w.crds[crd.GroupKind(c)]
	if !exists || isOf(other, d) {
		return
	}
	by := "CustomResourceDefinition " + other.Name
	if owner, owned := crd.Owner(other); owned {
		by = "definition " + owner.Name
	} else if controller := metav1.GetControllerOfNoCopy(other); controller != nil {
		by = controller.Kind + " " + controller.Name
	}
	w.addf(d, Error, kind, "%s of group %s is already defined by %s; choose another kind or group", c.Spec.Names.Kind, c.Spec.Group, by)
}

// All controllers allow one API group for the kinds of ResourceGroups.
func (w *Workspace) warnOfGroup(d *Document, group string) {
	if d.Object.GetKind() == v1alpha1.ResourceGroupKind && group != v1alpha1.GroupVersion.Group {
		w.addf(d, Warning, "spec.schema.group", "the controllers accept ResourceGroups with kinds in group %s only if an administrator allows it (%s)",
			group, definition.NamespacedGroupsField)
	}
}

func isOf(c *apiextensionsv1.CustomResourceDefinition, d *Document) bool {
	controller := metav1.GetControllerOfNoCopy(c)
	return crd.BelongsTo(c, object.Definition{Name: d.Object.GetName(), Namespace: d.Object.GetNamespace()}) ||
		controller != nil && controller.Kind == d.Object.GetKind() && controller.Name == d.Object.GetName()
}
