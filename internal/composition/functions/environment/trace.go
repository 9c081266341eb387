package environment

import (
	"fmt"
	"reflect"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/composition/trace"
	"github.com/espalier-dev/espalier/internal/object"
)

// Writes returns the parts of the request's input that set a field of the environment, in the order in which they are merged: the default
// data, and EnvironmentConfigs. It merges them as Run does.
func Writes(r call.Request, to trace.Object, path []any) (out []trace.Write) {
	in, problems := decode(r.Input)
	if len(problems) > 0 || to.Kind != trace.Environment {
		return nil
	}
	before, _ := r.Context[contextKey].(map[string]any)
	wanted, err := in.requirements(r.Observed.Composite.Object, before)
	if err != nil {
		return nil
	}
	last, has := trace.At(before, path)
	if value, set := trace.At(in.Spec.DefaultData, path); set && !has {
		out, last = append(out, trace.Write{Place: "spec.defaultData", What: "default data", Value: value}), value
	}
	_, err = in.merge(before, wanted, r.Required.Resources, func(source int, config, environment map[string]any) {
		value, has := trace.At(environment, path)
		from, merged := in.Spec.EnvironmentConfigs[source].fieldIn(path)
		fields, _ := config["data"].(map[string]any)
		_, inConfig := trace.At(fields, from)
		if !has || !merged || !inConfig && reflect.DeepEqual(value, last) {
			return
		}
		last = value
		out = append(out, trace.Write{
			Place: object.Path("spec.environmentConfigs").Index(source), What: "EnvironmentConfig", Value: value,
			Reads: []trace.Read{{Of: trace.Object{Kind: trace.Config, Resource: fmt.Sprint(nameOf(config))}, Field: object.Path("data").Steps(from...), Value: value}},
		})
	})
	if err != nil {
		return nil
	}
	return out
}

// fieldIn returns the place of a field of the environment in the data of an EnvironmentConfig; false if they are merged into another field.
func (s *source) fieldIn(path []any) (below []any, merged bool) {
	at, err := fieldpath.Parse(s.ToFieldPath)
	switch {
	case s.ToFieldPath == "":
		return path, true
	case err != nil:
		return nil, false
	}
	for i, segment := range at {
		if i == len(path) {
			return nil, true // something around the field that they are merged into
		}
		if segment.IsIndex || path[i] != segment.Field {
			return nil, false
		}
	}
	return path[len(at):], true
}
