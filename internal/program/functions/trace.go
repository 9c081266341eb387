package functions

import (
	"github.com/espalier-dev/espalier/internal/composition/functions/answer"
	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/environment"
	"github.com/espalier-dev/espalier/internal/composition/functions/patchandtransform"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/composition/trace"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/functions/graph"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

type writesFunc = func(r call.Request, to trace.Object, path []any) []trace.Write

// tracers are the built-in functions that say what in their input writes a field. The other ones write none.
func tracers() map[string]writesFunc {
	all := map[string]writesFunc{
		patchandtransform.Name:        patchandtransform.Writes,
		patchandtransform.PackageName: patchandtransform.Writes,
		environment.Name:              environment.Writes,
		environment.PackageName:       environment.Writes,
		answer.Name:                   writesOfAnswer,
		answer.PackageName:            writesOfAnswer,
	}
	for _, d := range []*graph.Dialect{graph.Native, graph.Kro} {
		graphs := graph.New(d)
		for _, name := range d.Names() {
			all[name] = graphs.Writes
		}
	}
	return all
}

// writesOfAnswer is for function-dummy: its input contains the response.
func writesOfAnswer(r call.Request, to trace.Object, path []any) []trace.Write {
	at := []any{"response", "desired", "composite", "resource"}
	switch to.Kind {
	case trace.Composed:
		at = []any{"response", "desired", "resources", to.Resource, "resource"}
	case trace.Environment:
		at = []any{"response", "context", patchandtransform.EnvironmentKey}
	case trace.Composite, trace.Config:
	}
	at = append(at, path...)
	value, has := trace.At(r.Input, at)
	if !has {
		return nil
	}
	return []trace.Write{{Place: object.Path("").Steps(at...), What: "response", Value: value}}
}

// Steps converts a recorded run of a pipeline. elsewhere reports whether calls of a function were only recorded.
func Steps(run []pipeline.Recorded, elsewhere func(function string) bool) ([]trace.Step, error) {
	all := tracers()
	steps := make([]trace.Step, 0, len(run))
	for i, one := range run {
		s := trace.Step{Name: one.Step.Name, Function: one.Step.Function, Index: i, Elsewhere: elsewhere(one.Step.Function)}
		if one.Err != nil {
			s.Failed = one.Err.Error()
		}
		if one.Request == nil || one.Response == nil {
			if s.Failed == "" {
				s.Failed = "it waits for what it requires"
			}
			steps = append(steps, s)
			continue
		}
		request, err := fromRequest(one.Request)
		if err != nil {
			return nil, err
		}
		s.Before = stateOf(request.Desired, request.Context)
		after, err := fromState(one.Response.GetDesired())
		if err != nil {
			return nil, err
		}
		context, err := structs.ToObject(one.Response.GetContext())
		if err != nil {
			return nil, err
		}
		s.After = stateOf(after, context)
		if writes := all[one.Step.Function]; writes != nil {
			s.Writes = traceOf(one.Request, writes)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// traceOf runs a function again on a copy of the request, because functions may change it.
func traceOf(request *fnv1.RunFunctionRequest, writes writesFunc) func(trace.Object, []any) []trace.Write {
	return func(to trace.Object, path []any) []trace.Write {
		r, err := fromRequest(request)
		if err != nil {
			return nil
		}
		return writes(r, to, path)
	}
}

func stateOf(s call.State, context map[string]any) trace.State {
	out := trace.State{Composite: s.Composite.Object, Resources: make(map[string]map[string]any, len(s.Resources))}
	for name, r := range s.Resources {
		out.Resources[name] = r.Object
	}
	out.Environment, _ = context[patchandtransform.EnvironmentKey].(map[string]any)
	return out
}
