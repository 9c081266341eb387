package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Step is one step of a pipeline: a function and what it is given.
type Step struct {
	// Name is the step's name in the composition.
	Name string
	// Function is the name of the function, for the Runner.
	Function string
	// Input for the function, or nil.
	Input *structpb.Struct
	// Credentials by name: what their Secrets hold.
	Credentials map[string]map[string][]byte
	// Requirements that the function has from its first call on, or nil.
	Requirements *fnv1.Requirements
	// Expected are the Requirements of the step's last Progress, or nil. If the function
	// requires the same again, it is called once instead of twice.
	Expected *fnv1.Requirements
}

// Request is what all steps are given.
type Request struct {
	// Observed state of the composite and its resources; see Observed.
	Observed *fnv1.State
	// Context for the first step, or nil.
	Context *structpb.Struct
}

// Pipeline runs steps. It has no state.
type Pipeline struct {
	Runner  Runner
	Fetcher Fetcher
	Bounds  Bounds
}

// capabilities are what we tell functions that we understand.
var capabilities = []fnv1.Capability{
	fnv1.Capability_CAPABILITY_CAPABILITIES,
	fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES,
	fnv1.Capability_CAPABILITY_CREDENTIALS,
	fnv1.Capability_CAPABILITY_CONDITIONS,
	fnv1.Capability_CAPABILITY_REQUIRED_SCHEMAS,
}

// Run runs the steps in turn, each on what the one before it wants, until one fails or
// waits. The request and the steps may not be changed afterwards.
func (p *Pipeline) Run(ctx context.Context, steps []Step, request Request) Outcome {
	r := &run{
		Pipeline: p,
		bounds:   p.Bounds.withDefaults(),
		observed: request.Observed,
		desired:  &fnv1.State{},
		context:  request.Context,
		fetched:  map[string]any{},
	}
	for _, step := range steps {
		if !r.step(ctx, step) {
			return r.outcome
		}
	}
	r.finish()
	return r.outcome
}

// run is one run of a pipeline.
type run struct {
	*Pipeline
	bounds   Bounds
	observed *fnv1.State
	desired  *fnv1.State      // by the steps so far
	context  *structpb.Struct // of the steps so far
	history  []*fnv1.State    // desired, by each step
	fetched  map[string]any   // what has been read, so that all steps see the same
	outcome  Outcome
}

// step runs one step and says whether the next one may run.
func (r *run) step(ctx context.Context, s Step) bool {
	progress := Progress{Step: s.Name, Function: s.Function}
	response, waiting, err := r.converge(ctx, s, &progress)
	r.outcome.Progress = append(r.outcome.Progress, progress)
	if response != nil { // what it says counts even if it fails
		r.outcome.tell(s.Name, response, r.bounds.Reserved)
	}
	switch {
	case err != nil:
		r.outcome.Failure = &Failure{Step: s.Name, Function: s.Function, Err: err}
		return false
	case len(waiting) > 0:
		r.outcome.Waiting = waiting
		return false
	}
	r.desired, r.context = response.GetDesired(), response.GetContext()
	r.history = append(r.history, r.desired)
	return true
}

// converge calls the step's function until it has seen what it requires. An answer that
// comes with an error is one to tell of, too.
func (r *run) converge(ctx context.Context, s Step, progress *Progress) (*fnv1.RunFunctionResponse, []Want, error) {
	initial := whole(s.Requirements)
	if at, what := r.bounds.requirements(initial); what != "" {
		return nil, nil, &StepError{At: at, What: what}
	}
	required := without(whole(s.Expected), initial)
	fctx := r.context
	for {
		progress.Requirements = union(initial, required)
		request, waiting, err := r.request(ctx, s, progress.Requirements, fctx)
		if err != nil || len(waiting) > 0 {
			return nil, waiting, err
		}
		progress.Calls++
		response, err := r.Runner.Run(ctx, s.Function, request)
		if err != nil {
			return nil, nil, err
		}
		if err := r.bounds.check(request, response); err != nil {
			return nil, nil, err
		}
		if err := fatal(response); err != nil {
			return response, nil, err
		}
		asked := without(whole(response.GetRequirements()), initial)
		if proto.Equal(asked, required) {
			return response, nil, nil
		}
		if progress.Calls > rounds {
			return nil, nil, &UnstableError{Calls: progress.Calls, Before: required, Last: asked}
		}
		required, fctx = asked, response.GetContext()
	}
}

// rounds is how often a function is called again because of what it requires.
const rounds = 5

// request makes a step's request, with all that it requires, or says what of that is
// not known yet.
func (r *run) request(ctx context.Context, s Step, required *fnv1.Requirements, fctx *structpb.Struct) (*fnv1.RunFunctionRequest, []Want, error) {
	request := &fnv1.RunFunctionRequest{
		Observed:    r.observed,
		Desired:     r.desired,
		Input:       s.Input,
		Context:     fctx,
		Credentials: secrets(s.Credentials),
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

// digest names a request's content: equal requests have equal digests, in whatever
// order they were put together.
func digest(request *fnv1.RunFunctionRequest) (string, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

func secrets(of map[string]map[string][]byte) map[string]*fnv1.Credentials {
	out := make(map[string]*fnv1.Credentials, len(of))
	for name, data := range of {
		out[name] = &fnv1.Credentials{Source: &fnv1.Credentials_CredentialData{CredentialData: &fnv1.CredentialData{Data: data}}}
	}
	return out
}
