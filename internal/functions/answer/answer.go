// Package answer implements function-dummy, which returns the response in its input, as a
// built-in function. It is for trying out and testing compositions.
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

// The names that compositions reference this function by: the usual one, and the one that
// a package manager derives from its package.
const (
	Name        = "function-dummy"
	PackageName = "crossplane-contrib-function-dummy"
)

// inputFields are the known fields of the input.
var inputFields = []string{"apiVersion", "kind", "metadata", "response"}

// Run merges the response in the input, in the JSON form of the protocol, into the desired
// state and the context of the request. A response without a TTL has no TTL.
func Run(r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	out := &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: r.GetMeta().GetTag()}, Desired: r.GetDesired(), Context: r.GetContext()}
	input := r.GetInput().GetFields()
	for _, field := range slices.Sorted(maps.Keys(input)) {
		if !slices.Contains(inputFields, field) {
			d := diag.Diagnostic{Problem: fmt.Sprintf("there is no field %s", diag.Truncate(field, 100)), Nearest: diag.Nearest(field, inputFields)}
			return fatalResponse(out, "invalid Function input: "+d.String()), nil
		}
	}
	value, ok := input["response"].GetKind().(*structpb.Value_StructValue)
	if !ok {
		return fatalResponse(out, "the Function input has no response, or it is not an object"), nil
	}
	text, err := protojson.Marshal(value.StructValue)
	if err != nil {
		return nil, err
	}
	response := &fnv1.RunFunctionResponse{}
	if err := protojson.Unmarshal(text, response); err != nil {
		return fatalResponse(out, "the response in the Function input is not a RunFunctionResponse: "+diag.Truncate(err.Error(), 1000)), nil
	}
	proto.Merge(out, response)
	return out, nil
}

func fatalResponse(out *fnv1.RunFunctionResponse, message string) *fnv1.RunFunctionResponse {
	out.Results = append(out.Results, result(fnv1.Severity_SEVERITY_FATAL, message))
	return out
}

func result(severity fnv1.Severity, message string) *fnv1.Result {
	return &fnv1.Result{Severity: severity, Message: message}
}
