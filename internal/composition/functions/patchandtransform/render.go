package patchandtransform

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
)

// Run composes the resources of the request's input. An invalid input and a failed patch are
// one Fatal result. A patch with a missing source field does nothing, with a Warning if
// its policy requires the field; a new resource with such a patch is not desired, and the
// composite isn't ready.
func Run(request call.Request) call.Response {
	in, problems, notes := Decode(request.Input)
	unknown := call.Warnings("the Function input is accepted, but: ", notes)
	if len(problems) > 0 {
		failed := call.FatalResponse(request, "invalid Function input: "+call.FormatProblems(problems))
		failed.Results = append(unknown, failed.Results...)
		return failed
	}
	r := &renderState{Request: request, in: in, details: map[string][]byte{}, results: unknown}
	before := call.State{Composite: cloneResource(request.Desired.Composite), Resources: map[string]call.Resource{}}
	for name, resource := range request.Desired.Resources {
		before.Resources[name] = resource // templates replace resources and don't change them
	}
	if err := r.run(); err != nil {
		return call.Response{
			Desired: before, Context: request.Context,
			Results: append(r.results, call.Result{Severity: call.Fatal, Message: err.Error()}),
		}
	}
	return call.Response{Desired: r.Desired, Context: r.Context, Results: r.results}
}

type renderState struct {
	call.Request
	in          *Input
	environment map[string]any
	details     map[string][]byte
	results     []call.Result
	// recorder is nil unless the run is traced.
	recorder *recorder
}

func (r *renderState) run() error {
	r.prepare()
	if r.in.Environment != nil {
		r.recorder.enter("environment")
		for i := range r.in.Environment.Patches {
			p := &placedPatch{&r.in.Environment.Patches[i], ownPatches, i}
			err := r.patchEnvironment(p)
			if err != nil && (p.Policy.required() || !fieldpath.IsNotFound(err)) {
				return fmt.Errorf("cannot apply the %q environment patch at index %d: %w", p.typeOrDefault(), i, err)
			}
		}
	}
	for i := range r.in.Resources {
		if err := r.compose(i); err != nil {
			return err
		}
	}
	if err := r.publishDetails(); err != nil {
		return fmt.Errorf("cannot compose connection secret: %w", err)
	}
	r.Context[EnvironmentKey] = r.environment
	return nil
}

// prepare initializes everything that patches write to: the desired composite with the
// observed one's kind, and a copy of the environment.
func (r *renderState) prepare() {
	if r.Desired.Composite.Object == nil {
		r.Desired.Composite.Object = map[string]any{}
	}
	for _, name := range []string{"apiVersion", "kind"} {
		delete(r.Desired.Composite.Object, name)
		if v, ok := r.Observed.Composite.Object[name]; ok {
			r.Desired.Composite.Object[name] = v
		}
	}
	if r.Desired.Resources == nil {
		r.Desired.Resources = map[string]call.Resource{}
	}
	context := map[string]any{} // a copy: a failed run must not change the request's context
	for key, value := range r.Context {
		context[key] = value
	}
	r.Context = context
	before, _ := context[EnvironmentKey].(map[string]any)
	r.environment = runtime.DeepCopyJSON(before)
	if r.environment == nil {
		r.environment = map[string]any{}
	}
	if stringOf(r.environment["apiVersion"]) == "" && stringOf(r.environment["kind"]) == "" {
		r.environment["apiVersion"] = "internal.crossplane.io/v1alpha1"
		r.environment["kind"] = "Environment"
	}
}

func (r *renderState) patchEnvironment(p *placedPatch) error {
	switch p.typeOrDefault() {
	case fromComposite, toEnvironment, combineFromComposite:
		return r.apply(p, r.observedComposite(), r.theEnvironment())
	default:
		return r.apply(p, r.theEnvironment(), r.desiredComposite())
	}
}

// compose adds a template's resource to the desired state, or replaces the one of its name.
func (r *renderState) compose(index int) error {
	t := &r.in.Resources[index]
	base := t.Base
	if base == nil {
		before, ok := r.Desired.Resources[t.Name]
		if !ok {
			return fmt.Errorf("composed resource %q has no base template, and was not produced by a previous Function in the pipeline", t.Name)
		}
		base = before.Object
	}
	desired := call.Resource{Object: runtime.DeepCopyJSON(base)}
	if desired.Object["metadata"] == nil { // null counts as absent
		delete(desired.Object, "metadata")
	}
	r.recorder.template(index, t, desired.Object)
	observed, exists := r.Observed.Resources[t.Name]
	if exists {
		setMetadataField(desired.Object, "namespace", metadataField(observed.Object, "namespace"))
		setMetadataField(desired.Object, "name", metadataField(observed.Object, "name"))
		r.recorder.kept(t, desired.Object)
		for key, value := range extractDetails(observed, t.ConnectionDetails) {
			r.details[key] = value
		}
		ok, err := ready(observed.Object, t.ReadinessChecks)
		if err != nil {
			r.warn("cannot check readiness of composed resource %q: %w", t.Name, err)
		}
		if ok {
			desired.Ready = call.True
		}
	}
	include, err := r.patch(t, observed.Object, desired.Object, exists)
	if err == nil && include {
		r.Desired.Resources[t.Name] = desired
	}
	return err
}

// patch applies a template's patches in order. include is false if the resource is new and a
// required field of a patch is missing.
func (r *renderState) patch(t *template, observed, desired map[string]any, exists bool) (include bool, err error) {
	patches := r.in.flattenPatchSets(t.Patches)
	for i := range patches {
		p := &patches[i]
		if !exists && !p.toComposed() {
			continue // its source is the resource, which doesn't exist yet
		}
		err := r.patchOne(p, target{composed(t.Name), observed}, target{composed(t.Name), desired})
		switch {
		case err == nil:
		case !fieldpath.IsNotFound(err):
			return false, fmt.Errorf("cannot render composed resource %q %q patch at index %d: %w", t.Name, p.typeOrDefault(), i, err)
		case p.Policy.required() && p.toComposed() && !exists:
			r.warn("not adding new composed resource %q to desired state because %q patch at index %d has 'policy.fromFieldPath: Required': %w", t.Name,
				p.typeOrDefault(), i, err)
			// Readiness is computed from the desired resources, which don't include this one.
			r.Desired.Composite.Ready = call.False
			return false, nil
		case p.Policy.required():
			r.warn("cannot render composed resource %q %q patch at index %d: ignoring 'policy.fromFieldPath: Required' because 'to' resource already exists: %w", t.Name, p.typeOrDefault(), i, err)
		}
	}
	return true, nil
}

func (r *renderState) patchOne(p *placedPatch, observed, desired target) error {
	switch p.typeOrDefault() {
	case toComposite, combineToComposite:
		return r.apply(p, observed, r.desiredComposite())
	case toEnvironment, combineToEnvironment:
		return r.apply(p, observed, r.theEnvironment())
	case fromEnvironment, combineFromEnvironment:
		return r.apply(p, r.theEnvironment(), desired)
	default:
		return r.apply(p, r.observedComposite(), desired)
	}
}

func (r *renderState) warn(format string, args ...any) {
	r.results = append(r.results, call.Result{Severity: call.Warning, Message: fmt.Errorf(format, args...).Error()})
}

func cloneResource(r call.Resource) call.Resource {
	r.Object = runtime.DeepCopyJSON(r.Object)
	details := r.ConnectionDetails
	r.ConnectionDetails = nil
	for key, value := range details {
		if r.ConnectionDetails == nil {
			r.ConnectionDetails = map[string][]byte{}
		}
		r.ConnectionDetails[key] = value
	}
	return r
}

func stringOf(v any) string {
	s, _ := v.(string)
	return s
}

func metadataField(o map[string]any, field string) any {
	metadata, _ := o["metadata"].(map[string]any)
	return metadata[field]
}

// setMetadataField removes the field if the value isn't a string or is empty.
func setMetadataField(o map[string]any, field string, value any) {
	metadata, _ := o["metadata"].(map[string]any)
	if stringOf(value) == "" {
		delete(metadata, field)
		return
	}
	if metadata == nil {
		metadata = map[string]any{}
		o["metadata"] = metadata
	}
	metadata[field] = value
}
