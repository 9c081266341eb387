package inventory_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

const (
	none, preserve, all = v1alpha1.OverrideNone, v1alpha1.OverridePreserve, v1alpha1.OverrideAll
	allow, deny         = v1alpha1.OverrideAllow, v1alpha1.OverrideDeny
)

// TestAnInstanceOverridesPoliciesAsFarAsItsDefinitionAllows is the table of what each setting does with each policy of
// an instance, beside each of a definition.
func TestAnInstanceOverridesPoliciesAsFarAsItsDefinitionAllows(t *testing.T) {
	const d, o, r = v1alpha1.DeletionDelete, v1alpha1.DeletionOrphan, v1alpha1.DeletionRetain
	cases := []struct {
		allowed                    v1alpha1.DeletionPolicyOverride
		definition, instance, want v1alpha1.DeletionPolicy
	}{
		{none, d, d, d}, {none, d, o, d}, {none, d, r, d}, {none, o, d, o}, {none, o, r, o}, {none, r, d, r}, {none, r, o, r},
		{preserve, d, d, d}, {preserve, d, o, o}, {preserve, d, r, r},
		{preserve, o, d, o}, {preserve, o, o, o}, {preserve, o, r, r},
		{preserve, r, d, r}, {preserve, r, o, r}, {preserve, r, r, r},
		{all, d, d, d}, {all, d, o, o}, {all, d, r, r}, {all, o, d, d}, {all, o, r, r}, {all, r, d, d}, {all, r, o, o},
	}
	for _, tc := range cases {
		overrides := inventory.OverridesOf(&v1alpha1.InstanceOverrides{DeletionPolicy: tc.allowed})
		of := child()
		recorded := inventory.Place{Node: "a", OnDelete: tc.definition}
		inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1").Mark(of, recorded)
		for place, defaults := range map[string]inventory.Defaults{
			"in the definition": {Overrides: overrides, OnDelete: map[string]v1alpha1.DeletionPolicy{"a": tc.definition}},
			"on the child":      {Overrides: overrides},
		} {
			for _, text := range []string{string(tc.instance), "a=" + string(tc.instance), "a=" + string(tc.instance) + ", Delete"} {
				policies, _ := inventory.PoliciesOf(annotated(v1alpha1.DeletionPolicyAnnotation, text), defaults)
				if got := policies.Of(of); got != tc.want {
					t.Errorf("%s: %s %s, %q on the instance: %s", tc.allowed, tc.definition, place, text, got)
				}
				if got := policies.Declared(recorded); got != tc.want {
					t.Errorf("%s: %s %s, %q on the instance: declared is %s", tc.allowed, tc.definition, place, text, got)
				}
			}
		}
	}
}

func TestAnInvalidPolicyCountsWhereOneMayBeSet(t *testing.T) {
	for allowed, want := range map[v1alpha1.DeletionPolicyOverride]bool{none: false, preserve: true, all: true} {
		defaults := inventory.Defaults{Overrides: inventory.OverridesOf(&v1alpha1.InstanceOverrides{DeletionPolicy: allowed})}
		if _, problems := inventory.PoliciesOf(annotated(v1alpha1.DeletionPolicyAnnotation, "a=Keep"), defaults); (len(problems) > 0) != want {
			t.Errorf("%s: problems are %v", allowed, problems)
		}
	}
}

func TestForceDeleteAppliesUnlessDenied(t *testing.T) {
	o := instance()
	o.SetAnnotations(map[string]string{v1alpha1.ForceDeleteAnnotation: "all", v1alpha1.ForceAfterAnnotation: "1s", v1alpha1.DeletionTimeoutAnnotation: "1s"})
	for access, want := range map[v1alpha1.OverrideAccess]bool{"": true, allow: true, deny: false} {
		defaults := inventory.Defaults{Overrides: inventory.OverridesOf(&v1alpha1.InstanceOverrides{ForceDelete: access})}
		if got := inventory.ForcedOf(o, defaults.Overrides).Matches("a", "ConfigMap", "x"); got != want {
			t.Errorf("%q: forced is %t", access, got)
		}
		limits, problems := inventory.LimitsOf(o, defaults)
		if (limits.ForceAfter > 0) != want || limits.Timeout == 0 || len(problems) > 0 {
			t.Errorf("%q: the limits are %+v, %v", access, limits, problems)
		}
	}
}

// TestSettingsAreRecorded writes settings to an instance and reads them again.
func TestSettingsAreRecorded(t *testing.T) {
	cases := map[string]struct {
		set  v1alpha1.InstanceOverrides
		text string
		// want and without are what is read, with a definition and without one.
		want, without inventory.Overrides
	}{
		"Defaults are not": {v1alpha1.InstanceOverrides{DeletionPolicy: preserve, ForceDelete: allow, Revision: deny}, "", inventory.Overrides{}, inventory.Overrides{}},
		"Restrictions are": {
			v1alpha1.InstanceOverrides{DeletionPolicy: none, ForceDelete: deny}, "overrides=deletionPolicy:None;forceDelete:Deny",
			inventory.Overrides{DeletionPolicy: none, ForceDelete: deny}, inventory.Overrides{DeletionPolicy: none, ForceDelete: deny},
		},
		"What deletes counts with the definition only": {
			v1alpha1.InstanceOverrides{DeletionPolicy: all}, "overrides=deletionPolicy:All", inventory.Overrides{DeletionPolicy: all}, inventory.Overrides{},
		},
		"Revisions need a definition anyway": {v1alpha1.InstanceOverrides{Revision: allow}, "", inventory.Overrides{}, inventory.Overrides{}},
	}
	for name, tc := range cases {
		owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc"}, "v1")
		o := inventory.MetadataOf(owner, inventory.Of(nil), inventory.Defaults{Overrides: inventory.OverridesOf(&tc.set)}).Configuration(instance())
		if got := o.GetAnnotations()[v1alpha1.DeletionDefaultsAnnotation]; got != tc.text {
			t.Errorf("%s: recorded is %q", name, got)
		}
		if got := inventory.DefaultsOf(o).Overrides; got != tc.want {
			t.Errorf("%s: read is %+v", name, got)
		}
		if got := inventory.DefaultsOf(o).WithoutDefinition().Overrides; got != tc.without {
			t.Errorf("%s: without the definition it is %+v", name, got)
		}
	}
}

// TestForgedSettingsAreReplaced has another writer record settings on instances of a definition that has none.
func TestForgedSettingsAreReplaced(t *testing.T) {
	for _, dialect := range []object.Dialect{object.GraphDialect, object.CompositeDialect} {
		owner := inventory.OwnerOf(instance(), object.Definition{Name: "vpc", Dialect: dialect}, "v1")
		metadata := inventory.MetadataOf(owner, inventory.Of(nil), inventory.Defaults{})
		o := metadata.Configuration(instance())
		o.SetAnnotations(with(o.GetAnnotations(), v1alpha1.DeletionDefaultsAnnotation, "overrides=deletionPolicy:All"))
		if metadata.IsOn(o) {
			t.Errorf("%s: the settings count as those of the definition", dialect)
		}
		applied := metadata.Configuration(o)
		patch, _ := metadata.MergePatch(o)["metadata"].(map[string]any)["annotations"].(map[string]any)
		if got, there := applied.GetAnnotations()[v1alpha1.DeletionDefaultsAnnotation]; got != "" || !there {
			t.Errorf("%s: %q is applied", dialect, got)
		}
		if diff := cmp.Diff(map[string]any{v1alpha1.DeletionDefaultsAnnotation: ""}, patch); diff != "" {
			t.Errorf("%s: the patch (-want +got):\n%s", dialect, diff)
		}
		if !metadata.IsOn(applied) {
			t.Errorf("%s: emptied settings are written again and again", dialect)
		}
	}
}

func TestTheSettingsOfACompositeResourceDefinition(t *testing.T) {
	cases := map[string]struct {
		text, problem string
		want          inventory.Overrides
	}{
		"None":                     {},
		"Both":                     {text: "deletionPolicy=None, forceDelete=Deny", want: inventory.Overrides{DeletionPolicy: none, ForceDelete: deny}},
		"Spaces":                   {text: " forceDelete = Deny ,", want: inventory.Overrides{ForceDelete: deny}},
		"The defaults":             {text: "deletionPolicy=Preserve,forceDelete=Allow"},
		"An unknown value":         {text: "deletionPolicy=Some, forceDelete=Deny", problem: `is "Some"; it can be None, Preserve or All`, want: inventory.Overrides{ForceDelete: deny}},
		"Access that is no access": {text: "forceDelete=No", problem: `is "No"; it can be Allow or Deny`},
		"No name":                  {text: "None", problem: `espalier.dev/instance-overrides has "None"; it can have deletionPolicy= and forceDelete=`},
		"What it can't select":     {text: "revision=Allow", problem: `has "revision=Allow"`},
	}
	for name, tc := range cases {
		got, problems := inventory.ParseOverrides(tc.text)
		if got != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
		if text := errorText(problems.Err()); !strings.Contains(text, tc.problem) || (text == "") != (tc.problem == "") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestIgnoredAnnotationsAreNamed(t *testing.T) {
	graph := object.Definition{Name: "shops"}
	retains := map[string]v1alpha1.DeletionPolicy{"db": v1alpha1.DeletionRetain, "logs": v1alpha1.DeletionOrphan}
	cases := map[string]struct {
		reason     string
		annotation string
		value      string
		set        v1alpha1.InstanceOverrides
		by         object.Definition
		want       string
	}{
		"No annotation": {reason: "nothing is ignored", by: graph},
		"A policy that preserves": {
			reason: "the default allows it", annotation: v1alpha1.DeletionPolicyAnnotation, value: "Retain", by: graph,
		},
		"A policy that deletes": {
			reason: "it applies to no node that is preserved", annotation: v1alpha1.DeletionPolicyAnnotation, value: "Delete", by: graph,
			want: "espalier.dev/deletion-policy is ignored for db (Delete instead of Retain), logs (Delete instead of Orphan): " +
				"ResourceGraphDefinition shops does not allow it; its author can, with spec.instanceOverrides.deletionPolicy: All",
		},
		"A policy that deletes another node": {
			reason: "nothing preserves that", annotation: v1alpha1.DeletionPolicyAnnotation, value: "cache=Delete", by: graph,
		},
		"A policy that is allowed": {
			reason: "its author says so", annotation: v1alpha1.DeletionPolicyAnnotation, value: "Delete", set: v1alpha1.InstanceOverrides{DeletionPolicy: all}, by: graph,
		},
		"Any policy": {
			reason: "none may be set", annotation: v1alpha1.DeletionPolicyAnnotation, value: "cache=Retain", set: v1alpha1.InstanceOverrides{DeletionPolicy: none}, by: object.Definition{Name: "shops", Namespace: "team"},
			want: "espalier.dev/deletion-policy is ignored: ResourceGroup team/shops does not allow it; its author can, with spec.instanceOverrides.deletionPolicy: Preserve or All",
		},
		"A revision": {
			reason: "the author decides who gets which", annotation: v1alpha1.RevisionAnnotation, value: "1", by: graph,
			want: "espalier.dev/revision is ignored: ResourceGraphDefinition shops does not allow it; its author can, with spec.instanceOverrides.revision: Allow",
		},
		"A revision that is allowed": {
			reason: "its author says so", annotation: v1alpha1.RevisionAnnotation, value: "1", set: v1alpha1.InstanceOverrides{Revision: allow}, by: graph,
		},
		"A revision of a composite": {
			reason: "the annotation means nothing there", annotation: v1alpha1.RevisionAnnotation, value: "1", by: object.Definition{Name: "xshops.example.org", Dialect: object.CompositeDialect},
		},
		"Leaving behind, by a composite": {
			reason: "its author says so", annotation: v1alpha1.ForceAfterAnnotation, value: "1s", set: v1alpha1.InstanceOverrides{ForceDelete: deny},
			by:   object.Definition{Name: "xshops.example.org", Dialect: object.CompositeDialect},
			want: "espalier.dev/force-after is ignored: CompositeResourceDefinition xshops.example.org does not allow it; its author can, with forceDelete=Allow in its annotation espalier.dev/instance-overrides",
		},
	}
	for name, tc := range cases {
		o := instance()
		if tc.annotation != "" {
			o = annotated(tc.annotation, tc.value)
		}
		got := strings.Join(inventory.IgnoredOverrides(o, inventory.Defaults{OnDelete: retains, Overrides: inventory.OverridesOf(&tc.set)}, nil, tc.by), "\n")
		if got != tc.want {
			t.Errorf("%s: %s: %s", name, tc.reason, got)
		}
	}
}
