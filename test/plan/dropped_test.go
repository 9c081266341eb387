package plan

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAPlanOfADroppedField allows a breaking change that has been refused: the instances lose a field, and the kind only that.
func TestAPlanOfADroppedField(t *testing.T) {
	s := suite.NewSerial(t)
	file := func(replacements ...string) string {
		return strings.NewReplacer(replacements...).Replace(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-notes}
spec:
  schema: {apiVersion: v1alpha1, group: $GROUP, kind: Note, spec: {text: string, color: string}}
  resources:
  - {id: note, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {text: "${schema.spec.text}"}}}
`)
	}
	const instance = `---
apiVersion: $GROUP/v1alpha1
kind: Note
metadata: {namespace: $NS, name: note}
spec: {text: a, color: red}
`
	applyText(t, s, file()+instance)
	awaitData(t, s, "note", "text", "a")
	broken := file(", color: string", "")
	if _, err := s.TryApply(t, testkit.Parse(t, s.Expand(broken))[0]); err != nil {
		t.Fatal(err)
	}
	s.AwaitControllers(t)
	p := want(t, s, strings.Replace(broken, "metadata: {name: $ID-notes}", `metadata: {name: $ID-notes, annotations: {kro.run/allow-breaking-changes: "true"}}`, 1),
		`Change ResourceGraphDefinition ID-notes; metadata.annotations: set to {"kro.run/allow-breaking-changes":"true"}`,
		`Change Note NS/note; spec.color: "red" removed`,
	)
	for _, o := range p.Objects {
		for _, f := range o.Fields {
			if o.Kind == "CustomResourceDefinition" && strings.HasPrefix(f.Path, "spec.") && !strings.HasSuffix(f.Path, "properties.spec.properties.color") {
				t.Errorf("the kind changes: %s", f)
			}
		}
	}
}
