package patchandtransform

import (
	"cmp"

	"github.com/espalier-dev/espalier/internal/object"
)

// Template is a composed resource of an input, with the fields that its patches read and write.
type Template struct {
	Name string
	// Path is its place in the input.
	Path object.Path
	// Base is nil if an earlier step of the pipeline produces the resource.
	Base   map[string]any
	Fields []Field
}

// Field is a field that a patch reads or writes.
type Field struct {
	// Place is the field of the input that contains the path, and Path is that path.
	Place object.Path
	Path  string
	// OfComposite: it is a field of the composite, and not of the composed resource. Fields of the environment are left out.
	OfComposite bool
	// Writes: the patch sets the field.
	Writes bool
}

// Templates returns the composed resources of an input, in their order. The patches of the environment and of the
// connection secret are in one without name and base at the end: its fields are the composite's only.
func (in *Input) Templates() []Template {
	var out []Template
	for i, t := range in.Resources {
		one := Template{Name: t.Name, Path: object.Path("resources").Index(i), Base: t.Base}
		for _, p := range in.flattenPatchSets(t.Patches) {
			at := one.Path.Field("patches").Index(p.index)
			if p.set != ownPatches {
				at = object.Path("patchSets").Index(p.set).Field("patches").Index(p.index)
			}
			one.Fields = append(one.Fields, p.fields(at, p.sides())...)
		}
		out = append(out, one)
	}
	rest := Template{}
	if in.Environment != nil {
		for i := range in.Environment.Patches {
			p := &in.Environment.Patches[i]
			from, to := ofComposite, ofEnvironment
			if p.writesComposite() {
				from, to = to, from
			}
			rest.Fields = append(rest.Fields, p.fields(object.Path("environment.patches").Index(i), [2]side{from, to})...)
		}
	}
	if to := in.WriteConnectionSecretToRef; to != nil {
		for i := range to.Patches {
			rest.Fields = append(rest.Fields, to.Patches[i].fields(object.Path("writeConnectionSecretToRef.patches").Index(i), [2]side{ofComposite, ofEnvironment})...)
		}
	}
	return append(out, rest)
}

type side int

const (
	ofComposite side = iota
	ofComposed
	ofEnvironment
)

func (p *patch) sides() [2]side {
	switch p.typeOrDefault() {
	case toComposite, combineToComposite:
		return [2]side{ofComposed, ofComposite}
	case toEnvironment, combineToEnvironment:
		return [2]side{ofComposed, ofEnvironment}
	case fromEnvironment, combineFromEnvironment:
		return [2]side{ofEnvironment, ofComposed}
	default:
		return [2]side{ofComposite, ofComposed}
	}
}

func (p *patch) writesComposite() bool {
	switch p.typeOrDefault() {
	case fromComposite, toEnvironment, combineFromComposite:
		return false
	default:
		return true
	}
}

// fields leaves out fields of the environment.
func (p *patch) fields(at object.Path, sides [2]side) []Field {
	var out []Field
	if sides[0] != ofEnvironment {
		one := Field{OfComposite: sides[0] == ofComposite}
		if p.combines() && p.Combine != nil {
			for i, v := range p.Combine.Variables {
				one.Place, one.Path = at.Field("combine", "variables").Index(i).Field("fromFieldPath"), v.FromFieldPath
				out = append(out, one)
			}
		} else {
			one.Place, one.Path = at.Field("fromFieldPath"), p.FromFieldPath
			out = append(out, one)
		}
	}
	if sides[1] != ofEnvironment {
		place := "toFieldPath"
		if p.ToFieldPath == "" {
			place = "fromFieldPath" // the default
		}
		out = append(out, Field{Place: at.Field(place), Path: cmp.Or(p.ToFieldPath, p.FromFieldPath), OfComposite: sides[1] == ofComposite, Writes: true})
	}
	return out
}
