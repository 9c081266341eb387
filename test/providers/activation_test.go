package providers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
	sdk "github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// activationCRD is the CustomResourceDefinition of AWS's activations: the tests use its schema.
const activationCRD = "../../providers/aws/v1alpha1/crds/aws.espalier.dev_resourcetypeactivations.yaml"

var (
	activation = schema.GroupVersionKind{Group: "aws.espalier.dev", Version: "v1alpha1", Kind: "ResourceTypeActivation"}
	crdKind    = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
)

// shapesGroup is the group of the kinds Box and Crate, whose types are Shapes::Box and Shapes::Crate.
const shapesGroup = "shapes.example.org"

func shape(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: shapesGroup, Version: "v1alpha1", Kind: name}
}

// shapes is a catalog whose external resources are in memory.
type shapes struct {
	mu    sync.Mutex
	marks map[external.Ref]external.Mark
}

var allShapes = &shapes{marks: map[external.Ref]external.Mark{}}

// shapesProvider serves the kinds of the catalog that are activated.
func shapesProvider() sdk.Provider {
	raw, err := os.ReadFile(activationCRD)
	if err != nil {
		panic(err)
	}
	return sdk.Provider{Name: "shapes", CRDs: fstest.MapFS{"activations.yaml": {Data: raw}}, Catalog: allShapes, Activations: activation}
}

var shapeTypes = []string{"Shapes::Box", "Shapes::Crate"}

func (*shapes) Match(pattern string) ([]string, error) {
	prefix, wildcard := strings.CutSuffix(pattern, "*")
	return slices.DeleteFunc(slices.Clone(shapeTypes), func(name string) bool {
		return name != pattern && (!wildcard || !strings.HasPrefix(name, prefix))
	}), nil
}

func (*shapes) TypeOf(kind schema.GroupKind) (string, bool, bool) {
	name := "Shapes::" + kind.Kind
	return name, false, kind.Group == shapesGroup && slices.Contains(shapeTypes, name)
}

func (s *shapes) Open(name string, clusterScoped bool) (sdk.Kind, *apiextensionsv1.CustomResourceDefinition, error) {
	if clusterScoped {
		return sdk.Kind{}, nil, errors.New("shapes are namespaced")
	}
	kind := shape(strings.TrimPrefix(name, "Shapes::"))
	var definition apiextensionsv1.CustomResourceDefinition
	text := suite.CRDText(kind.Group, kind.Version, kind.Kind, "{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}")
	if err := yaml.Unmarshal([]byte(text), &definition); err != nil {
		return sdk.Kind{}, nil, err
	}
	return sdk.For(sdk.Definition[*unstructured.Unstructured]{
		Kind: kind, New: func() *unstructured.Unstructured { return &unstructured.Unstructured{} },
		Caps: func() external.Caps { return external.Caps{Marked: true} },
		Connect: func(context.Context, sdk.Objects, *unstructured.Unstructured) (sdk.Client[*unstructured.Unstructured], error) {
			return s, nil
		},
	}), &definition, nil
}

func (*shapes) Identify(m *unstructured.Unstructured) (external.Key, error) {
	return external.Key{Scope: m.GetNamespace(), Type: m.GetKind(), Name: m.GetName()}, nil
}

func (s *shapes) Observe(_ context.Context, m *unstructured.Unstructured, ref external.Ref) (external.Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mark, ok := s.marks[external.Ref(m.GetNamespace())+"/"+ref]
	if !ok {
		return external.Observation{Presence: external.Absent}, nil
	}
	return external.Observation{Presence: external.Present, Ref: ref, Mark: &mark, UpToDate: external.Yes, Ready: external.Yes}, nil
}

func (*shapes) Find(context.Context, *unstructured.Unstructured, external.Key, external.Mark) ([]external.Observation, error) {
	return nil, errors.New("shapes cannot be searched")
}

func (*shapes) Prepare(*unstructured.Unstructured, external.Verb, external.Observation) (external.Request, error) {
	return external.Request("{}"), nil
}

func (s *shapes) Begin(_ context.Context, m *unstructured.Unstructured, i external.Intent) (external.Op, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := external.Ref(i.Key.Name)
	if i.Verb == external.Delete {
		delete(s.marks, external.Ref(m.GetNamespace())+"/"+i.Ref)
		return external.Op{Done: true, Ref: i.Ref}, nil
	}
	s.marks[external.Ref(m.GetNamespace())+"/"+ref] = i.Mark
	return external.Op{Done: true, Ref: ref}, nil
}

func (*shapes) Poll(_ context.Context, _ *unstructured.Unstructured, op external.Op) (external.Op, error) {
	return op, nil
}

// isActive checks the condition Ready of an activation, and its message.
func isActive(contains string) suite.Check {
	return suite.HasCondition(resource.Ready, "True", string(resource.Active), contains)
}

func (s *shapes) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.marks)
}

// TestKindsAreServedWhileTheyAreActivated activates a kind, creates an object, deactivates the kind
// while the object exists, and deletes the object. Then a definition activates the kind.
func TestKindsAreServedWhileTheyAreActivated(t *testing.T) {
	s := suite.New(t)
	s.AllowComposing(t, shapesGroup)
	box, boxes := shape("Box"), "boxs."+shapesGroup
	apply := func(spec string) {
		t.Helper()
		s.Apply(t, "apiVersion: aws.espalier.dev/v1alpha1\nkind: ResourceTypeActivation\nmetadata: {name: shapes}\nspec: "+spec)
	}
	apply("{types: ['Shapes::Box']}")
	o := s.Await(t, activation, "", "shapes", isActive("1 kind is served"))
	if max, _, _ := unstructured.NestedInt64(o.Object, "spec", "maxKinds"); max != resource.DefaultMaxKinds {
		t.Errorf("by default, maxKinds is %d", max)
	}
	if got := s.Get(t, crdKind, "", boxes).GetLabels()[resource.CatalogLabel]; got != "shapes" {
		t.Errorf("the label is %q", got)
	}
	s.Apply(t, "apiVersion: shapes.example.org/v1alpha1\nkind: Box\nmetadata: {name: one, namespace: $NS}\nspec: {}")
	s.AwaitReady(t, box, s.NS, "one")

	apply("{types: []}")
	s.Await(t, activation, "", "shapes", isActive("1 object of kind Box exists: delete or orphan it first"))
	s.Delete(t, box, s.NS, "one")
	s.AwaitGone(t, crdKind, "", boxes)
	s.Await(t, activation, "", "shapes", isActive("0 kinds are served"))
	if n := allShapes.count(); n > 0 {
		t.Errorf("%d boxes are left", n)
	}

	graph := suite.Graph("Shelf", "spec: {name: string}", fmt.Sprintf(`
    - id: box
      template:
        apiVersion: %s/v1alpha1
        kind: Box
        metadata: {name: "${schema.spec.name}"}
        spec: {}
`, shapesGroup))
	s.Apply(t, graph)
	apply("{onDemand: ['Shapes::*']}")
	s.Await(t, activation, "", "shapes", isActive("1 kind is served"))
	s.AwaitDefinitions(t, "shelf")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Shelf\nmetadata: {name: a, namespace: $NS}\nspec: {name: two}")
	s.AwaitReady(t, box, s.NS, "two")

	s.Delete(t, activation, "", "shapes")
	s.Await(t, activation, "", "shapes", suite.HasCondition(resource.Ready, "False", resource.Deleting, "1 object of kind Box exists"))
	s.Delete(t, s.Kind("Shelf"), s.NS, "a")
	s.AwaitGone(t, activation, "", "shapes")
	s.AwaitGone(t, crdKind, "", boxes)
	if n := allShapes.count(); n > 0 {
		t.Errorf("%d boxes are left", n)
	}
}
