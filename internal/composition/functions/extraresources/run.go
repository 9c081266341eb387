package extraresources

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/environment"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/composition/functions/strict"
)

// Run requires the objects that the input selects and, once they are read, puts them into the pipeline's context.
func Run(r call.Request) call.Response {
	in, problems := decode(r.Input)
	if len(problems) > 0 {
		return call.FatalResponse(r, "invalid Function input: "+call.FormatProblems(problems))
	}
	response := call.Response{Desired: r.Desired, Context: r.Context}
	var err error
	if response.Requirements.Resources, err = in.requirements(r.Observed.Composite.Object); err != nil {
		return call.FatalResponse(r, err.Error())
	}
	for key := range response.Requirements.Resources {
		if _, read := r.Required.Resources[key]; !read {
			return response // the function is called again with the required resources
		}
	}
	found := map[string]any{}
	for i := range in.Spec.ExtraResources {
		s := &in.Spec.ExtraResources[i]
		if _, selected := response.Requirements.Resources[s.Into]; !selected {
			continue
		}
		objects, err := s.choose(r.Required.Resources[s.Into], in.Spec.Policy.Resolution == strict.Optional)
		if err != nil {
			failed := call.FatalResponse(r, fmt.Sprintf("spec.extraResources[%d]: %v", i, err))
			failed.Requirements = response.Requirements
			return failed
		}
		if objects != nil {
			found[s.Into] = objects
		}
	}
	response.Context = maps.Clone(r.Context)
	if response.Context == nil {
		response.Context = map[string]any{}
	}
	response.Context[in.Spec.Context.Key] = found
	return response
}

// requirements are the required objects by the key that they are put into.
func (in *input) requirements(composite map[string]any) (map[string]call.ResourceSelector, error) {
	out := map[string]call.ResourceSelector{}
	for i := range in.Spec.ExtraResources {
		s := &in.Spec.ExtraResources[i]
		wanted := call.ResourceSelector{APIVersion: s.APIVersion, Kind: s.Kind, Namespace: s.Namespace, Name: s.Ref.Name}
		if s.Type == byReference {
			out[s.Into] = wanted
			continue
		}
		wanted.Name, wanted.Labels = "", map[string]string{}
		for _, m := range s.Selector.MatchLabels {
			value, err := m.labelValue(composite)
			switch {
			case err == nil:
				wanted.Labels[m.Key] = value
			case m.FromFieldPathPolicy != strict.Optional:
				return nil, fmt.Errorf("spec.extraResources[%d]: cannot read the value of label %s: %w", i, m.Key, err)
			}
		}
		if len(wanted.Labels) > 0 {
			out[s.Into] = wanted
		}
	}
	return out, nil
}

func (m *matcher) labelValue(composite map[string]any) (string, error) {
	if m.Type == strict.FromValue {
		return *m.Value, nil
	}
	value, err := fieldpath.Get(composite, m.ValueFromFieldPath)
	if err != nil {
		return "", fmt.Errorf("in the composite, %w", err)
	}
	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%s of the composite must be a string", m.ValueFromFieldPath)
	}
	return text, nil
}

// choose returns which of the found objects to use, in order; nil if an optional one does not exist.
func (s *source) choose(found []map[string]any, isOptional bool) ([]any, error) {
	if s.Type == byReference {
		switch {
		case len(found) == 0 && isOptional:
			return nil, nil
		case len(found) == 0:
			return nil, fmt.Errorf("%s %s does not exist, and spec.policy.resolution is Required", s.Kind, s.Ref.Name)
		}
		return []any{found[0]}, nil
	}
	if least := s.Selector.MinMatch; least != nil && int64(len(found)) < *least {
		return nil, fmt.Errorf("it selects %d objects; minMatch is %d", len(found), *least)
	}
	sorted, err := environment.SortByField(s.Kind, cmp.Or(s.Selector.SortByFieldPath, "metadata.name"), found)
	if err != nil {
		return nil, err
	}
	if most := s.Selector.MaxMatch; most != nil && int64(len(sorted)) > *most {
		sorted = sorted[:*most]
	}
	out := make([]any, len(sorted))
	for i := range sorted {
		out[i] = sorted[i]
	}
	return out, nil
}
