package cloudcontrol_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws/cloudcontrol"
	"github.com/espalier-dev/espalier/providers/aws/hook"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/conformance"
)

// service is a service of AWS with a handler. Its resources are named by the caller, or numbered.
type service struct {
	isNumbered bool
	resources  map[string]map[string]any
	next       int
	isDown     bool
}

var unavailable = &smithy.GenericAPIError{Code: "InternalFailure", Message: "try again", Fault: smithy.FaultServer}

func (s *service) Identifier(desired map[string]any) string {
	name, _ := desired["Name"].(string)
	if s.isNumbered || name == "" {
		return ""
	}
	return "entry|" + name
}

func (s *service) List(ctx context.Context, _ aws.Config, model map[string]any) ([]string, error) {
	if s.isDown || ctx.Err() != nil {
		return nil, unavailable
	}
	var out []string
	for id, r := range s.resources {
		if r["Name"] == model["Name"] {
			out = append(out, id)
		}
	}
	return out, nil
}

func (s *service) Create(ctx context.Context, config aws.Config, desired map[string]any, earlier []string) (hook.Created, error) {
	now, err := s.List(ctx, config, desired)
	if err != nil {
		return hook.Created{}, err
	}
	id := s.Identifier(desired)
	if s.isNumbered {
		if slices.ContainsFunc(now, func(id string) bool { return !slices.Contains(earlier, id) }) {
			return hook.Created{}, &hook.LostError{Message: "one was created since"}
		}
		s.next++
		id = fmt.Sprint(s.next)
	} else if has := s.resources[id]; has != nil && has["Size"] != desired["Size"] {
		return hook.Created{}, &smithy.GenericAPIError{Code: "AlreadyExists", Fault: smithy.FaultClient}
	}
	s.resources[id] = maps.Clone(desired)
	return hook.Created{Resource: hook.Resource{Identifier: id, Properties: desired}}, nil
}

func (s *service) Read(ctx context.Context, _ aws.Config, id string) (*hook.Resource, error) {
	if s.isDown || ctx.Err() != nil {
		return nil, unavailable
	}
	if s.resources[id] == nil {
		return nil, nil
	}
	return &hook.Resource{Identifier: id, Properties: maps.Clone(s.resources[id])}, nil
}

func (s *service) Update(ctx context.Context, _ aws.Config, id string, desired map[string]any) error {
	if s.isDown || ctx.Err() != nil {
		return unavailable
	}
	s.resources[id] = maps.Clone(desired)
	return nil
}

func (s *service) Delete(ctx context.Context, _ aws.Config, id string) error {
	if s.isDown || ctx.Err() != nil {
		return unavailable
	}
	delete(s.resources, id)
	return nil
}

func TestConformanceOfHandlers(t *testing.T) {
	typ, err := resourcetype.Parse([]byte(`{"typeName":"AWS::Test::Entry","primaryIdentifier":["/properties/Id"],"readOnlyProperties":["/properties/Id"],
		"properties":{"Id":{"type":"string"},"Name":{"type":"string"},"Size":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, isNumbered := range []bool{false, true} {
		t.Run(fmt.Sprintf("numbered %t", isNumbered), func(t *testing.T) {
			clock, s := conformance.NewClock(), &service{isNumbered: isNumbered, resources: map[string]map[string]any{}}
			kind := cloudcontrol.NewKind(typ, hook.Hooks{Handler: s}, cloudcontrol.Options{Now: clock.Now})
			scenarios := 40
			if os.Getenv("ESPALIER_TEST_FULL") != "" {
				scenarios = 0
			}
			conformance.Run(t, conformance.Suite[*unstructured.Unstructured]{
				Kind: func() managed.Kind {
					return managed.For(managed.Definition[*unstructured.Unstructured]{
						Kind: schema.GroupVersionKind{Group: "test.aws.espalier.dev", Version: "v1alpha1", Kind: "Entry"},
						New:  func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
						Caps: kind.Caps,
						Connect: func(ctx context.Context, objects managed.Objects, m *unstructured.Unstructured) (managed.Client[*unstructured.Unstructured], error) {
							return kind.Connect(ctx, &cloudcontrol.Account{Scope: "1/r"}, objects, m)
						},
					})
				},
				New: func(name string) *unstructured.Unstructured {
					return &unstructured.Unstructured{Object: map[string]any{
						"metadata": map[string]any{"name": name, "namespace": "prod"},
						"spec":     map[string]any{"forProvider": map[string]any{"Name": name, "Size": int64(1)}},
					}}
				},
				Change: func(o *unstructured.Unstructured) {
					_ = unstructured.SetNestedField(o.Object, int64(2), "spec", "forProvider", "Size")
				},
				Clock: clock, MaxScenarios: scenarios,
				Count:    func(context.Context, *unstructured.Unstructured) (int, error) { return len(s.resources), nil },
				Snapshot: func(context.Context) (string, error) { return fmt.Sprint(s.resources), nil },
				Faults: []conformance.Fault{{Name: "the service was down", Inject: func() func() {
					s.isDown = true
					return func() { s.isDown = false }
				}}},
			})
		})
	}
}
