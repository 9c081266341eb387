package report

import (
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
)

// Read returns the engine's part of an instance's status. Fields that are missing or malformed, because another writer
// changed them, are left empty.
func Read(instance *unstructured.Unstructured) Status {
	s := Status{Conditions: condition.Read(instance)}
	s.State = StateOf(instance)
	s.Waiting = ReadWaiting(instance)
	s.Deletion = ReadDeletion(instance)
	s.Pruning = ReadPruning(instance)
	s.Skipped = ReadSkipped(instance)
	s.Problems = ReadProblems(instance)
	return s
}

// StateOf returns status.state; empty if it isn't set.
func StateOf(instance *unstructured.Unstructured) v1alpha1.InstanceState {
	state, _, _ := unstructured.NestedString(instance.Object, "status", StateField)
	return v1alpha1.InstanceState(state)
}

// ReadWaiting returns what the instance's resources wait for.
func ReadWaiting(instance *unstructured.Unstructured) []Waiting {
	var out []Waiting
	if !read(instance, WaitingField, &out) {
		return nil
	}
	return out
}

// ReadSkipped returns the resources of an instance that are left out.
func ReadSkipped(instance *unstructured.Unstructured) []Skipped {
	var out []Skipped
	if !read(instance, SkippedField, &out) {
		return nil
	}
	return out
}

// ReadProblems returns why resources of an instance can't be applied or aren't ready.
func ReadProblems(instance *unstructured.Unstructured) []Problem {
	var out []Problem
	if !read(instance, ProblemsField, &out) {
		return nil
	}
	return out
}

// ReadPruning returns the objects that are no longer desired and not gone yet.
func ReadPruning(instance *unstructured.Unstructured) []Blocker {
	var out []Blocker
	if !read(instance, PruningField, &out) {
		return nil
	}
	return out
}

// ReadDeletion returns the progress of an instance's deletion; nil if the status doesn't report
// it.
func ReadDeletion(instance *unstructured.Unstructured) *Deletion {
	var out *Deletion
	if !read(instance, DeletionField, &out) || out == nil || out.StartedAt.IsZero() {
		return nil
	}
	return out
}

// It reports whether the field is present and well-formed.
func read(o *unstructured.Unstructured, field string, into any) bool {
	raw, ok, _ := unstructured.NestedFieldNoCopy(o.Object, "status", field)
	if !ok || raw == nil {
		return false
	}
	text, err := json.Marshal(raw)
	return err == nil && json.Unmarshal(text, into) == nil
}

// Render adds the engine's part to the author's fields: the fields of the set, and the
// dialect's. Author is not changed.
func (s Status) Render(author map[string]any, fields FieldSet) map[string]any {
	out := maps.Clone(author)
	if out == nil {
		out = map[string]any{}
	}
	if s.State != "" {
		out[StateField] = string(s.State)
	}
	out[ConditionsField] = s.Conditions.Unstructured()
	if fields.ObservedGeneration && s.ObservedGeneration > 0 {
		out[ObservedGenerationField] = s.ObservedGeneration
	}
	put := func(field string, written, hasValue bool, value any) {
		if !written {
			return
		}
		delete(out, field)
		if hasValue {
			out[field] = toUnstructured(value)
		}
	}
	put(WaitingField, fields.Waiting, len(s.Waiting) > 0, s.Waiting)
	put(DeletionField, fields.Deletion, s.Deletion != nil, s.Deletion)
	put(PruningField, fields.Pruning, len(s.Pruning) > 0, s.Pruning)
	put(SkippedField, fields.Skipped, len(s.Skipped) > 0, s.Skipped)
	put(ProblemsField, fields.Problems, len(s.Problems) > 0, s.Problems)
	return out
}

// WithoutAddedGeneration returns the next status without observedGeneration if the current one has none: a former
// release or another engine has written it. That field alone is no reason to write, so an upgrade writes nothing.
func WithoutAddedGeneration(current any, next map[string]any) map[string]any {
	stored, _ := current.(map[string]any)
	if _, has := stored[ObservedGenerationField]; has || len(stored) == 0 {
		return next
	}
	out := maps.Clone(next)
	delete(out, ObservedGenerationField)
	return out
}

func toUnstructured(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic("report: " + err.Error()) // it holds texts, numbers and times only
	}
	var out any
	if err := utiljson.Unmarshal(text, &out); err != nil {
		panic("report: " + err.Error())
	}
	return out
}
