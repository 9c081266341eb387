package patchandtransform

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/object"
)

func TestTemplates(t *testing.T) {
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
environment:
  patches:
  - {type: FromCompositeFieldPath, fromFieldPath: spec.e, toFieldPath: e}
  - {type: ToCompositeFieldPath, fromFieldPath: f, toFieldPath: status.f}
`), &input); err != nil {
		t.Fatal(err)
	}
	in, problems, _ := Decode(input)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	base := map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	read := func(place object.Path, path string, ofComposite bool) Field {
		return Field{Place: place, Path: path, OfComposite: ofComposite}
	}
	written := func(place object.Path, path string, ofComposite bool) Field {
		return Field{Place: place, Path: path, OfComposite: ofComposite, Writes: true}
	}
	want := []Template{
		{Name: "bucket", Path: "resources[0]", Base: base, Fields: []Field{
			read("patchSets[0].patches[0].fromFieldPath", "spec.region", true), written("patchSets[0].patches[0].toFieldPath", "spec.zone", false),
			read("resources[0].patches[1].combine.variables[0].fromFieldPath", "spec.a", true), read("resources[0].patches[1].combine.variables[1].fromFieldPath", "spec.b", true),
			written("resources[0].patches[1].toFieldPath", "data.ab", false),
			read("resources[0].patches[2].fromFieldPath", "status.url", false), written("resources[0].patches[2].fromFieldPath", "status.url", true),
			read("resources[0].patches[3].combine.variables[0].fromFieldPath", "data.a", false), written("resources[0].patches[3].toFieldPath", "status.all", true),
			written("resources[0].patches[4].toFieldPath", "data.cluster", false),
		}},
		{Name: "other", Path: "resources[1]", Base: base},
		{Fields: []Field{read("environment.patches[0].fromFieldPath", "spec.e", true), written("environment.patches[1].toFieldPath", "status.f", true)}},
	}
	if diff := cmp.Diff(want, in.Templates()); diff != "" {
		t.Error(diff)
	}
}
