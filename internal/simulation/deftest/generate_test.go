package deftest

import (
	"math/rand/v2"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/kube/crd/admission"
)

const generated = `
spec:
  group: example.org
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size, mode]
            properties:
              size: {type: integer, minimum: 5, maximum: 7}
              negative: {type: number, maximum: -4}
              mode: {type: string, enum: [a, b]}
              name: {type: string, minLength: 3, maxLength: 4}
              at: {type: string, format: date-time}
              port: {x-kubernetes-int-or-string: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              set: {type: array, x-kubernetes-list-type: set, minItems: 1, maxItems: 2, items: {type: boolean}}
              labels: {type: object, additionalProperties: {type: string}}
              nested: {type: object, properties: {deep: {type: object, properties: {on: {type: boolean}}}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

func TestDrawnInstancesAreValid(t *testing.T) {
	var c apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(generated), &c); err != nil {
		t.Fatal(err)
	}
	s, err := crd.Structural(&c, "v1")
	if err != nil {
		t.Fatal(err)
	}
	a, err := admission.New(&c, "v1")
	if err != nil {
		t.Fatal(err)
	}
	draw := func() *Generator {
		return &Generator{Kind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"}, Schema: s, Namespaced: true, Random: rand.New(rand.NewPCG(1, 2))}
	}
	first, second := draw(), draw()
	for i := range 200 {
		o := first.Instance(i, "prod")
		if again := second.Instance(i, "prod"); encode(again.Object) != encode(o.Object) {
			t.Fatalf("the same seed draws another instance: %v, %v", o.Object, again.Object)
		}
		if _, problems := a.Admit(o, nil); len(problems) > 0 || len(a.UnknownFields(o)) > 0 {
			t.Fatalf("%v: %v %v", o.Object, problems, a.UnknownFields(o))
		}
		spec := o.Object["spec"].(map[string]any)
		if i == 0 && len(spec) != 2 || i == 1 && len(spec) != 10 {
			t.Errorf("instance %d is not an extreme: %v", i, spec)
		}
		if _, has := o.Object["status"]; has {
			t.Error("it has a status")
		}
	}
}
