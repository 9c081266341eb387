// Package functions registers the built-in functions under the names that compositions
// reference them by.
// See docs/design/0013-composites-and-functions.md.
package functions

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/composition/functions/answer"
	"github.com/espalier-dev/espalier/internal/composition/functions/autoready"
	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/environment"
	"github.com/espalier-dev/espalier/internal/composition/functions/extraresources"
	"github.com/espalier-dev/espalier/internal/composition/functions/gotemplating"
	"github.com/espalier-dev/espalier/internal/composition/functions/patchandtransform"
	"github.com/espalier-dev/espalier/internal/composition/functions/sequencer"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/program/functions/graph"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// PureFunc is a function from request to response, without I/O.
type PureFunc = func(call.Request) call.Response

// PureFunctions returns the built-in functions that are PureFuncs, by each of their names.
func PureFunctions() map[string]PureFunc {
	all := map[string]PureFunc{
		patchandtransform.Name:        patchandtransform.Run,
		patchandtransform.PackageName: patchandtransform.Run,
		autoready.Name:                autoready.Run,
		autoready.PackageName:         autoready.Run,
		environment.Name:              environment.Run,
		environment.PackageName:       environment.Run,
		extraresources.Name:           extraresources.Run,
		extraresources.PackageName:    extraresources.Run,
	}
	for _, d := range []*graph.Dialect{graph.Native, graph.Kro} {
		graphs := graph.New(d)
		for _, name := range d.Names() {
			all[name] = graphs.Run
		}
	}
	return all
}

// BuiltIn returns all built-in functions, by each of their names.
func BuiltIn() map[string]pipeline.Func {
	pure := func(run func(*fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error)) pipeline.Func {
		return func(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return run(request)
		}
	}
	all := map[string]pipeline.Func{
		answer.Name: pure(answer.Run), answer.PackageName: pure(answer.Run),
		sequencer.Name: pure(sequencer.Run), sequencer.PackageName: pure(sequencer.Run),
		gotemplating.Name: gotemplating.Run, gotemplating.PackageName: gotemplating.Run,
	}
	for name, function := range PureFunctions() {
		all[name] = Adapt(function)
	}
	return all
}

// NameOf is the name of the built-in function that a Function is, which its package identifies if its name does not; the Function's own
// name if it is none.
func NameOf(function, image string) string {
	all := BuiltIn()
	if _, isBuiltIn := all[function]; isBuiltIn {
		return function
	}
	if name := PackageName(image); all[name] != nil {
		return name
	}
	return function
}

// PackageName is the name that a package manager gives to the Function of a package that it
// installs as a dependency: the last two parts of the image's path.
func PackageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	parts := strings.Split(image, "/")
	if len(parts) < 2 {
		return ""
	}
	name, _, _ := strings.Cut(parts[len(parts)-1], ":")
	return parts[len(parts)-2] + "-" + name
}

// Register registers all built-in functions.
func Register(functions *pipeline.Functions) {
	for name, function := range BuiltIn() {
		functions.Register(name, function)
	}
}

// Adapt converts a PureFunc to a function of the protocol. A request that cannot be
// converted to objects is an error; see package structs.
func Adapt(function PureFunc) pipeline.Func {
	return func(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		r, err := fromRequest(request)
		if err != nil {
			return nil, err
		}
		return toResponse(request, function(r))
	}
}

func fromRequest(request *fnv1.RunFunctionRequest) (r call.Request, err error) {
	if r.Observed, err = fromState(request.GetObserved()); err != nil {
		return r, fmt.Errorf("observed: %w", err)
	}
	if r.Desired, err = fromState(request.GetDesired()); err != nil {
		return r, fmt.Errorf("desired: %w", err)
	}
	if r.Input, err = structs.ToObject(request.GetInput()); err != nil {
		return r, fmt.Errorf("input: %w", err)
	}
	if r.Context, err = structs.ToObject(request.GetContext()); err != nil {
		return r, fmt.Errorf("context: %w", err)
	}
	if r.Required, err = fromRequirements(request); err != nil {
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
	object, err := structs.ToObject(r.GetResource())
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
	s, err := structs.ToStruct(context)
	if err != nil {
		return nil, fmt.Errorf("context: %w", err)
	}
	return s, nil
}

func toResource(r call.Resource) (*fnv1.Resource, error) {
	object, err := structs.ToStruct(r.Object)
	ready := map[call.Ready]fnv1.Ready{call.True: fnv1.Ready_READY_TRUE, call.False: fnv1.Ready_READY_FALSE}[r.Ready]
	return &fnv1.Resource{Resource: object, ConnectionDetails: r.ConnectionDetails, Ready: ready}, err
}
