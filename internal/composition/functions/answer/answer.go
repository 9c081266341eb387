// Package answer implements function-dummy, which returns the response in its input, as a
// built-in function. It is for trying out and testing compositions.
//
// Pure: it decides from values alone.
package answer

import (
	"encoding/json"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// The names that compositions reference this function by: the usual one, and the one that
// a package manager derives from its package.
const (
	Name        = "function-dummy"
	PackageName = "crossplane-contrib-function-dummy"
)

var inputFields = []string{"apiVersion", "kind", "metadata", "response"}

// Run merges the response in the input, in the JSON form of the protocol, into the desired
// state and the context of the request. A response without a TTL has no TTL.
func Run(r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	out := &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: r.GetMeta().GetTag()}, Desired: r.GetDesired(), Context: r.GetContext()}
	response, problems := decode(r.GetInput().AsMap())
	if len(problems) > 0 {
		return fatalResponse(out, "invalid Function input: "+call.FormatProblems(problems)), nil
	}
	proto.Merge(out, response)
	return out, nil
}

// Check lists the problems that make the function fail with an input.
func Check(input map[string]any) diag.List {
	_, problems := decode(input)
	return problems
}

func decode(input map[string]any) (*fnv1.RunFunctionResponse, diag.List) {
	var problems diag.List
	for _, field := range slices.Sorted(maps.Keys(input)) {
		if !slices.Contains(inputFields, field) {
			at := object.Path("").Field(diag.Truncate(field, 100))
			problems.Add(diag.Diagnostic{Path: at, Problem: "no such field", Nearest: diag.Nearest(field, inputFields)})
		}
	}
	value, isObject := input["response"].(map[string]any)
	if !isObject {
		problems.Addf("response", "is not set, or is not an object")
		return nil, problems
	}
	response := &fnv1.RunFunctionResponse{}
	text, err := json.Marshal(value)
	if err == nil {
		err = protojson.Unmarshal(text, response)
	}
	if err != nil {
		problems.Addf("response", "is not a RunFunctionResponse: %s", diag.Truncate(err.Error(), 1000))
	}
	return response, problems
}

func fatalResponse(out *fnv1.RunFunctionResponse, message string) *fnv1.RunFunctionResponse {
	out.Results = append(out.Results, result(fnv1.Severity_SEVERITY_FATAL, message))
	return out
}

func result(severity fnv1.Severity, message string) *fnv1.Result {
	return &fnv1.Result{Severity: severity, Message: message}
}
