// Command greet is a function that composes a ConfigMap. Tests put it into a package.
package main

import (
	"context"
	"os"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func main() { function.Main(greet) }

func greet(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	response := function.To(request)
	spec := request.GetObserved().GetComposite().GetResource().GetFields()["spec"].GetStructValue()
	_, outside := os.Stat(os.Getenv("OUTSIDE"))
	config, err := structpb.NewStruct(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "greeting"}, "data": map[string]any{
			"text": "Hello " + spec.GetFields()["name"].GetStringValue(), "confined": map[bool]string{true: "yes", false: "no"}[outside != nil],
		},
	})
	if err != nil {
		return nil, err
	}
	response.Desired.Resources = map[string]*fnv1.Resource{"config": {Resource: config, Ready: fnv1.Ready_READY_TRUE}}
	return response, nil
}
