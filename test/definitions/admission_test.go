package definitions

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestTheAPIServerRefusesWhatNoDefinitionCanSay applies definitions that only admission can refuse, or refuses first.
func TestTheAPIServerRefusesWhatNoDefinitionCanSay(t *testing.T) {
	s := suite.New(t)
	apply := func(change, resource string) error {
		t.Helper()
		schema := map[string]string{"apiVersion": "v1alpha1", "kind": "Admitted", "group": "$GROUP"}
		if field, value, changes := strings.Cut(change, ": "); changes {
			schema[field] = value
		}
		raw, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.TryApply(t, testkit.Parse(t, s.Expand(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-admitted}
spec:
  schema: `+string(raw)+`
  resources: [{id: one`+resource+`}]
`))[0])
		return err
	}
	const template = ", template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}"
	reference := func(metadata string) string {
		return ", externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {" + metadata + "}}"
	}
	for resource, want := range map[string]string{
		"":                              "spec.resources[0]",
		template + reference("name: x"): "exactly one of template, externalRef or value",
		template + ", value: 1":         "spec.resources[0]",
		reference("namespace: x"):       "spec.resources[0].externalRef.metadata",
		reference("name: x, selector: {matchLabels: {a: b}}"): "spec.resources[0].externalRef.metadata",
		reference(`name: x, selector: "${schema.spec}"`):      "spec.resources[0].externalRef.metadata",
	} {
		if err := apply("", resource); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", resource, err, want)
		}
	}
	for _, resource := range []string{reference("selector: {}"), reference("name: x"), ", value: 1", template} {
		if err := apply("", resource); err != nil {
			t.Errorf("%q: %v", resource, err)
		}
	}
	for change, want := range map[string]string{
		"apiVersion: v1beta1": "apiVersion may only change",
		"kind: Other":         "kind is immutable",
		"group: other.dev":    "group is immutable",
		"scope: Cluster":      "scope is immutable",
		"plural: others":      "plural is immutable",
	} {
		if err := apply(change, template); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", change, err, want)
		}
	}
}
