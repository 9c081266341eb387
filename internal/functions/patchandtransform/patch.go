package patchandtransform

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/functions/fieldpath"
)

// merges are the ways of writing where there is something already. Two have older names.
var merges = map[string]fieldpath.Policy{
	"":                              {},
	"Replace":                       {},
	"MergeObjects":                  {Merge: true, Keep: true},
	"MergeObject":                   {Merge: true, Keep: true},
	"MergeObjectsAppendArrays":      {Merge: true, Keep: true, Append: true},
	"ForceMergeObjects":             {Merge: true},
	"ForceMergeObjectsAppendArrays": {Merge: true, Append: true},
	"AppendArray":                   {Merge: true, Append: true},
}

// mergeNames are the names of the ways, in the order of how much they change.
var mergeNames = []string{
	"Replace", "MergeObjects", "MergeObjectsAppendArrays", "ForceMergeObjects", "ForceMergeObjectsAppendArrays",
	"MergeObject", "AppendArray",
}

// apply reads a value from an object, transforms it and writes it to another. If there is
// nothing to read, the error is NotFound, and the other is unchanged.
func (p *patch) apply(from, to map[string]any) error {
	var value any
	var err error
	if p.combines() {
		value, err = p.Combine.of(from)
	} else {
		value, err = fieldpath.Get(from, p.FromFieldPath)
	}
	if err != nil {
		return err
	}
	if value, err = apply(p.Transforms, value); err != nil {
		return err
	}
	if p.combines() && strings.Contains(p.to(), "[*]") {
		return fmt.Errorf("cannot combine to %s: a combination is written to one field, and [*] stands for several", p.to())
	}
	return fieldpath.Set(to, p.to(), value, merges[p.Policy.ToFieldPath])
}

// combines says whether the patch makes one value of several.
func (p *patch) combines() bool {
	switch p.kind() {
	case combineFromComposite, combineToComposite, combineFromEnvironment, combineToEnvironment:
		return true
	default:
		return false
	}
}

// of makes one text of all variables. If one is missing, there is none.
func (c *combine) of(from map[string]any) (any, error) {
	values := make([]any, len(c.Variables))
	for i, v := range c.Variables {
		value, err := fieldpath.Get(from, v.FromFieldPath)
		if err != nil {
			return nil, err
		}
		values[i] = value
	}
	return format(c.String.Format, values...)
}

// toComposed says whether a template's patch writes to the desired composed resource.
func (p *patch) toComposed() bool {
	switch p.kind() {
	case fromComposite, combineFromComposite, fromEnvironment, combineFromEnvironment:
		return true
	default:
		return false
	}
}

// flat returns a template's patches, with those of its patch sets in the place of these.
func (in *Input) flat(patches []patch) []patch {
	sets := map[string][]patch{}
	for _, set := range in.PatchSets {
		sets[set.Name] = set.Patches
	}
	var all []patch
	for _, p := range patches {
		if p.kind() == fromPatchSet {
			all = append(all, sets[p.PatchSetName]...)
		} else {
			all = append(all, p)
		}
	}
	return all
}
