package function_test

import (
	"context"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// greet composes a ConfigMap. It is the function of docs/functions.md.
func greet(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	response := function.To(request) // what earlier steps of the pipeline desire
	spec := request.GetObserved().GetComposite().GetResource().GetFields()["spec"].GetStructValue()
	config, err := structpb.NewStruct(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]any{"text": "Hello " + spec.GetFields()["name"].GetStringValue()},
	})
	if err != nil {
		return nil, err
	}
	if response.Desired.Resources == nil {
		response.Desired.Resources = map[string]*fnv1.Resource{}
	}
	response.Desired.Resources["config"] = &fnv1.Resource{Resource: config, Ready: fnv1.Ready_READY_TRUE}
	return response, nil
}

func Example() {
	function.Main(greet)
}
