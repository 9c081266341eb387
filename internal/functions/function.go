// Package functions makes the functions that are part of this program known to pipelines,
// under the names that compositions know them by.
package functions

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/functions/answer"
	"github.com/espalier-dev/espalier/internal/functions/autoready"
	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/functions/environment"
	"github.com/espalier-dev/espalier/internal/functions/graph"
	"github.com/espalier-dev/espalier/internal/functions/patchandtransform"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Core is a function as values: what it is given and what it answers.
type Core = func(call.Request) call.Response

// Builtin returns those functions that are values, by each of their names.
func Builtin() map[string]Core {
	graphs := graph.New()
	return map[string]Core{
		graph.Name:                    graphs.Run,
		graph.PackageName:             graphs.Run,
		patchandtransform.Name:        patchandtransform.Run,
		patchandtransform.PackageName: patchandtransform.Run,
		autoready.Name:                autoready.Run,
		autoready.PackageName:         autoready.Run,
		environment.Name:              environment.Run,
		environment.PackageName:       environment.Run,
	}
}

// All returns the functions that are part of this program, by each of their names.
func All() map[string]pipeline.Func {
	answers := func(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		return answer.Run(request)
	}
	all := map[string]pipeline.Func{answer.Name: answers, answer.PackageName: answers}
	for name, core := range Builtin() {
		all[name] = Adapt(core)
	}
	return all
}

// Register makes all of them known.
func Register(known *pipeline.Functions) {
	for name, function := range All() {
		known.Register(name, function)
	}
}

// Adapt makes a pipeline's function of values. A request that objects cannot hold is an
// error.
func Adapt(core Core) pipeline.Func {
	return func(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		r, err := fromRequest(request)
		if err != nil {
			return nil, err
		}
		return toResponse(request, core(r))
	}
}

func fromRequest(request *fnv1.RunFunctionRequest) (r call.Request, err error) {
	if r.Observed, err = fromState(request.GetObserved()); err != nil {
		return r, fmt.Errorf("observed: %w", err)
	}
	if r.Desired, err = fromState(request.GetDesired()); err != nil {
		return r, fmt.Errorf("desired: %w", err)
	}
	if r.Input, err = structs.From(request.GetInput()); err != nil {
		return r, fmt.Errorf("input: %w", err)
	}
	if r.Context, err = structs.From(request.GetContext()); err != nil {
		return r, fmt.Errorf("context: %w", err)
	}
	if r.Given, err = fromRequirements(request); err != nil {
		return r, err
	}
	return r, nil
}

func fromState(s *fnv1.State) (state call.State, err error) {
	if state.Composite, err = fromResource(s.GetComposite()); err != nil {
		return state, fmt.Errorf("composite: %w", err)
	}
	state.Resources = make(map[string]call.Resource, len(s.GetResources()))
	for name, resource := range s.GetResources() {
		if state.Resources[name], err = fromResource(resource); err != nil {
			return state, fmt.Errorf("resource %q: %w", name, err)
		}
	}
	return state, nil
}

func fromResource(r *fnv1.Resource) (call.Resource, error) {
	object, err := structs.From(r.GetResource())
	ready := map[fnv1.Ready]call.Ready{fnv1.Ready_READY_TRUE: call.True, fnv1.Ready_READY_FALSE: call.False}[r.GetReady()]
	return call.Resource{Object: object, ConnectionDetails: r.GetConnectionDetails(), Ready: ready}, err
}

func toResponse(request *fnv1.RunFunctionRequest, r call.Response) (*fnv1.RunFunctionResponse, error) {
	response := &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: request.GetMeta().GetTag()}}
	if r.TTL > 0 {
		response.Meta.Ttl = durationpb.New(r.TTL)
	}
	for _, result := range r.Results {
		severity := fnv1.Severity_SEVERITY_WARNING
		if result.Severity == call.Fatal {
			severity = fnv1.Severity_SEVERITY_FATAL
		}
		response.Results = append(response.Results, &fnv1.Result{Severity: severity, Message: result.Message})
	}
	response.Requirements, response.Conditions = toRequirements(r.Requirements), toConditions(r.Conditions)
	var err error
	if response.Context, err = toContext(r.Context); err != nil {
		return nil, err
	}
	response.Desired = &fnv1.State{Resources: make(map[string]*fnv1.Resource, len(r.Desired.Resources))}
	if response.Desired.Composite, err = toResource(r.Desired.Composite); err != nil {
		return nil, fmt.Errorf("desired composite: %w", err)
	}
	for name, resource := range r.Desired.Resources {
		if response.Desired.Resources[name], err = toResource(resource); err != nil {
			return nil, fmt.Errorf("desired resource %q: %w", name, err)
		}
	}
	return response, nil
}

func toContext(context map[string]any) (*structpb.Struct, error) {
	s, err := structs.To(context)
	if err != nil {
		return nil, fmt.Errorf("context: %w", err)
	}
	return s, nil
}

func toResource(r call.Resource) (*fnv1.Resource, error) {
	object, err := structs.To(r.Object)
	ready := map[call.Ready]fnv1.Ready{call.True: fnv1.Ready_READY_TRUE, call.False: fnv1.Ready_READY_FALSE}[r.Ready]
	return &fnv1.Resource{Resource: object, ConnectionDetails: r.ConnectionDetails, Ready: ready}, err
}
