package functions

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// fromRequirements decodes the required resources and schemas. Schemas are large: each is
// only decoded when it is read, and is compared by its digest.
func fromRequirements(request *fnv1.RunFunctionRequest) (required call.Required, err error) {
	required.SchemasSupported = slices.Contains(request.GetMeta().GetCapabilities(), fnv1.Capability_CAPABILITY_REQUIRED_SCHEMAS)
	required.Resources = make(map[string][]map[string]any, len(request.GetRequiredResources()))
	for key, all := range request.GetRequiredResources() {
		objects := make([]map[string]any, len(all.GetItems()))
		for i, item := range all.GetItems() {
			if objects[i], err = structs.ToObject(item.GetResource()); err != nil {
				return required, fmt.Errorf("required resource %q: %w", key, err)
			}
		}
		required.Resources[key] = objects
	}
	required.Schemas = make(map[string]call.Schema, len(request.GetRequiredSchemas()))
	for key, schema := range request.GetRequiredSchemas() {
		if required.Schemas[key], err = fromSchema(schema.GetOpenapiV3()); err != nil {
			return required, fmt.Errorf("required schema %q: %w", key, err)
		}
	}
	return required, nil
}

func fromSchema(s *structpb.Struct) (call.Schema, error) {
	if len(s.GetFields()) == 0 {
		return call.Schema{}, nil
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
	if err != nil {
		return call.Schema{}, err
	}
	sum := sha256.Sum256(data)
	return call.Schema{
		Digest: hex.EncodeToString(sum[:]),
		Read:   func() (map[string]any, error) { return structs.ToObject(s) },
	}, nil
}

func toRequirements(r call.Requirements) *fnv1.Requirements {
	if len(r.Resources) == 0 && len(r.Schemas) == 0 {
		return nil
	}
	out := &fnv1.Requirements{
		Resources: make(map[string]*fnv1.ResourceSelector, len(r.Resources)),
		Schemas:   make(map[string]*fnv1.SchemaSelector, len(r.Schemas)),
	}
	for key, s := range r.Resources {
		selector := &fnv1.ResourceSelector{ApiVersion: s.APIVersion, Kind: s.Kind, Match: &fnv1.ResourceSelector_MatchName{MatchName: s.Name}}
		if s.Labels != nil {
			selector.Match = &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: s.Labels}}
		}
		if s.Namespace != "" {
			selector.Namespace = proto.String(s.Namespace)
		}
		out.Resources[key] = selector
	}
	for key, k := range r.Schemas {
		out.Schemas[key] = &fnv1.SchemaSelector{ApiVersion: k.APIVersion, Kind: k.Kind}
	}
	return out
}

func toConditions(all []call.Condition) []*fnv1.Condition {
	status := map[call.Status]fnv1.Status{call.StatusTrue: fnv1.Status_STATUS_CONDITION_TRUE, call.StatusFalse: fnv1.Status_STATUS_CONDITION_FALSE}
	var out []*fnv1.Condition
	for _, c := range all {
		said, known := status[c.Status]
		if !known {
			said = fnv1.Status_STATUS_CONDITION_UNKNOWN
		}
		condition := &fnv1.Condition{Type: c.Type, Status: said, Reason: c.Reason}
		if c.Message != "" {
			condition.Message = proto.String(c.Message)
		}
		out = append(out, condition)
	}
	return out
}
