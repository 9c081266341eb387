package composite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/object"

	"google.golang.org/protobuf/types/known/structpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// answers is a function that answers with what it is, by resource, or fails.
type answers struct {
	resources map[string]resource
	fails     error
}

type resource struct {
	object string
	ready  fnv1.Ready
}

func (a *answers) Run(context.Context, string, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	if a.fails != nil {
		return nil, a.fails
	}
	out := &fnv1.State{Resources: map[string]*fnv1.Resource{}}
	for name, r := range a.resources {
		object, err := structpb.NewStruct(parse(r.object).Object)
		if err != nil {
			return nil, err
		}
		out.Resources[name] = &fnv1.Resource{Resource: object, Ready: r.ready}
	}
	return &fnv1.RunFunctionResponse{Desired: out}, nil
}

func parse(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(raw)
	}
	if err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	return o
}

// fixture is a composite, and what composes it.
type fixture struct {
	*answers
	composer *composite.Composer
	facts    plan.Facts
}

// begin has a composite of a name, which is in no namespace if that is empty.
func begin(namespace, name string) *fixture {
	scope := v1.ClusterScope
	if namespace != "" {
		scope = v1.NamespacedScope
	}
	definition := &v1.CompositeResourceDefinition{}
	definition.Spec.Group, definition.Spec.Scope = "example.com", scope
	definition.Spec.Versions = []v1.DefinitionVersion{{Name: "v1", Served: true, Referenceable: true}}
	definition.Spec.Names.Kind, definition.Spec.Names.Plural = "App", "apps"
	composition := &v1.Composition{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: v1.CompositionSpec{
			CompositeTypeRef: v1.TypeReference{APIVersion: "example.com/v1", Kind: "App"}, Mode: v1.PipelineMode,
			Pipeline: []v1.PipelineStep{{Step: "only", FunctionRef: v1.FunctionReference{Name: "f"}}},
		},
	}
	revision := xrd.NextRevision(composition, nil).Create
	a := &answers{resources: map[string]resource{}}
	instance := &unstructured.Unstructured{Object: map[string]any{}}
	instance.SetAPIVersion("example.com/v1")
	instance.SetKind("App")
	instance.SetNamespace(namespace)
	instance.SetName(name)
	instance.SetUID("uid")
	return &fixture{
		answers: a,
		composer: &composite.Composer{
			Snapshot: xrd.Snapshot{Definition: definition, Compositions: []*v1.Composition{composition}, Revisions: []*v1.CompositionRevision{revision}},
			Runner:   a, Now: time.Now, Memories: &composite.Memories{},
		},
		facts: plan.Facts{Instance: instance, Owned: map[string][]*unstructured.Unstructured{}},
	}
}

// read has the scopes of some kinds, and nothing else.
func read(need plan.Need) plan.Lookup {
	namespaced, known := map[string]bool{"ConfigMap": true, "Secret": true, "Namespace": false, "Leaf": true}[need.Kind.Kind]
	if need.Scope && !known {
		return plan.Lookup{Unreadable: &plan.Unreadable{}}
	}
	return plan.Lookup{Namespaced: namespaced}
}

// wants has the function want a resource.
func (f *fixture) wants(name, object string, ready fnv1.Ready) {
	f.resources[name] = resource{object, ready}
}

// has makes an object one that the composite is composed of.
func (f *fixture) has(name, text string) *unstructured.Unstructured {
	o := parse(text)
	owner := inventory.OwnerOf(f.facts.Instance, object.Definition{Dialect: object.CompositeDialect}, "")
	if o.GetNamespace() == "" {
		o.SetNamespace(f.facts.Instance.GetNamespace())
	}
	owner.Mark(o, inventory.Place{Node: name})
	f.facts.Owned[name] = append(f.facts.Owned[name], o)
	return o
}

// refers has the composite refer to objects.
func (f *fixture) refers(refs ...xrd.ComposedRef) {
	xr := xrd.NewInstance(f.facts.Instance, xrd.LayoutOf(f.composer.Definition.ScopeOrDefault()))
	xr.SetResourceRefs(refs)
}

func (f *fixture) compose(t *testing.T) plan.Desired {
	t.Helper()
	desired, err := instance.ComposeReading(t.Context(), f.composer, f.facts, read)
	if err != nil {
		t.Fatal(err)
	}
	return desired
}

// node is the only node that is wanted.
func (f *fixture) node(t *testing.T) plan.Node {
	t.Helper()
	desired := f.compose(t)
	if len(desired.Nodes) != 1 {
		t.Fatalf("of %v: %v", f.resources, desired)
	}
	return desired.Nodes[0]
}
