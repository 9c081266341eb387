package patchandtransform

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/functions/fieldpath"
)

// Run composes what the input of the request asks for. An input that is not sound, and a
// patch that fails, are one Fatal result. A patch that misses a field does nothing, with
// a Warning if its policy requires the field; a new resource that misses one is not
// wanted at all, and the composite isn't ready.
func Run(request call.Request) call.Response {
	in, problems, notes := Decode(request.Input)
	unknown := call.Warns("the Function input is accepted, but: ", notes)
	if len(problems) > 0 {
		failed := call.Fails(request, "invalid Function input: "+call.Told(problems))
		failed.Results = append(unknown, failed.Results...)
		return failed
	}
	r := &rendering{Request: request, in: in, details: map[string][]byte{}, results: unknown}
	before := call.State{Composite: clone(request.Desired.Composite), Resources: map[string]call.Resource{}}
	for name, resource := range request.Desired.Resources {
		before.Resources[name] = resource // templates replace resources, and change none
	}
	if err := r.run(); err != nil {
		return call.Response{
			Desired: before, Context: request.Context,
			Results: append(r.results, call.Result{Severity: call.Fatal, Message: err.Error()}),
		}
	}
	return call.Response{Desired: r.Desired, Context: r.Context, Results: r.results}
}

// rendering is one run of the function.
type rendering struct {
	call.Request
	in          *Input
	environment map[string]any
	details     map[string][]byte
	results     []call.Result
}

func (r *rendering) run() error {
	r.prepare()
	if r.in.Environment != nil {
		for i := range r.in.Environment.Patches {
			p := &r.in.Environment.Patches[i]
			err := r.patchEnvironment(p)
			if err != nil && (p.Policy.required() || !fieldpath.IsNotFound(err)) {
				return fmt.Errorf("cannot apply the %q environment patch at index %d: %w", p.kind(), i, err)
			}
		}
	}
	for i := range r.in.Resources {
		if err := r.compose(&r.in.Resources[i]); err != nil {
			return err
		}
	}
	if err := r.publishDetails(); err != nil {
		return fmt.Errorf("cannot compose connection secret: %w", err)
	}
	r.Context[EnvironmentKey] = r.environment
	return nil
}

// prepare makes all that is written to: the desired composite is of the observed one's
// kind, and the environment of one of its own.
func (r *rendering) prepare() {
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
	context := map[string]any{} // what was there stays as it was if the run fails
	for key, value := range r.Context {
		context[key] = value
	}
	r.Context = context
	given, _ := context[EnvironmentKey].(map[string]any)
	r.environment = runtime.DeepCopyJSON(given)
	if r.environment == nil {
		r.environment = map[string]any{}
	}
	if text(r.environment["apiVersion"]) == "" && text(r.environment["kind"]) == "" {
		r.environment["apiVersion"] = "internal.crossplane.io/v1alpha1"
		r.environment["kind"] = "Environment"
	}
}

func (r *rendering) patchEnvironment(p *patch) error {
	switch p.kind() {
	case fromComposite, toEnvironment, combineFromComposite:
		return p.apply(r.Observed.Composite.Object, r.environment)
	default:
		return p.apply(r.environment, r.Desired.Composite.Object)
	}
}

// compose adds a template's resource to what is desired, or replaces the one of its name.
func (r *rendering) compose(t *template) error {
	base := t.Base
	if base == nil {
		known, ok := r.Desired.Resources[t.Name]
		if !ok {
			return fmt.Errorf("composed resource %q has no base template, and was not produced by a previous Function in the pipeline", t.Name)
		}
		base = known.Object
	}
	desired := call.Resource{Object: runtime.DeepCopyJSON(base)}
	observed, exists := r.Observed.Resources[t.Name]
	if exists {
		place(desired.Object, "namespace", named(observed.Object, "namespace"))
		place(desired.Object, "name", named(observed.Object, "name"))
		for key, value := range details(observed, t.ConnectionDetails) {
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
	wanted, err := r.patch(t, observed.Object, desired.Object, exists)
	if err == nil && wanted {
		r.Desired.Resources[t.Name] = desired
	}
	return err
}

// patch applies a template's patches in their order. It says whether the resource is
// wanted, which it isn't if it is new and misses what a patch requires.
func (r *rendering) patch(t *template, observed, desired map[string]any, exists bool) (bool, error) {
	patches := r.in.flat(t.Patches)
	for i := range patches {
		p := &patches[i]
		if !exists && !p.toComposed() {
			continue // there will be something to read when it exists
		}
		err := r.patchOne(p, observed, desired)
		switch {
		case err == nil:
		case !fieldpath.IsNotFound(err):
			return false, fmt.Errorf("cannot render composed resource %q %q patch at index %d: %w", t.Name, p.kind(), i, err)
		case p.Policy.required() && p.toComposed() && !exists:
			r.warn("not adding new composed resource %q to desired state because %q patch at index %d has 'policy.fromFieldPath: Required': %w", t.Name, p.kind(), i, err)
			// Nobody who judges by the resources that are wanted can know of this one.
			r.Desired.Composite.Ready = call.False
			return false, nil
		case p.Policy.required():
			r.warn("cannot render composed resource %q %q patch at index %d: ignoring 'policy.fromFieldPath: Required' because 'to' resource already exists: %w", t.Name, p.kind(), i, err)
		}
	}
	return true, nil
}

func (r *rendering) patchOne(p *patch, observed, desired map[string]any) error {
	switch p.kind() {
	case toComposite, combineToComposite:
		return p.apply(observed, r.Desired.Composite.Object)
	case toEnvironment, combineToEnvironment:
		return p.apply(observed, r.environment)
	case fromEnvironment, combineFromEnvironment:
		return p.apply(r.environment, desired)
	default:
		return p.apply(r.Observed.Composite.Object, desired)
	}
}

func (r *rendering) warn(format string, args ...any) {
	r.results = append(r.results, call.Result{Severity: call.Warning, Message: fmt.Errorf(format, args...).Error()})
}

func clone(r call.Resource) call.Resource {
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

func text(v any) string {
	s, _ := v.(string)
	return s
}

// named is a field of an object's metadata.
func named(o map[string]any, field string) any {
	metadata, _ := o["metadata"].(map[string]any)
	return metadata[field]
}

// place sets a field of an object's metadata, or removes it if there is nothing to set.
func place(o map[string]any, field string, value any) {
	metadata, _ := o["metadata"].(map[string]any)
	if text(value) == "" {
		delete(metadata, field)
		return
	}
	if metadata == nil {
		metadata = map[string]any{}
		o["metadata"] = metadata
	}
	metadata[field] = value
}
