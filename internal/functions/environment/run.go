package environment

import (
	"fmt"
	"maps"

	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/functions/fieldpath"
)

// Run requires the EnvironmentConfigs that the input selects, and once they have been
// looked for makes one environment of them: later ones go before earlier ones, all of them
// before the environment that there was, and that before the author's default data.
func Run(r call.Request) call.Response {
	in, problems := decode(r.Input)
	if len(problems) > 0 {
		return call.Fails(r, "invalid Function input: "+call.Told(problems))
	}
	response := call.Response{Desired: r.Desired, Context: r.Context}
	if len(in.Spec.EnvironmentConfigs) == 0 && len(in.Spec.DefaultData) == 0 {
		return response
	}
	before, _ := r.Context[contextKey].(map[string]any)
	wanted, err := in.requirements(r.Observed.Composite.Object, before)
	if err != nil {
		return call.Fails(r, err.Error())
	}
	response.Requirements.Resources = wanted
	for key := range wanted {
		if _, looked := r.Given.Resources[key]; !looked {
			return response // it is called again
		}
	}
	environment := merged(in.Spec.DefaultData, before)
	for i := range in.Spec.EnvironmentConfigs {
		if _, selected := wanted[keyOf(i)]; !selected {
			continue
		}
		found, err := in.choose(i, r.Given.Resources[keyOf(i)])
		if err == nil {
			environment, err = in.Spec.EnvironmentConfigs[i].add(environment, found)
		}
		if err != nil {
			failed := call.Fails(r, err.Error())
			failed.Requirements = response.Requirements
			return failed
		}
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

// keyOf is the key of what a source selects.
func keyOf(i int) string { return fmt.Sprintf("environment-config-%d", i) }

// add merges the data of EnvironmentConfigs into an environment, at the path that the
// source says.
func (s *source) add(environment map[string]any, configs []map[string]any) (map[string]any, error) {
	for _, config := range configs {
		data, _ := config["data"].(map[string]any)
		if s.ToFieldPath != "" {
			at := map[string]any{}
			if err := fieldpath.Set(at, s.ToFieldPath, data, fieldpath.Policy{}); err != nil {
				return nil, fmt.Errorf("the data of EnvironmentConfig %s can't be put at %s: %w", nameOf(config), s.ToFieldPath, err)
			}
			data = at
		}
		environment = merged(environment, data)
	}
	return environment, nil
}

// merged has the fields of both; where both have one, the latter's counts, unless both are
// objects. It shares what it has with them, and changes neither.
func merged(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	for name, value := range b {
		one, isObject := out[name].(map[string]any)
		if other, both := value.(map[string]any); both && isObject {
			out[name] = merged(one, other)
			continue
		}
		out[name] = value
	}
	return out
}
