package patchandtransform

import (
	"fmt"
	"strings"

	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
)

// mergePolicies are the values of policy.toFieldPath. Two are deprecated names.
var mergePolicies = map[string]fieldpath.Policy{
	"":                              {},
	"Replace":                       {},
	"MergeObjects":                  {Merge: true, KeepExisting: true},
	"MergeObject":                   {Merge: true, KeepExisting: true},
	"MergeObjectsAppendArrays":      {Merge: true, KeepExisting: true, AppendLists: true},
	"ForceMergeObjects":             {Merge: true},
	"ForceMergeObjectsAppendArrays": {Merge: true, AppendLists: true},
	"AppendArray":                   {Merge: true, AppendLists: true},
}

// mergePolicyNames are the names of the policies for messages, deprecated ones last.
var mergePolicyNames = []string{
	"Replace", "MergeObjects", "MergeObjectsAppendArrays", "ForceMergeObjects", "ForceMergeObjectsAppendArrays",
	"MergeObject", "AppendArray",
}

// apply reads a value from an object, transforms it and writes it to another. If the source
// field is missing, the error is a NotFoundError and nothing is written.
func (p *patch) apply(from, to map[string]any) error {
	var value any
	var err error
	if p.combines() {
		value, err = p.Combine.format(from)
	} else {
		value, err = fieldpath.Get(from, p.FromFieldPath)
	}
	if err != nil {
		return err
	}
	if value, err = apply(p.Transforms, value); err != nil {
		return err
	}
	if p.combines() && strings.Contains(p.target(), "[*]") {
		return fmt.Errorf("cannot combine to %s: a combination is written to one field, and [*] stands for several", p.target())
	}
	return fieldpath.Set(to, p.target(), value, mergePolicies[p.Policy.ToFieldPath])
}

func (p *patch) combines() bool {
	switch p.typeOrDefault() {
	case combineFromComposite, combineToComposite, combineFromEnvironment, combineToEnvironment:
		return true
	default:
		return false
	}
}

// format makes one text of all variables. If one is missing, there is none.
func (c *combine) format(from map[string]any) (any, error) {
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

func (p *patch) toComposed() bool {
	switch p.typeOrDefault() {
	case fromComposite, combineFromComposite, fromEnvironment, combineFromEnvironment:
		return true
	default:
		return false
	}
}

// placedPatch is a patch with its place in the input: its index in a patch set, or in the template's own patches.
type placedPatch struct {
	*patch
	set, index int
}

// ownPatches is the set of patches that are in no patch set.
const ownPatches = -1

func (in *Input) flattenPatchSets(patches []patch) []placedPatch {
	sets := map[string]int{}
	for i, set := range in.PatchSets {
		sets[set.Name] = i
	}
	var all []placedPatch
	for i := range patches {
		p := &patches[i]
		if p.typeOrDefault() != fromPatchSet {
			all = append(all, placedPatch{p, ownPatches, i})
		} else if set, known := sets[p.PatchSetName]; known {
			for j := range in.PatchSets[set].Patches {
				all = append(all, placedPatch{&in.PatchSets[set].Patches[j], set, j})
			}
		}
	}
	return all
}
