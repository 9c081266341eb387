package environment

import (
	"fmt"
	"maps"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
)

// Run requires the EnvironmentConfigs that the input selects and, once they are read, merges
// them into one environment. Later ones win over earlier ones, all of them win over the
// existing environment, and that wins over the author's default data.
func Run(r call.Request) call.Response {
	in, problems := decode(r.Input)
	if len(problems) > 0 {
		return call.FatalResponse(r, "invalid Function input: "+call.FormatProblems(problems))
	}
	response := call.Response{Desired: r.Desired, Context: r.Context}
	if len(in.Spec.EnvironmentConfigs) == 0 && len(in.Spec.DefaultData) == 0 {
		return response
	}
	before, _ := r.Context[contextKey].(map[string]any)
	wanted, err := in.requirements(r.Observed.Composite.Object, before)
	if err != nil {
		return call.FatalResponse(r, err.Error())
	}
	response.Requirements.Resources = wanted
	for key := range wanted {
		if _, read := r.Required.Resources[key]; !read {
			return response // the function is called again with the required resources
		}
	}
	environment, err := in.merge(before, wanted, r.Required.Resources, func(int, map[string]any, map[string]any) {})
	if err != nil {
		failed := call.FatalResponse(r, err.Error())
		failed.Requirements = response.Requirements
		return failed
	}
	if environment["apiVersion"] == nil && environment["kind"] == nil {
		environment["apiVersion"], environment["kind"] = "internal.crossplane.io/v1alpha1", "Environment"
	}
	response.Context = maps.Clone(r.Context)
	if response.Context == nil {
		response.Context = map[string]any{}
	}
	response.Context[contextKey] = environment
	return response
}

// merge merges the default data, the environment before and the selected EnvironmentConfigs. merged is called with
// the environment after each of them, with the index of its source.
func (in *input) merge(before map[string]any, wanted map[string]call.ResourceSelector, read map[string][]map[string]any,
	merged func(source int, config, environment map[string]any)) (map[string]any, error) {
	environment := mergeMaps(in.Spec.DefaultData, before)
	for i := range in.Spec.EnvironmentConfigs {
		if _, selected := wanted[requirementKey(i)]; !selected {
			continue
		}
		found, err := in.selectConfigs(i, read[requirementKey(i)])
		if err != nil {
			return nil, err
		}
		for _, config := range found {
			if environment, err = in.Spec.EnvironmentConfigs[i].mergeInto(environment, config); err != nil {
				return nil, err
			}
			merged(i, config, environment)
		}
	}
	return environment, nil
}

func requirementKey(i int) string { return fmt.Sprintf("environment-config-%d", i) }

// mergeInto merges the data of an EnvironmentConfig into an environment, at the source's
// toFieldPath.
func (s *source) mergeInto(environment, config map[string]any) (map[string]any, error) {
	data, _ := config["data"].(map[string]any)
	if s.ToFieldPath != "" {
		at := map[string]any{}
		if err := fieldpath.Set(at, s.ToFieldPath, data, fieldpath.Policy{}); err != nil {
			return nil, fmt.Errorf("cannot merge the data of EnvironmentConfig %s at %s: %w", nameOf(config), s.ToFieldPath, err)
		}
		data = at
	}
	return mergeMaps(environment, data), nil
}

// mergeMaps merges b into a copy of a: values of b win, and objects are merged recursively.
// The result shares values with both maps and changes neither.
func mergeMaps(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	for name, value := range b {
		one, isObject := out[name].(map[string]any)
		if other, both := value.(map[string]any); both && isObject {
			out[name] = mergeMaps(one, other)
			continue
		}
		out[name] = value
	}
	return out
}
