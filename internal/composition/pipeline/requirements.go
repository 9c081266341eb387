package pipeline

import (
	"context"
	"errors"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Fetcher reads what functions require. It reads from caches: what they do not hold yet
// is not known, and the pipeline is run again once it is.
type Fetcher interface {
	// Resources returns the objects that the selector matches, in an order of their own;
	// none if there are none.
	Resources(ctx context.Context, selector *fnv1.ResourceSelector) (objects []map[string]any, known bool, err error)
	// Schema returns the OpenAPI v3 schema of a kind, or nil if there is no such kind.
	Schema(ctx context.Context, selector *fnv1.SchemaSelector) (schema map[string]any, known bool, err error)
}

// Want is a requirement that is not known yet.
type Want struct {
	// Step that requires it, by the key that it has chosen.
	Step, Key string
	// Resource or Schema is what it requires.
	Resource *fnv1.ResourceSelector
	Schema   *fnv1.SchemaSelector
}

// fetch puts what is required into the request and returns what is not known yet: all
// of it, so that all can be looked for at once.
func (r *run) fetch(ctx context.Context, step string, required *fnv1.Requirements, into *fnv1.RunFunctionRequest) ([]Want, error) {
	var waiting []Want
	resources := func(of map[string]*fnv1.ResourceSelector) (map[string]*fnv1.Resources, error) {
		found := make(map[string]*fnv1.Resources, len(of))
		for _, key := range slices.Sorted(maps.Keys(of)) {
			items, known, err := r.resources(ctx, of[key])
			if err != nil {
				return nil, &FetchError{Key: key, Err: err}
			}
			if !known {
				waiting = append(waiting, Want{Step: step, Key: key, Resource: of[key]})
			}
			found[key] = items
		}
		return found, nil
	}
	var err error
	if into.RequiredResources, err = resources(required.GetResources()); err != nil {
		return nil, err
	}
	if into.ExtraResources, err = resources(required.GetExtraResources()); err != nil { //nolint:staticcheck // functions still ask this way
		return nil, err
	}
	into.RequiredSchemas = make(map[string]*fnv1.Schema, len(required.GetSchemas()))
	for _, key := range slices.Sorted(maps.Keys(required.GetSchemas())) {
		schema, known, err := r.schema(ctx, required.GetSchemas()[key])
		if err != nil {
			return nil, &FetchError{Key: key, Err: err}
		}
		if !known {
			waiting = append(waiting, Want{Step: step, Key: key, Schema: required.GetSchemas()[key]})
		}
		into.RequiredSchemas[key] = schema
	}
	return waiting, nil
}

var errNoFetcher = errors.New("requirements cannot be met here")

// resources reads what a selector matches, once for a run.
func (r *run) resources(ctx context.Context, selector *fnv1.ResourceSelector) (*fnv1.Resources, bool, error) {
	key := memory('r', selector)
	if found, ok := r.fetched[key]; ok {
		return found.(*fnv1.Resources), true, nil
	}
	if r.Fetcher == nil {
		return nil, false, errNoFetcher
	}
	objects, known, err := r.Fetcher.Resources(ctx, selector)
	if err != nil || !known {
		return nil, false, err
	}
	found := &fnv1.Resources{Items: make([]*fnv1.Resource, len(objects))}
	for i, object := range objects {
		s, err := structs.To(object)
		if err != nil {
			return nil, false, err
		}
		found.Items[i] = &fnv1.Resource{Resource: s}
	}
	r.fetched[key] = found
	return found, true, nil
}

// schema reads the schema of a kind, once for a run.
func (r *run) schema(ctx context.Context, selector *fnv1.SchemaSelector) (*fnv1.Schema, bool, error) {
	key := memory('s', selector)
	if found, ok := r.fetched[key]; ok {
		return found.(*fnv1.Schema), true, nil
	}
	if r.Fetcher == nil {
		return nil, false, errNoFetcher
	}
	schema, known, err := r.Fetcher.Schema(ctx, selector)
	if err != nil || !known {
		return nil, false, err
	}
	s, err := structs.To(schema)
	if err != nil {
		return nil, false, err
	}
	found := &fnv1.Schema{OpenapiV3: s}
	r.fetched[key] = found
	return found, true, nil
}

// memory is the key of a selector among what has been read.
func memory(sort byte, selector proto.Message) string {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(selector)
	if err != nil { // selectors have been checked; one that slipped through is refused with its request
		return string(sort) + err.Error()
	}
	return string(sort) + string(data)
}

// whole makes requirements comparable: none are empty ones.
func whole(r *fnv1.Requirements) *fnv1.Requirements {
	if r == nil {
		return &fnv1.Requirements{}
	}
	return r
}

// without returns the requirements that are not among the others, with the same key and
// the same selector.
func without(r, others *fnv1.Requirements) *fnv1.Requirements {
	return &fnv1.Requirements{
		ExtraResources: maps.Clone(r.GetExtraResources()), //nolint:staticcheck // functions still ask this way
		Resources:      minus(r.GetResources(), others.GetResources()),
		Schemas:        minus(r.GetSchemas(), others.GetSchemas()),
	}
}

func minus[S proto.Message](of, others map[string]S) map[string]S {
	out := make(map[string]S, len(of))
	for key, selector := range of {
		if other, ok := others[key]; !ok || !proto.Equal(selector, other) {
			out[key] = selector
		}
	}
	return out
}

// union returns all requirements; where both have a key, the latter's counts.
func union(r, others *fnv1.Requirements) *fnv1.Requirements {
	return &fnv1.Requirements{
		ExtraResources: plus(r.GetExtraResources(), others.GetExtraResources()), //nolint:staticcheck // functions still ask this way
		Resources:      plus(r.GetResources(), others.GetResources()),
		Schemas:        plus(r.GetSchemas(), others.GetSchemas()),
	}
}

func plus[S proto.Message](of, others map[string]S) map[string]S {
	out := make(map[string]S, len(of)+len(others))
	maps.Copy(out, of)
	maps.Copy(out, others)
	return out
}
