package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Observation is an observed object with its connection details.
type Observation struct {
	Object            map[string]any
	ConnectionDetails map[string][]byte
}

// NewObservedState makes the observed state of a composite and its composed resources, by their
// names in the composition.
func NewObservedState(composite Observation, resources map[string]Observation) (*fnv1.State, error) {
	xr, err := observed(composite)
	if err != nil {
		return nil, fmt.Errorf("the composite: %w", err)
	}
	state := &fnv1.State{Composite: xr, Resources: make(map[string]*fnv1.Resource, len(resources))}
	for name, resource := range resources {
		if state.Resources[name], err = observed(resource); err != nil {
			return nil, fmt.Errorf("resource %q: %w", name, err)
		}
	}
	return state, nil
}

func observed(o Observation) (*fnv1.Resource, error) {
	s, err := structs.ToStruct(o.Object)
	if err != nil {
		return nil, err
	}
	return &fnv1.Resource{Resource: s, ConnectionDetails: o.ConnectionDetails}, nil
}

// setDesired sets the result's desired state from the desired state of the last step. An invalid resource fails the
// step that changed it last.
func (r *run) setDesired() {
	desired := &Desired{
		Ready:             readiness(r.desired.GetComposite()),
		ConnectionDetails: r.desired.GetComposite().GetConnectionDetails(),
		Resources:         make(map[string]Resource, len(r.desired.GetResources())),
	}
	var err error
	if desired.Composite, err = structs.ToObject(r.desired.GetComposite().GetResource()); err != nil {
		r.failLastChange(&ResponseError{Path: "desired.composite", Problem: "cannot be decoded: " + err.Error()}, (*fnv1.State).GetComposite)
		return
	}
	if desired.Context, err = structs.ToObject(r.context); err != nil {
		r.failLastChange(&ResponseError{Path: "context", Problem: "cannot be decoded: " + err.Error()}, nil)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.desired.GetResources())) {
		resource := r.desired.GetResources()[name]
		object, err := structs.ToObject(resource.GetResource())
		field, problem := "", ""
		if err != nil {
			problem = "cannot be decoded: " + err.Error()
		} else {
			field, problem = objectProblem(object)
		}
		if problem != "" {
			r.failLastChange(&ResponseError{Path: resourcePath(name, field), Problem: problem}, func(s *fnv1.State) *fnv1.Resource { return s.GetResources()[name] })
			return
		}
		desired.Resources[name] = Resource{Object: object, Ready: readiness(resource)}
	}
	r.result.Desired = desired
}

// failLastChange sets the failure of the step that last changed a resource, or of the last
// step if no resource is given.
func (r *run) failLastChange(err error, of func(*fnv1.State) *fnv1.Resource) {
	last := len(r.history) - 1
	if last < 0 { // no step has run: the request itself cannot be read
		r.result.Failure = &Failure{Err: err}
		return
	}
	if of != nil {
		wrong := of(r.history[last]).GetResource()
		for last > 0 && proto.Equal(of(r.history[last-1]).GetResource(), wrong) {
			last--
		}
	}
	step := r.result.Progress[last]
	r.result.Failure = &Failure{Step: step.Step, Function: step.Function, Err: err}
}

// A readiness that is not known yet counts as unspecified.
func readiness(r *fnv1.Resource) fnv1.Ready {
	switch ready := r.GetReady(); ready {
	case fnv1.Ready_READY_TRUE, fnv1.Ready_READY_FALSE:
		return ready
	default:
		return fnv1.Ready_READY_UNSPECIFIED
	}
}

func resourcePath(name, field string) string {
	path := "desired.resources[" + shorten(name) + "]"
	if field == "" {
		return path
	}
	return path + "." + field
}

func requirementKeys(r *fnv1.Requirements) string {
	all := slices.Collect(maps.Keys(r.GetResources()))
	all = slices.AppendSeq(all, maps.Keys(r.GetExtraResources())) //nolint:staticcheck // functions still ask this way
	all = slices.AppendSeq(all, maps.Keys(r.GetSchemas()))
	slices.Sort(all)
	return shorten("[" + strings.Join(all, " ") + "]")
}
