package patchandtransform

import (
	"fmt"
	"reflect"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/composition/trace"
	"github.com/espalier-dev/espalier/internal/object"
)

// Writes returns the bases and patches of the request's input that write a field, in the order in which they are applied. It runs the
// function on the request.
func Writes(request call.Request, to trace.Object, path []any) []trace.Write {
	in, problems, _ := Decode(request.Input)
	if len(problems) > 0 {
		return nil
	}
	request.Desired.Composite = cloneResource(request.Desired.Composite)
	recorded := &recorder{to: to, path: path, in: in}
	r := &renderState{Request: request, in: in, details: map[string][]byte{}, recorder: recorded}
	if err := r.run(); err != nil {
		return nil
	}
	return recorded.writes
}

type target struct {
	trace.Object
	fields map[string]any
}

func composed(name string) trace.Object { return trace.Object{Kind: trace.Composed, Resource: name} }

func (r *renderState) observedComposite() target {
	return target{trace.Object{Kind: trace.Composite}, r.Observed.Composite.Object}
}

func (r *renderState) desiredComposite() target {
	return target{trace.Object{Kind: trace.Composite}, r.Desired.Composite.Object}
}

func (r *renderState) theEnvironment() target {
	return target{trace.Object{Kind: trace.Environment}, r.environment}
}

func (r *renderState) apply(p *placedPatch, from, to target) error {
	if r.recorder == nil || r.recorder.to != to.Object {
		return p.apply(from.fields, to.fields)
	}
	before, was := trace.At(to.fields, r.recorder.path)
	before = copied(before)
	if err := p.apply(from.fields, to.fields); err != nil {
		return err
	}
	after, is := trace.At(to.fields, r.recorder.path)
	if is && (!was || !reflect.DeepEqual(before, after) || p.writes(r.recorder.path)) {
		r.recorder.patch(p, from, after)
	}
	return nil
}

// writes reports whether the patch writes a field, a field around it or one in it.
func (p *patch) writes(path []any) bool {
	target, err := fieldpath.Parse(p.target())
	if err != nil {
		return false
	}
	for i := range min(len(target), len(path)) {
		var same bool
		switch step := path[i].(type) {
		case string:
			same = !target[i].IsIndex && target[i].Field == step
		case int:
			same = target[i].IsIndex && target[i].Index == step
		}
		if !same && target[i].Field != "*" {
			return false
		}
	}
	return true
}

// recorder collects the writes to a field. A nil recorder collects nothing.
type recorder struct {
	to     trace.Object
	path   []any
	in     *Input
	at     object.Path
	writes []trace.Write
}

func (r *recorder) enter(at object.Path) {
	if r != nil {
		r.at = at
	}
}

func (r *recorder) template(index int, t *template, desired map[string]any) {
	if r == nil {
		return
	}
	r.at = object.Path("resources").Index(index)
	if value, has := trace.At(desired, r.path); has && t.Base != nil && r.to == composed(t.Name) {
		r.writes = append(r.writes, trace.Write{Place: r.at.Field("base").Steps(r.path...), What: "base of " + t.Name, Value: copied(value)})
	}
}

// kept records the name and namespace of a resource that exists, which stay.
func (r *recorder) kept(t *template, desired map[string]any) {
	if r == nil || r.to != composed(t.Name) || len(r.path) != 2 || r.path[0] != "metadata" || r.path[1] != "name" && r.path[1] != "namespace" {
		return
	}
	if value, has := trace.At(desired, r.path); has {
		r.writes = append(r.writes, trace.Write{Place: r.at, What: "kept, as it is observed", Value: value})
	}
}

func (r *recorder) patch(p *placedPatch, from target, after any) {
	w := trace.Write{Place: r.at.Field("patches").Index(p.index), What: string(p.typeOrDefault()), Value: copied(after)}
	if p.set != ownPatches {
		w.Place = object.Path("patchSets").Index(p.set).Field("patches").Index(p.index)
		w.What += fmt.Sprintf(" of patch set %s, for %s", r.in.PatchSets[p.set].Name, r.at)
	}
	read := func(path string) any {
		value, err := fieldpath.Get(from.fields, path)
		if err == nil {
			w.Reads = append(w.Reads, trace.Read{Of: from.Object, Field: readPath(path), Value: copied(value)})
		}
		return value
	}
	var value any
	if p.combines() {
		for _, v := range p.Combine.Variables {
			read(v.FromFieldPath)
		}
		value, _ = p.Combine.format(from.fields) // it has been applied without an error
		w.Transforms = append(w.Transforms, trace.Transform{Type: "combine", Value: value})
	} else {
		value = read(p.FromFieldPath)
	}
	for i := range p.Transforms {
		value, _ = apply(p.Transforms[i:i+1], value)
		w.Transforms = append(w.Transforms, trace.Transform{Type: p.Transforms[i].Type, Value: copied(value)})
	}
	r.writes = append(r.writes, w)
}

func readPath(text string) (out object.Path) {
	path, err := fieldpath.Parse(text)
	if err != nil {
		return object.Path(text)
	}
	for _, s := range path {
		if s.IsIndex {
			out = out.Index(s.Index)
		} else {
			out = out.Field(s.Field)
		}
	}
	return out
}

// copied is a value that later patches do not change. It is of JSON: fieldpath copies other values of transforms.
func copied(value any) any {
	out, err := fieldpath.JSON(value)
	if err != nil {
		return nil
	}
	return out
}
