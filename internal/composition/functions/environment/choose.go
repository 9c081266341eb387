package environment

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
)

// requirements are the required EnvironmentConfigs. A selector with only optional labels
// without values selects nothing.
func (in *input) requirements(composite, environment map[string]any) (map[string]call.ResourceSelector, error) {
	out := map[string]call.ResourceSelector{}
	for i, s := range in.Spec.EnvironmentConfigs {
		wanted := call.ResourceSelector{APIVersion: apiVersion, Kind: kind}
		if s.Type == byReference {
			wanted.Name = s.Ref.Name
			out[requirementKey(i)] = wanted
			continue
		}
		wanted.Labels = map[string]string{}
		for j := range s.Selector.MatchLabels {
			m := &s.Selector.MatchLabels[j]
			value, err := m.labelValue(composite, environment)
			switch {
			case err == nil:
				wanted.Labels[m.Key] = value
			case m.FromFieldPathPolicy != strict.Optional:
				return nil, fmt.Errorf("spec.environmentConfigs[%d]: cannot read the value of label %s: %w", i, m.Key, err)
			}
		}
		if len(wanted.Labels) > 0 {
			out[requirementKey(i)] = wanted
		}
	}
	return out, nil
}

func (m *matcher) labelValue(composite, environment map[string]any) (string, error) {
	if m.Type == strict.FromValue {
		return *m.Value, nil
	}
	from, of := composite, "composite"
	if m.Type == fromEnvironment {
		from, of = environment, "environment"
	}
	value, err := fieldpath.Get(from, m.ValueFromFieldPath)
	if err != nil {
		return "", fmt.Errorf("in the %s, %w", of, err)
	}
	if _, ok := value.(string); !ok {
		return "", fmt.Errorf("%s of the %s must be a string", m.ValueFromFieldPath, of)
	}
	if value, err = m.Transforms.Apply(value); err != nil {
		return "", err
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%s of the %s must be a string after its transforms", m.ValueFromFieldPath, of)
	}
	return text, nil
}

// selectConfigs returns which of the found EnvironmentConfigs to merge, in order.
func (in *input) selectConfigs(i int, found []map[string]any) ([]map[string]any, error) {
	s := &in.Spec.EnvironmentConfigs[i]
	switch {
	case s.Type == byReference && len(found) == 0 && in.Spec.Policy.Resolution == strict.Optional:
		return nil, nil
	case s.Type == byReference && len(found) == 0:
		return nil, fmt.Errorf("EnvironmentConfig %s does not exist, and spec.policy.resolution is Required", s.Ref.Name)
	case s.Type == byReference:
		return found[:1], nil
	case s.Selector.Mode == single && len(found) != 1:
		return nil, fmt.Errorf("spec.environmentConfigs[%d] selects %d EnvironmentConfigs; mode Single requires exactly one", i, len(found))
	case s.Selector.Mode == single:
		return found, nil
	}
	if least := s.Selector.MinMatch; least != nil && int64(len(found)) < *least {
		return nil, fmt.Errorf("spec.environmentConfigs[%d] selects %d EnvironmentConfigs; minMatch is %d", i, len(found), *least)
	}
	sorted, err := SortByField(kind, cmp.Or(s.Selector.SortByFieldPath, "metadata.name"), found)
	if err != nil {
		return nil, fmt.Errorf("spec.environmentConfigs[%d]: %w", i, err)
	}
	if most := s.Selector.MaxMatch; most != nil && int64(len(sorted)) > *most {
		sorted = sorted[:*most]
	}
	return sorted, nil
}

// SortByField sorts objects of a kind by a string or number field. An object without the field counts
// as having "" or 0. Strings and numbers cannot be mixed.
func SortByField(kind, path string, objects []map[string]any) ([]map[string]any, error) {
	type entry struct {
		object map[string]any
		text   string
		number float64
	}
	entries := make([]entry, len(objects))
	texts, numbers := false, false
	for i, o := range objects {
		entries[i].object = o
		value, err := fieldpath.Get(o, path)
		if err != nil && !fieldpath.IsNotFound(err) {
			return nil, fmt.Errorf("cannot sort %s %s: %w", kind, nameOf(o), err)
		}
		switch value := value.(type) {
		case nil:
		case string:
			entries[i].text, texts = value, true
		case int64:
			entries[i].number, numbers = float64(value), true
		case float64:
			entries[i].number, numbers = value, true
		default:
			return nil, fmt.Errorf("cannot sort %s %s: %s must be a string or a number", kind, nameOf(o), path)
		}
	}
	if texts && numbers {
		return nil, fmt.Errorf("cannot sort by %s: it is a string in one %s and a number in another", path, kind)
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Or(cmp.Compare(a.text, b.text), cmp.Compare(a.number, b.number)) })
	out := make([]map[string]any, len(entries))
	for i, e := range entries {
		out[i] = e.object
	}
	return out, nil
}

func nameOf(o map[string]any) any {
	name, _ := fieldpath.Get(o, "metadata.name")
	return name
}
