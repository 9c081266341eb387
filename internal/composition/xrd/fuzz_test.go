package xrd_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
)

// FuzzSchemas: whatever an author writes as a schema, there is an answer, and it is the
// same every time.
func FuzzSchemas(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `[]`, `{}`, `{"type":"object"}`, `{"properties":{"spec":null}}`,
		`{"properties":{"spec":{"properties":{"a":{"type":"array"}}}}}`,
		`{"properties":{"spec":{"x-kubernetes-validations":[{"rule":"self.a"}],"properties":{"a":{"type":"string","items":{}}}}}}`,
		`{"properties":{"spec":{"oneOf":[{"required":["a"]}],"properties":{"a":{"x-kubernetes-int-or-string":true}}}}}`,
		`{"properties":{"status":{"properties":{"conditions":{"additionalProperties":true}}}}}`,
		`{"properties":{"spec":{"properties":{"a":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-validations":[{"rule":"has(self.metadata.name)"}]}}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := legacy()
		for i := range d.Spec.Versions {
			d.Spec.Versions[i].Schema = &v1.DefinitionSchema{OpenAPIV3Schema: runtime.RawExtension{Raw: raw}}
		}
		composite, problems := xrd.CompositeCRD(d, xrd.Options{})
		if (composite == nil) == (len(problems) == 0) {
			t.Fatalf("%v and %v", composite, problems)
		}
		again, same := xrd.CompositeCRD(d, xrd.Options{})
		if diff := cmp.Diff(composite, again) + cmp.Diff(problems, same) + cmp.Diff(xrd.Warnings(d), xrd.Warnings(d)); diff != "" {
			t.Fatalf("two answers: %s", diff)
		}
	})
}
