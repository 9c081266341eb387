// Package answer is the function that answers what its input says: what function-dummy does
// as a program, inside this one. Compositions are tried out and tested with it.
//
// Pure: it decides from values alone.
package answer

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/diag"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// The names that compositions know this function by: the one that everybody gives it, and
// the one that follows from its package.
const (
	Name        = "function-dummy"
	PackageName = "crossplane-contrib-function-dummy"
)

// known are the fields of the input.
var known = []string{"apiVersion", "kind", "metadata", "response"}

// Run lays the answer that the input has, as the protocol writes one in JSON, over what
// was wanted before. Where it says nothing of how long it holds, it holds until something
// changes.
func Run(r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	out := &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: r.GetMeta().GetTag()}, Desired: r.GetDesired(), Context: r.GetContext()}
	input := r.GetInput().GetFields()
	for _, field := range slices.Sorted(maps.Keys(input)) {
		if !slices.Contains(known, field) {
			d := diag.Diagnostic{Problem: fmt.Sprintf("there is no field %s", diag.Cut(field, 100)), Nearest: diag.Nearest(field, known)}
			return fails(out, "invalid Function input: "+d.String()), nil
		}
	}
	said, ok := input["response"].GetKind().(*structpb.Value_StructValue)
	if !ok {
		return fails(out, "the Function input has no response, which is an object"), nil
	}
	text, err := protojson.Marshal(said.StructValue)
	if err != nil {
		return nil, err
	}
	answer := &fnv1.RunFunctionResponse{}
	if err := protojson.Unmarshal(text, answer); err != nil {
		return fails(out, "the response that the Function input has is none of the protocol: "+diag.Cut(err.Error(), 1000)), nil
	}
	proto.Merge(out, answer)
	return out, nil
}

func fails(out *fnv1.RunFunctionResponse, message string) *fnv1.RunFunctionResponse {
	out.Results = append(out.Results, result(fnv1.Severity_SEVERITY_FATAL, message))
	return out
}

func result(severity fnv1.Severity, message string) *fnv1.Result {
	return &fnv1.Result{Severity: severity, Message: message}
}
