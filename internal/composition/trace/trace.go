// Package trace says which steps of a composition's pipeline set a field, from a recorded run of the pipeline. The functions themselves
// say which part of their input writes a field: they run on the recorded request again, by the code that composes.
// See docs/design/0016-the-controllers-without-effect.md.
//
// Pure: it decides from values alone.
package trace

import (
	"reflect"

	"github.com/espalier-dev/espalier/internal/object"
)

// Object is what a step reads or writes.
type Object struct {
	Kind ObjectKind
	// Resource is the name of a composed resource in the pipeline, or of another object that was read.
	Resource string
}

// ObjectKind says what an Object is.
type ObjectKind string

// Kinds of objects of a pipeline.
const (
	// Composite is the composite: observed where it is read, desired where it is written.
	Composite ObjectKind = "composite"
	// Composed is a composed resource: observed where it is read, desired where it is written.
	Composed ObjectKind = "resource"
	// Environment is what steps pass on in the context of the pipeline.
	Environment ObjectKind = "environment"
	// Config is an EnvironmentConfig.
	Config ObjectKind = "EnvironmentConfig"
)

// Write is one write of a step to a field.
type Write struct {
	// Place is the part of the step's input that writes it; empty if the function does not say.
	Place object.Path
	// What names that part, such as the type of a patch.
	What string
	// Reads are the fields that it reads, with their values.
	Reads []Read
	// Transforms are the values after each transform of what was read.
	Transforms []Transform
	// Value is the value of the field after the write; nil for the value after the step.
	Value any
}

// Read is a field that a write reads.
type Read struct {
	Of    Object
	Field object.Path
	Value any
}

// Transform is the value after a transform.
type Transform struct {
	Type  string
	Value any
}

// State is what a step of the pipeline sees or returns: desired objects, and the environment.
type State struct {
	Composite   map[string]any
	Resources   map[string]map[string]any
	Environment map[string]any
}

// Of returns an object of the state.
func (s State) Of(o Object) map[string]any {
	switch o.Kind {
	case Composite:
		return s.Composite
	case Composed:
		return s.Resources[o.Resource]
	case Environment:
		return s.Environment
	case Config:
	}
	return nil
}

// Step is a step of a pipeline, as it ran.
type Step struct {
	Name, Function string
	// Index is its place in the pipeline.
	Index int
	// Elsewhere: the step's function cannot run here, State is the previous step's, and what the step did is unknown.
	Elsewhere bool
	// Failed is why a step failed; it and the steps after it have no state.
	Failed string
	// Before and After are the states around the step.
	Before, After State
	// Writes returns what in the step's input writes a field, in order; nil for a function that does not say.
	Writes func(to Object, path []any) []Write
}

// Written is a write with its step.
type Written struct {
	Step Step
	Write
}

// Of returns the writes of the steps to a field, in order: the last one sets its value. Writes before a step that removes the field do not
// count. A step that changes the value and does not say by
// what has one write without a place.
func Of(steps []Step, to Object, path []any) (out []Written) {
	for _, s := range steps {
		if s.Elsewhere || s.Failed != "" {
			continue
		}
		before, was := At(s.Before.Of(to), path)
		after, is := At(s.After.Of(to), path)
		if was && !is {
			out = nil // the step has removed it
			continue
		}
		var writes []Write
		if s.Writes != nil {
			writes = s.Writes(to, path)
		}
		for i, w := range writes {
			if w.Value == nil && i == len(writes)-1 {
				w.Value = after
			}
			out = append(out, Written{s, w})
		}
		if len(writes) == 0 && is && (!was || !reflect.DeepEqual(before, after)) {
			out = append(out, Written{s, Write{Value: after}})
		}
	}
	return out
}

// At returns the value at a path of an object. Steps are names of fields and indexes of items.
func At(o map[string]any, path []any) (value any, has bool) {
	if o == nil {
		return nil, false
	}
	value = o
	for _, step := range path {
		switch step := step.(type) {
		case string:
			fields, _ := value.(map[string]any)
			if value, has = fields[step]; !has {
				return nil, false
			}
		case int:
			items, _ := value.([]any)
			if step < 0 || step >= len(items) {
				return nil, false
			}
			value = items[step]
		}
	}
	return value, true
}

// Aligned returns the path in one object of what is at a path of another one: items of lists that have names are
// found by these, because other writers insert items too. One that is not there has the index -1.
func Aligned(in, live map[string]any, path []any) []any {
	out := make([]any, len(path))
	copy(out, path)
	for i, step := range path {
		if _, isIndex := step.(int); !isIndex {
			continue
		}
		item, _ := At(live, path[:i+1])
		list, _ := At(in, out[:i])
		name := nameOf(item)
		items, _ := list.([]any)
		for at, other := range items {
			switch {
			case name == "":
			case nameOf(other) == name:
				out[i] = at
			case at == step && out[i] == step:
				out[i] = -1 // another item is there
			}
		}
	}
	return out
}

func nameOf(item any) string {
	fields, _ := item.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
