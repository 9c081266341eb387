package xrd

import (
	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// DeletionDefaults are what a definition says about the deletion of composites and claims.
func DeletionDefaults(d *v1.CompositeResourceDefinition) inventory.Defaults {
	overrides, problems := inventory.ParseOverrides(d.Annotations[v1alpha1.InstanceOverridesAnnotation])
	if len(problems) > 0 { // what was meant is unknown: instances override nothing until it is corrected
		overrides = inventory.Overrides{DeletionPolicy: v1alpha1.OverrideNone, ForceDelete: v1alpha1.OverrideDeny}
	}
	return inventory.Defaults{Overrides: overrides}
}

func checkInstanceOverrides(d *v1.CompositeResourceDefinition, out *diag.List) {
	_, problems := inventory.ParseOverrides(d.Annotations[v1alpha1.InstanceOverridesAnnotation])
	out.Add(problems...)
}

// Annotations are the annotations of a definition that determine how its instances are reconciled. They may change
// without its generation.
func Annotations(d *v1.CompositeResourceDefinition) []string {
	return []string{d.Annotations[v1alpha1.InstanceOverridesAnnotation], d.Annotations[v1alpha1.ClaimableAnnotation]}
}
