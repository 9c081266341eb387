package patchandtransform

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestCompositeFields(t *testing.T) {
	var input map[string]any
	if err := yaml.Unmarshal([]byte(`
apiVersion: pt.fn.crossplane.io/v1beta1
kind: Resources
patchSets:
- name: common
  patches: [{fromFieldPath: spec.region, toFieldPath: spec.zone}]
resources:
- name: bucket
  base: {apiVersion: v1, kind: ConfigMap}
  patches:
  - {type: PatchSet, patchSetName: common}
  - {type: CombineFromComposite, combine: {variables: [{fromFieldPath: spec.a}, {fromFieldPath: spec.b}], strategy: string, string: {fmt: "%s-%s"}}, toFieldPath: data.ab}
  - {type: ToCompositeFieldPath, fromFieldPath: status.url}
  - {type: CombineToComposite, combine: {variables: [{fromFieldPath: data.a}], strategy: string, string: {fmt: "%s"}}, toFieldPath: status.all}
  - {type: FromEnvironmentFieldPath, fromFieldPath: cluster, toFieldPath: data.cluster}
- name: other
  base: {apiVersion: v1, kind: ConfigMap}
`), &input); err != nil {
		t.Fatal(err)
	}
	in, problems, _ := Decode(input)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []CompositeField{{Path: "spec.region"}, {Path: "spec.a"}, {Path: "spec.b"}, {Path: "status.url", Writes: true}, {Path: "status.all", Writes: true}}
	if diff := cmp.Diff(want, in.CompositeFields("bucket")); diff != "" {
		t.Error(diff)
	}
	if got := in.CompositeFields("other"); len(got) > 0 {
		t.Errorf("a resource without patches has %v", got)
	}
}
