package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Fetcher reads the resources and schemas that functions require. It reads from caches and
// doesn't block: while a cache isn't synced, known is false, and the pipeline has to run
// again once it is.
type Fetcher interface {
	// Resources returns the objects that the selector matches, in a stable order; none if
	// nothing matches.
	Resources(ctx context.Context, selector *fnv1.ResourceSelector) (objects []map[string]any, known bool, err error)
	// Schema returns the OpenAPI v3 schema of a kind, or nil if there is no such kind.
	Schema(ctx context.Context, selector *fnv1.SchemaSelector) (schema map[string]any, known bool, err error)
}

// PendingRequirement is a requirement that the Fetcher has not read yet.
type PendingRequirement struct {
	// Step is the step that requires it, Key the key that its function chose.
	Step, Key string
	// Resource or Schema is the selector.
	Resource *fnv1.ResourceSelector
	Schema   *fnv1.SchemaSelector
}

// fetch adds the required resources and schemas to the request. It returns all pending requirements, not only the
// first, so all of them are read at the same time.
func (r *run) fetch(ctx context.Context, step string, required *fnv1.Requirements, into *fnv1.RunFunctionRequest) ([]PendingRequirement, error) {
	var waiting []PendingRequirement
	size := 0
	resources := func(of map[string]*fnv1.ResourceSelector) (map[string]*fnv1.Resources, error) {
		found := make(map[string]*fnv1.Resources, len(of))
		for _, key := range slices.Sorted(maps.Keys(of)) {
			items, known, err := r.resources(ctx, of[key])
			if err != nil {
				return nil, &FetchError{Key: key, Err: err}
			}
			if size += items.bytes; size > defaultSizeLimit {
				return nil, &CallError{Code: "TooLarge", Message: fmt.Sprintf("with requirement %.80q, the request has more than %d bytes", key, defaultSizeLimit)}
			}
			if !known {
				waiting = append(waiting, PendingRequirement{Step: step, Key: key, Resource: of[key]})
			}
			found[key] = items.objects
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
			waiting = append(waiting, PendingRequirement{Step: step, Key: key, Schema: required.GetSchemas()[key]})
		}
		into.RequiredSchemas[key] = schema
	}
	return waiting, nil
}

var errNoFetcher = errors.New("required resources and schemas are not supported here")

// fetchedResources are the objects that a selector matches, encoded. If they take more than defaultSizeLimit bytes,
// some are omitted: no request can contain them.
type fetchedResources struct {
	objects *fnv1.Resources
	bytes   int
}

// resources reads the objects once per run.
func (r *run) resources(ctx context.Context, selector *fnv1.ResourceSelector) (found fetchedResources, known bool, err error) {
	key := selectorKey('r', selector)
	if found, ok := r.fetched[key]; ok {
		return found.(fetchedResources), true, nil
	}
	if r.Fetcher == nil {
		return found, false, errNoFetcher
	}
	objects, known, err := r.Fetcher.Resources(ctx, selector)
	if err != nil || !known {
		return found, false, err
	}
	found.objects = &fnv1.Resources{Items: make([]*fnv1.Resource, 0, len(objects))}
	for _, object := range objects {
		s, err := structs.ToStruct(object)
		if err != nil {
			return found, false, err
		}
		found.objects.Items = append(found.objects.Items, &fnv1.Resource{Resource: s})
		if found.bytes += proto.Size(s); found.bytes > defaultSizeLimit {
			break
		}
	}
	r.fetched[key] = found
	return found, true, nil
}

// schema reads the schema once per run.
func (r *run) schema(ctx context.Context, selector *fnv1.SchemaSelector) (*fnv1.Schema, bool, error) {
	key := selectorKey('s', selector)
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
	s, err := structs.ToStruct(schema)
	if err != nil {
		return nil, false, err
	}
	found := &fnv1.Schema{OpenapiV3: s}
	r.fetched[key] = found
	return found, true, nil
}

func selectorKey(sort byte, selector proto.Message) string {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(selector)
	if err != nil { // a selector that can't be encoded fails with its request
		return string(sort) + err.Error()
	}
	return string(sort) + string(data)
}

// orEmpty makes nil and empty requirements compare as equal.
func orEmpty(r *fnv1.Requirements) *fnv1.Requirements {
	if r == nil {
		return &fnv1.Requirements{}
	}
	return r
}

// subtract returns the requirements without those that are in others with the same key and the same selector.
func subtract(r, others *fnv1.Requirements) *fnv1.Requirements {
	return &fnv1.Requirements{
		ExtraResources: maps.Clone(r.GetExtraResources()), //nolint:staticcheck // functions still ask this way
		Resources:      subtractMap(r.GetResources(), others.GetResources()),
		Schemas:        subtractMap(r.GetSchemas(), others.GetSchemas()),
	}
}

func subtractMap[S proto.Message](of, others map[string]S) map[string]S {
	out := make(map[string]S, len(of))
	for key, selector := range of {
		if other, ok := others[key]; !ok || !proto.Equal(selector, other) {
			out[key] = selector
		}
	}
	return out
}

// In the union, others wins where both have a key.
func union(r, others *fnv1.Requirements) *fnv1.Requirements {
	return &fnv1.Requirements{
		ExtraResources: unionMap(r.GetExtraResources(), others.GetExtraResources()), //nolint:staticcheck // functions still ask this way
		Resources:      unionMap(r.GetResources(), others.GetResources()),
		Schemas:        unionMap(r.GetSchemas(), others.GetSchemas()),
	}
}

func unionMap[S proto.Message](of, others map[string]S) map[string]S {
	out := make(map[string]S, len(of)+len(others))
	maps.Copy(out, of)
	maps.Copy(out, others)
	return out
}
