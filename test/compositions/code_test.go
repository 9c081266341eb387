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

// seen is what a test's function is given.
type seen struct {
	composite *unstructured.Unstructured
	resources map[string]*unstructured.Unstructured
}

// answer is what a test's function wants; each resource is ready.
type answer struct {
	resources  map[string]map[string]any
	status     map[string]any
	conditions []*fnv1.Condition
	ttl        time.Duration
	err        error
}

// provide has the compositions of a test call a function.
func provide(t *testing.T, s suite.Suite, function func(seen) answer) {
	t.Helper()
	provideRaw(t, s, func(r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		given := seen{resources: map[string]*unstructured.Unstructured{}}
		read := func(r *fnv1.Resource) *unstructured.Unstructured {
			o, err := structs.From(r.GetResource())
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
			s, err := structs.To(o)
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

// provideRaw is provide for a function that needs all of the protocol.
func provideRaw(t *testing.T, s suite.Suite, function func(*fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error)) {
	t.Helper()
	name := s.Name("function")
	functions.Register(name, func(_ context.Context, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		return function(r)
	})
	t.Cleanup(func() { functions.Register(name, nil) })
}

// configMap is one as a function may want it.
func configMap(name string, data map[string]any) map[string]any {
	out := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data}
	if name != "" {
		out["metadata"] = map[string]any{"name": name}
	}
	return out
}

// coded is a namespaced kind whose composition calls the test's function.
var coded = suite.XRD("v2", "Coded", "name: {type: string}, kind: {type: string}", "address: {type: string}, count: {type: integer}", "scope: Namespaced") + `---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: $ID-coded}
spec:
  compositeTypeRef: {apiVersion: $GROUP/v1alpha1, kind: Coded}
  mode: Pipeline
  pipeline:
  - step: code
    functionRef: {name: $ID-function}
`

// newCoded puts the kind coded and a shop of it, and returns its kind.
func newCoded(t *testing.T, s suite.Suite) schema.GroupVersionKind {
	t.Helper()
	s.Put(t, coded)
	s.Put(t, `{apiVersion: $GROUP/v1alpha1, kind: Coded, metadata: {namespace: $NS, name: shop}, spec: {}}`)
	return s.Kind("Coded")
}
