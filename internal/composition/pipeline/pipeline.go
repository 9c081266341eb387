package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Step is one step of a pipeline: a function with its input.
type Step struct {
	// Name is the step's name in the composition.
	Name string
	// Function is the name of the function, for the Runner.
	Function string
	// Input for the function, or nil.
	Input *structpb.Struct
	// Credentials are the data of Secrets, by the name of the credentials.
	Credentials map[string]map[string][]byte
	// Requirements are the ones that the composition states for the step, or nil. They are met from the first call
	// on.
	Requirements *fnv1.Requirements
	// LastRequirements are the Requirements of the step's last Progress, or nil. If the
	// function requires the same again, it is called once instead of twice.
	LastRequirements *fnv1.Requirements
	// UnsettledRuns is how many runs have ended since the last result while the requirements of the function were
	// read, and the next run required others instead. They count as calls.
	UnsettledRuns int
}

// Request is the input of a run, for all steps.
type Request struct {
	// Observed state of the composite and its resources; see NewObservedState.
	Observed *fnv1.State
	// Context is the pipeline's context for the first step, or nil.
	Context *structpb.Struct
}

// Pipeline runs steps. It has no state and is safe for concurrent use.
type Pipeline struct {
	Runner         Runner
	Fetcher        Fetcher
	ResponseLimits ResponseLimits
	// Record is called with each step that has run, if it is not nil. It must not change its argument.
	Record func(Recorded)
}

// Recorded is the last call of a step. Response is nil if the step failed, and Err says why; Request is nil if it failed before the call.
type Recorded struct {
	Step     Step
	Request  *fnv1.RunFunctionRequest
	Response *fnv1.RunFunctionResponse
	Err      error
}

// capabilities are the protocol features that this control plane supports, as functions
// see them.
var capabilities = []fnv1.Capability{
	fnv1.Capability_CAPABILITY_CAPABILITIES,
	fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES,
	fnv1.Capability_CAPABILITY_CREDENTIALS,
	fnv1.Capability_CAPABILITY_CONDITIONS,
	fnv1.Capability_CAPABILITY_REQUIRED_SCHEMAS,
}

// Run runs the steps in order, each on the desired state of the one before it, until one
// fails or has pending requirements. The caller must not change the request or the steps
// afterwards.
func (p *Pipeline) Run(ctx context.Context, steps []Step, request Request) Result {
	r := &run{
		Pipeline: p,
		limits:   p.ResponseLimits.withDefaults(),
		observed: request.Observed,
		desired:  &fnv1.State{},
		context:  request.Context,
		fetched:  map[string]any{},
	}
	for _, step := range steps {
		if !r.runStep(ctx, step) {
			return r.result
		}
	}
	r.setDesired()
	return r.result
}

type run struct {
	*Pipeline
	limits   ResponseLimits
	observed *fnv1.State
	desired  *fnv1.State              // after the last step that ran
	context  *structpb.Struct         // after the last step that ran
	history  []*fnv1.State            // the desired state after each step
	fetched  map[string]any           // by selectorKey, so all steps see the same objects
	called   *fnv1.RunFunctionRequest // the last request of the current step
	result   Result
}

// runStep reports whether the next step may run.
func (r *run) runStep(ctx context.Context, s Step) bool {
	progress := Progress{Step: s.Name, Function: s.Function}
	r.called = nil
	response, waiting, err := r.callUntilStable(ctx, s, &progress)
	if r.Record != nil {
		recorded := Recorded{Step: s, Request: r.called, Response: response, Err: err}
		if err != nil {
			recorded.Response = nil // the response of a Fatal result is not the outcome
		}
		r.Record(recorded)
	}
	r.result.Progress = append(r.result.Progress, progress)
	if response != nil { // a step that failed with a Fatal result has other results too
		r.result.record(s.Name, response, r.limits.ReservedConditions)
	}
	switch {
	case err != nil:
		r.result.Failure = &Failure{Step: s.Name, Function: s.Function, Err: err}
		return false
	case len(waiting) > 0:
		r.result.Pending = waiting
		return false
	}
	r.desired, r.context = response.GetDesired(), response.GetContext()
	r.history = append(r.history, r.desired)
	return true
}

// callUntilStable calls the step's function until it requires what it was given. With a FatalError it returns the
// response as well, for its results.
func (r *run) callUntilStable(ctx context.Context, s Step, progress *Progress) (*fnv1.RunFunctionResponse, []PendingRequirement, error) {
	initial := orEmpty(s.Requirements)
	if path, problem := r.limits.requirements(initial); problem != "" {
		return nil, nil, &StepError{Path: path, Problem: problem}
	}
	required := subtract(orEmpty(s.LastRequirements), initial)
	fctx := r.context
	for {
		progress.Requirements = union(initial, required)
		request, waiting, err := r.request(ctx, s, progress.Requirements, fctx)
		if err != nil || len(waiting) > 0 {
			return nil, waiting, err
		}
		progress.Calls++
		r.called = request
		response, err := r.call(ctx, s, request, progress.Calls)
		if err != nil {
			return nil, nil, err
		}
		if err := r.limits.check(request, response); err != nil {
			return nil, nil, err
		}
		if err := fatal(response); err != nil {
			return response, nil, err
		}
		asked := subtract(orEmpty(response.GetRequirements()), initial)
		if proto.Equal(asked, required) {
			return response, nil, nil
		}
		if s.UnsettledRuns >= maxRequirementRounds || progress.Calls > maxRequirementRounds {
			return nil, nil, &UnstableError{Calls: s.UnsettledRuns + progress.Calls, Before: required, Last: asked}
		}
		required, fctx = asked, response.GetContext()
	}
}

func (r *run) call(ctx context.Context, s Step, request *fnv1.RunFunctionRequest, number int) (*fnv1.RunFunctionResponse, error) {
	ctx, span := tracing.StartFunction(ctx, s.Name, s.Function, number)
	response, err := r.Runner.Run(ctx, s.Function, request)
	warnings := 0
	for _, result := range response.GetResults() {
		if result.GetSeverity() == fnv1.Severity_SEVERITY_WARNING {
			warnings++
		}
	}
	span.SetResults(fatal(response) != nil, warnings)
	span.End(err)
	return response, err
}

// maxRequirementRounds is how often a function is called again because its requirements
// changed.
const maxRequirementRounds = 5

// request makes a step's request with everything that it requires, or returns the
// requirements that are not read yet.
func (r *run) request(ctx context.Context, s Step, required *fnv1.Requirements, fctx *structpb.Struct) (*fnv1.RunFunctionRequest, []PendingRequirement, error) {
	request := &fnv1.RunFunctionRequest{
		Observed:    r.observed,
		Desired:     r.desired,
		Input:       s.Input,
		Context:     fctx,
		Credentials: protoCredentials(s.Credentials),
	}
	waiting, err := r.fetch(ctx, s.Name, required, request)
	if err != nil || len(waiting) > 0 {
		return nil, waiting, err
	}
	tag, err := digest(request)
	if err != nil {
		return nil, nil, &CallError{Code: "InvalidArgument", Message: "the request cannot be sent: " + err.Error(), Err: err}
	}
	request.Meta = &fnv1.RequestMeta{Tag: tag, Capabilities: capabilities}
	return request, nil, nil
}

// digest is a digest of a request's content. It doesn't depend on the order in which maps
// were filled.
func digest(request *fnv1.RunFunctionRequest) (string, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

func protoCredentials(of map[string]map[string][]byte) map[string]*fnv1.Credentials {
	out := make(map[string]*fnv1.Credentials, len(of))
	for name, data := range of {
		out[name] = &fnv1.Credentials{Source: &fnv1.Credentials_CredentialData{CredentialData: &fnv1.CredentialData{Data: data}}}
	}
	return out
}
