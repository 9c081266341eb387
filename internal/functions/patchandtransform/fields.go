package patchandtransform

import (
	"cmp"
	"slices"
)

// CompositeField is a field of the composite that a composed resource reads or writes by a patch.
type CompositeField struct {
	Path string
	// Writes: the patch sets the field.
	Writes bool
}

// CompositeFields returns the fields of the composite that the patches of a composed resource read and write, in their order.
func (in *Input) CompositeFields(resource string) []CompositeField {
	var out []CompositeField
	for _, t := range in.Resources {
		if t.Name == resource {
			out = append(out, in.compositeFields(t.Patches)...)
		}
	}
	return out
}

func (in *Input) compositeFields(patches []patch) []CompositeField {
	var out []CompositeField
	for _, p := range patches {
		switch p.typeOrDefault() {
		case fromComposite:
			out = append(out, CompositeField{Path: p.FromFieldPath})
		case toComposite:
			out = append(out, CompositeField{Path: cmp.Or(p.ToFieldPath, p.FromFieldPath), Writes: true})
		case combineFromComposite:
			if p.Combine != nil {
				for _, v := range p.Combine.Variables {
					out = append(out, CompositeField{Path: v.FromFieldPath})
				}
			}
		case combineToComposite:
			out = append(out, CompositeField{Path: p.ToFieldPath, Writes: true})
		case fromPatchSet:
			// A patch set contains no other one, so that this ends.
			if i := slices.IndexFunc(in.PatchSets, func(s patchSet) bool { return s.Name == p.PatchSetName }); i >= 0 {
				direct := slices.DeleteFunc(slices.Clone(in.PatchSets[i].Patches), func(p patch) bool { return p.typeOrDefault() == fromPatchSet })
				out = append(out, in.compositeFields(direct)...)
			}
		case fromEnvironment, toEnvironment, combineFromEnvironment, combineToEnvironment:
		}
	}
	return out
}
