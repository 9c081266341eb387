package xrd_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
)

func compositionOf(t *testing.T, text string) *v1.Composition {
	t.Helper()
	c := &v1.Composition{}
	if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestValidateComposition(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"One that composes": {`
metadata: {name: database}
spec:
  compositeTypeRef: {apiVersion: acme.example.com/v1, kind: Database}
  mode: Pipeline
  pipeline:
  - step: render
    functionRef: {name: templating}
    credentials:
    - {name: none, source: None}
    - {name: cloud, source: Secret, secretRef: {namespace: platform, name: cloud}}
    requirements:
      requiredResources:
      - {requirementName: all, apiVersion: v1, kind: ConfigMap}
      requiredSchemas:
      - {requirementName: all, apiVersion: v1, kind: ConfigMap}
`, ""},
		"One that says nothing": {`{}`, `spec.compositeTypeRef: must have the apiVersion and kind of the composites
spec.pipeline: must have at least one step
`},
		"A name that no label can have": {`
metadata: {name: a-name-that-is-longer-than-the-value-of-any-label-can-be-in-kubernetes}
spec:
  compositeTypeRef: {apiVersion: acme.example.com/v1, kind: Database}
  pipeline: [{step: a, functionRef: {name: f}}]
`, "metadata.name: must be a valid label value: must be no more than 63 bytes\n"},
		"All that can be wrong with steps": {`
metadata: {name: database}
spec:
  compositeTypeRef: {apiVersion: v1, kind: Database}
  mode: Resources
  pipeline:
  - step: render
    functionRef: {name: templating}
  - step: render
    functionRef: {name: ""}
    credentials:
    - {name: cloud, source: Secret}
    - {name: cloud, source: Vault}
    requirements:
      requiredResources:
      - {requirementName: one, apiVersion: v1, kind: ConfigMap, name: a, matchLabels: {a: b}}
      - {requirementName: one, apiVersion: "", kind: ConfigMap}
      requiredSchemas:
      - {requirementName: "", apiVersion: v1, kind: ""}
`, `spec.compositeTypeRef: must have the apiVersion and kind of the composites
spec.mode: is Resources; expected Pipeline
spec.pipeline[1].credentials[0].secretRef: is required, because the source is Secret
spec.pipeline[1].credentials[1].name: is a duplicate: "cloud"
spec.pipeline[1].credentials[1].source: is Vault; expected None or Secret
spec.pipeline[1].functionRef.name: is required
spec.pipeline[1].requirements.requiredResources[0]: must have either name or matchLabels
spec.pipeline[1].requirements.requiredResources[1].apiVersion: is required
spec.pipeline[1].requirements.requiredResources[1].requirementName: is a duplicate: "one"
spec.pipeline[1].requirements.requiredSchemas[0].kind: is required
spec.pipeline[1].requirements.requiredSchemas[0].requirementName: is required
spec.pipeline[1].step: is a duplicate: "render"
`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lines(xrd.ValidateComposition(compositionOf(t, tc.text)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownFunctions(t *testing.T) {
	c := compositionOf(t, `
spec:
  pipeline:
  - {step: a, functionRef: {name: templating}}
  - {step: b, functionRef: {name: templatin}}
  - {step: c, functionRef: {name: ready}}
`)
	want := `spec.pipeline[1].functionRef.name: there is no function templatin; did you mean "templating"?
spec.pipeline[2].functionRef.name: there is no function ready: create the Function ready
`
	if diff := cmp.Diff(want, lines(xrd.UnknownFunctions(c, []string{"templating"}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
