package compositions

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// functionInput is the input of a test's function.
type functionInput struct {
	composite *unstructured.Unstructured
	resources map[string]*unstructured.Unstructured
}

// functionOutput is the output of a test's function; all resources are ready.
type functionOutput struct {
	resources  map[string]map[string]any
	status     map[string]any
	conditions []*fnv1.Condition
	ttl        time.Duration
	err        error
}

// serveFunction registers a function for the compositions of a test.
func serveFunction(t *testing.T, s suite.Suite, function func(functionInput) functionOutput) {
	t.Helper()
	serveRawFunction(t, s, func(r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		given := functionInput{resources: map[string]*unstructured.Unstructured{}}
		read := func(r *fnv1.Resource) *unstructured.Unstructured {
			o, err := structs.ToObject(r.GetResource())
			if err != nil {
				t.Error(err)
			}
			return &unstructured.Unstructured{Object: o}
		}
		given.composite = read(r.GetObserved().GetComposite())
		for name, resource := range r.GetObserved().GetResources() {
			given.resources[name] = read(resource)
		}
		a := function(given)
		if a.err != nil {
			return nil, a.err
		}
		out := &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{}, Conditions: a.conditions, Desired: &fnv1.State{Resources: map[string]*fnv1.Resource{}}}
		if a.ttl > 0 {
			out.Meta.Ttl = durationpb.New(a.ttl)
		}
		write := func(o map[string]any) *fnv1.Resource {
			s, err := structs.ToStruct(o)
			if err != nil {
				t.Error(err)
			}
			return &fnv1.Resource{Resource: s, Ready: fnv1.Ready_READY_TRUE}
		}
		for name, o := range a.resources {
			out.Desired.Resources[name] = write(o)
		}
		if a.status != nil {
			out.Desired.Composite = write(map[string]any{"status": a.status})
			out.Desired.Composite.Ready = fnv1.Ready_READY_UNSPECIFIED
		}
		return out, nil
	})
}

// serveRawFunction is provide for a function that needs all of the protocol.
func serveRawFunction(t *testing.T, s suite.Suite, function func(*fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error)) {
	t.Helper()
	name := s.Name("function")
	functions.Register(name, func(_ context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		return function(r)
	})
	t.Cleanup(func() { functions.Register(name, nil) })
}

// configMap returns a desired ConfigMap of a function.
func configMap(name string, data map[string]any) map[string]any {
	out := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data}
	if name != "" {
		out["metadata"] = map[string]any{"name": name}
	}
	return out
}

// coded is a namespaced kind whose composition calls the test's function.
var coded = suite.XRD("v2", "Coded", "name: {type: string}, kind: {type: string}", "address: {type: string}, count: {type: integer}", "scope: Namespaced") + "---" +
	suite.Composition("coded", "Coded", "  - step: code\n    functionRef: {name: $ID-function}\n")

// createCoded creates the definition coded and the instance shop, and returns the kind.
func createCoded(t *testing.T, s suite.Suite) schema.GroupVersionKind {
	t.Helper()
	s.Apply(t, coded)
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Coded, metadata: {namespace: $NS, name: shop}, spec: {}}`)
	return s.Kind("Coded")
}
