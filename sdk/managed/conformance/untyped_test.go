package conformance_test

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/conformance"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

type untyped = *unstructured.Unstructured

// untypedClient is the client of things without their Go type.
type untypedClient struct{ *client }

func (c untypedClient) typed(m untyped) object {
	public, _, _ := unstructured.NestedBool(m.Object, "spec", "forProvider", "public")
	return &managedThing{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.GetNamespace(), Name: m.GetName(), Annotations: m.GetAnnotations()},
		Spec:       thingSpec{ForProvider: thingParameters{Public: public}},
	}
}

func (c untypedClient) Identify(m untyped) (external.Key, error) {
	return c.client.Identify(c.typed(m))
}

func (c untypedClient) Observe(ctx context.Context, m untyped, ref external.Ref) (external.Observation, error) {
	if c.bug == "modifies the object" {
		_ = unstructured.SetNestedField(m.Object, "changed", "spec", "forProvider", "region")
	}
	return c.client.Observe(ctx, c.typed(m), ref)
}

func (c untypedClient) Find(ctx context.Context, m untyped, key external.Key, mark external.Mark) ([]external.Observation, error) {
	return c.client.Find(ctx, c.typed(m), key, mark)
}

func (c untypedClient) Prepare(m untyped, verb external.Verb, o external.Observation) (external.Request, error) {
	return c.client.Prepare(c.typed(m), verb, o)
}

func (c untypedClient) Begin(ctx context.Context, m untyped, i external.Intent) (external.Op, error) {
	return c.client.Begin(ctx, c.typed(m), i)
}

func (c untypedClient) Poll(ctx context.Context, m untyped, op external.Op) (external.Op, error) {
	return c.client.Poll(ctx, c.typed(m), op)
}

func untypedSuite(a *api, bug string) conformance.Suite[untyped] {
	return conformance.Suite[untyped]{
		Kind: func() managed.Kind {
			return managed.For(managed.Definition[untyped]{
				Kind: thingKind, New: func() untyped { return &unstructured.Unstructured{} }, Caps: func() external.Caps { return a.caps },
				Connect: func(context.Context, managed.Objects, untyped) (managed.Client[untyped], error) {
					return untypedClient{&client{a, bug, map[string]int{}}}, nil
				},
			})
		},
		New: func(name string) untyped {
			m := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"forProvider": map[string]any{"region": "main"}}}}
			m.SetNamespace("prod")
			m.SetName(name)
			return m
		},
		Change: func(m untyped) { _ = unstructured.SetNestedField(m.Object, true, "spec", "forProvider", "public") },
		Count:  func(context.Context, untyped) (int, error) { return len(a.things), nil },
		Clock:  a.clock,
		Faults: []conformance.Fault{a.fault("the API lost its answers", &a.losesAnswers)},
	}
}

func TestAKindWithoutAGoTypePasses(t *testing.T) {
	conformance.Run(t, untypedSuite(newAPI(byToken), ""))
}

func TestAChangeOfAnUntypedObjectIsReported(t *testing.T) {
	s := untypedSuite(newAPI(byName), "modifies the object")
	s.MaxScenarios, s.Short = 10, true
	report := conformance.Check(t.Context(), s)
	if !slices.ContainsFunc(report.Findings, func(f conformance.Finding) bool { return f.Promise == conformance.ObjectIsNotModified }) {
		t.Errorf("want a finding about %q, got %v", conformance.ObjectIsNotModified, report.Findings)
	}
}
