package patchandtransform

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

type usage struct {
	in          *Input
	isFirstStep bool
	// problems are about what fails, notes about what has no effect.
	problems, notes *diag.List
}

func (u usage) check() {
	for i := range u.in.PatchSets {
		at := object.Path("patchSets").Index(i)
		name := u.in.PatchSets[i].Name
		if slices.ContainsFunc(u.in.PatchSets[i+1:], func(s patchSet) bool { return s.Name == name }) {
			u.notes.Addf(at.Field("name"), "a later patch set has the same name and replaces this one")
		}
		u.patches(at.Field("patches"), u.in.PatchSets[i].Patches)
	}
	for i := range u.in.Resources {
		u.template(object.Path("resources").Index(i), i)
	}
}

func (u usage) template(at object.Path, i int) {
	t := &u.in.Resources[i]
	isSame := func(o template) bool { return o.Name == t.Name }
	base := at.Field("base")
	isReported := func(d diag.Diagnostic) bool { return d.Path == base }
	switch {
	case slices.ContainsFunc(*u.problems, isReported): // it is no object
	case t.Base == nil && u.isFirstStep && !slices.ContainsFunc(u.in.Resources[:i], isSame):
		u.problems.Addf(base, "is not set, and no earlier step produces the resource")
	case t.Base != nil && !u.patchesField(t, "apiVersion"):
		validator{problems: u.problems}.baseField(base.Field("apiVersion"), t.Base["apiVersion"])
		u.baseKind(base, t)
	}
	if t.Name != "" && slices.ContainsFunc(u.in.Resources[i+1:], func(o template) bool { return isSame(o) && o.Base != nil }) {
		u.notes.Addf(at.Field("name"), "a later resource has the same name and replaces this one")
	}
	u.patches(at.Field("patches"), t.Patches)
}

func (u usage) baseKind(base object.Path, t *template) {
	apiVersion, kind := stringOf(t.Base["apiVersion"]), stringOf(t.Base["kind"])
	if u.patchesField(t, "kind") || apiVersion == "" || kind == "" {
		return
	}
	if why := object.CheckAPIVersion(apiVersion); why != "" {
		u.problems.Addf(base.Field("apiVersion"), "%.80q is invalid: %s", apiVersion, why)
	}
	why := object.CheckKind(kind)
	if why != "" {
		why = fmt.Sprintf("%.80q is invalid: %s", kind, why)
	}
	if why = cmp.Or(why, object.CheckComposable(schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind())); why != "" {
		u.problems.Addf(base.Field("kind"), "%s", why)
	}
}

func (u usage) patchesField(t *template, field string) bool {
	return slices.ContainsFunc(u.in.flattenPatchSets(t.Patches), func(p placedPatch) bool { return p.toComposed() && p.target() == field })
}

// patches notes sources with wildcards, which only a target can have.
func (u usage) patches(at object.Path, patches []patch) {
	for i := range patches {
		u.source(at.Index(i).Field("fromFieldPath"), patches[i].FromFieldPath)
		if c := patches[i].Combine; c != nil {
			for n, v := range c.Variables {
				u.source(at.Index(i).Field("combine", "variables").Index(n).Field("fromFieldPath"), v.FromFieldPath)
			}
		}
	}
}

func (u usage) source(at object.Path, text string) {
	path, _ := fieldpath.Parse(text)
	if slices.ContainsFunc(path, fieldpath.Segment.IsWildcard) {
		u.notes.Addf(at, "cannot read through [*]; only toFieldPath can have it")
	}
}
