package gotemplating

import (
	"context"
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// clockTTL is how long the output of templates that read the clock is used.
const clockTTL = time.Minute

// Run renders the templates of the request's input, and adds the objects in the output to the response. It ends early
// if ctx does. It may change the request.
func Run(ctx context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	data, err := toData(r)
	if err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	out := &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: r.GetMeta().GetTag()}, Desired: r.GetDesired(), Context: r.GetContext()}
	fatal := func(err error) (*fnv1.RunFunctionResponse, error) {
		out.Results = append(out.Results, &fnv1.Result{Severity: fnv1.Severity_SEVERITY_FATAL, Message: err.Error()})
		return out, nil
	}
	raw, err := structs.ToObject(r.GetInput())
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	in, ttl, problems, notes := decode(raw)
	if len(problems) > 0 {
		return fatal(fmt.Errorf("invalid Function input: %s", call.FormatProblems(problems)))
	}
	for _, note := range call.Warnings("the input is accepted, but: ", notes) {
		out.Results = append(out.Results, &fnv1.Result{Severity: fnv1.Severity_SEVERITY_WARNING, Message: note.Message})
	}
	e := &execution{ctx: ctx, left: maxWork}
	objects, err := e.render(in, data)
	if err != nil {
		return fatal(err)
	}
	to := adding{response: out, observed: at[map[string]any](data, "observed", "composite", "resource")}
	if to.composite, err = structs.ToObject(r.GetDesired().GetComposite().GetResource()); err == nil {
		to.context, err = structs.ToObject(r.GetContext())
	}
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := to.add(object); err != nil {
			return fatal(err)
		}
	}
	if err := to.finish(r); err != nil {
		return fatal(err)
	}
	out.Meta.Ttl = e.ttl(ttl, at[string](to.observed, "metadata", "annotations", ttlAnnotation))
	return out, nil
}

// toData is what templates read: the request in its JSON form.
func toData(r *fnv1.RunFunctionRequest) (map[string]any, error) {
	text, err := protojson.Marshal(r)
	if err != nil {
		return nil, err
	}
	var data map[string]any
	if err := json.Unmarshal(text, &data); err != nil {
		return nil, err
	}
	if _, has := data["extraResources"]; !has { // their name in earlier versions of the protocol
		if required, has := data["requiredResources"]; has {
			data["extraResources"] = required
		}
	}
	return data, nil
}

func (e *execution) render(in *input, data map[string]any) ([]map[string]any, error) {
	text, err := in.templates(at[map[string]any](data, "context"))
	if err != nil {
		return nil, fmt.Errorf("invalid Function input: source: %w", err)
	}
	t, err := e.parse(in, text)
	if err != nil {
		return nil, fmt.Errorf("invalid Function input: cannot parse the templates: %w", err)
	}
	var out output
	if err := t.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("cannot execute the templates: %w", err)
	}
	objects, err := objectsIn(out.String())
	if err != nil {
		return nil, fmt.Errorf("cannot decode the objects: %w", err)
	}
	return objects, nil
}

// ttl is the TTL of the response: of the composite's annotation or the input, and otherwise none unless the templates read the clock.
func (e *execution) ttl(ofInput time.Duration, annotation string) *durationpb.Duration {
	ttl := ofInput
	if d, err := time.ParseDuration(annotation); err == nil && d >= 0 {
		ttl = d
	} else if ttl == 0 && e.usesClock {
		ttl = clockTTL
	}
	if ttl == 0 {
		return nil
	}
	return durationpb.New(ttl)
}

// finish writes the composite and the context to the response. The resources that were required are passed on to later steps in the context.
func (a *adding) finish(r *fnv1.RunFunctionRequest) (err error) {
	required := r.GetRequiredResources()
	if len(required) == 0 {
		required = r.GetExtraResources() //nolint:staticcheck // earlier versions of the protocol have these
	}
	if len(required) > 0 {
		before, _ := a.context[extraResourcesKey].(map[string]any)
		all := maps.Clone(before)
		if all == nil {
			all = map[string]any{}
		}
		for name, resources := range required {
			var items []any
			for _, item := range resources.GetItems() {
				object, err := structs.ToObject(item.GetResource())
				if err != nil {
					return fmt.Errorf("required resource %q: %w", name, err)
				}
				items = append(items, map[string]any{"resource": object})
			}
			all[name] = map[string]any{}
			if len(items) > 0 {
				all[name] = map[string]any{"items": items}
			}
		}
		if a.context == nil {
			a.context = map[string]any{}
		}
		a.context[extraResourcesKey] = all
	}
	if a.response.Context, err = structs.ToStruct(a.context); err != nil {
		return fmt.Errorf("context: %w", err)
	}
	if a.composite != nil {
		if a.desiredComposite().Resource, err = structs.ToStruct(a.composite); err != nil {
			return fmt.Errorf("the composite in the output: %w", err)
		}
	}
	return nil
}
