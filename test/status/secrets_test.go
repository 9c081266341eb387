package status

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// allowSecretOutputs adds outputs that may contain data of Secrets to a definition.
func allowSecretOutputs(outputs, definition string) string {
	return strings.Replace(definition, "\nspec:\n", "\nspec:\n  allowSecretOutputs: ["+outputs+"]\n", 1)
}

func TestSecretValuesAreNeverReported(t *testing.T) {
	const password = "Hunter2IsNotAName!"
	encoded := base64.StdEncoding.EncodeToString([]byte(password))
	s := suite.New(t)
	s.Apply(t, allowSecretOutputs("resources.refused.metadata.labels", suite.Graph("Discreet", "", `
    - id: secret
      externalRef: {apiVersion: v1, kind: Secret, metadata: {name: credentials}}
    - id: patterned
      waitFor: {secret: {fields: [{path: data.password, pattern: "^[0-9]+$"}]}}
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: patterned}, data: {a: b}}
    - id: converted
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: converted}, data: {a: "${string(int(string(secret.data.password)))}"}}
    - id: refused
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "refused", labels: {l: "${string(secret.data.password)}"}}, data: {a: b}}
    - id: encoded
      template: {apiVersion: v1, kind: Secret, metadata: {name: encoded}, data: {password: "${string(secret.data.password)}"}}
`)))
	s.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: credentials, namespace: $NS}\ndata: {password: "+encoded+"}\n")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Discreet\nmetadata: {name: x, namespace: $NS}\n")
	o := s.Await(t, s.Kind("Discreet"), s.NS, "x", suite.All(
		suite.HasCondition("ResourcesReady", "False", "", "patterned waits for unresolved secret.data.password", "does not match ^[0-9]+$", "converted waits for a value", "refused: the API server answers Invalid", "metadata.labels",
			"encoded waits for a value (spec.resources[4].template.data.password: the value is not base64")))
	s.AwaitEvent(t, "x", "ResolutionFailed", "the value is not base64")
	if shown := testkit.JSON(o); strings.Contains(shown, password) || strings.Contains(shown, encoded) {
		t.Errorf("the status tells the password: %s", shown)
	}
}

func TestValuesRenderedFromSecretsAreNotReported(t *testing.T) {
	const password = "Hunter2!"
	s := suite.New(t)
	s.Apply(t, allowSecretOutputs("status.number", suite.Graph("Carrier", `status: {number: "${int(string(credentials.data.password))}"}`, `
    - id: credentials
      externalRef: {apiVersion: v1, kind: Secret, metadata: {name: credentials}}
    - id: carrier
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: carrier, annotations: {a: "${string(credentials.data.password)}"}}}
    - id: one
      waitFor: {carrier: {fields: [{path: metadata.annotations.a, pattern: ^never}]}}
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
`)))
	s.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: credentials, namespace: $NS}\nstringData: {password: "+password+"}\n")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Carrier\nmetadata: {name: x, namespace: $NS}\n")
	o := s.Await(t, s.Kind("Carrier"), s.NS, "x", suite.All(
		suite.HasCondition("ResourcesReady", "False", "WaitingForField", "one waits for unresolved carrier.metadata.annotations.a", "does not match ^never"),
		suite.HasCondition("GraphResolved", "False", "ResolutionFailed", "spec.schema.status.number"), suite.HasField("ERROR", "status", "state")))
	if shown := testkit.JSON(o); strings.Contains(shown, password) {
		t.Errorf("the status tells the password: %s", shown)
	}
}

func TestNamesFromSecretsAreNotReported(t *testing.T) {
	const password = "hunter2-is-no-name"
	s := suite.New(t)
	s.Apply(t, allowSecretOutputs("resources.referred.metadata.name, resources.twins.metadata.name, resources.refused.metadata.name, resources.misnamed.metadata.name", suite.Graph("Named", "", `
    - id: credentials
      externalRef: {apiVersion: v1, kind: Secret, metadata: {name: credentials}}
    - id: word
      value: "${string(credentials.data.password)}"
    - id: referred
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${word}"}}
    - id: twins
      forEach: [{one: "${[word, word]}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${one}"}}
    - id: refused
      forEach: [{one: "${[word]}"}]
      template: {apiVersion: v1, kind: Secret, metadata: {name: "${one}", labels: {invalid: "${'a' + ' b'}"}}}
    - id: misnamed
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${word}!"}}
`)))
	s.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: credentials, namespace: $NS}\nstringData: {password: "+password+"}\n")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Named\nmetadata: {name: x, namespace: $NS}\n")
	o := s.Await(t, s.Kind("Named"), s.NS, "x", suite.HasCondition("ResourcesReady", "False", "",
		"referred waits for ConfigMap (not shown", "twins: items 0 and 1 are both ConfigMap (not shown", "refused[#0]: the API server answers Invalid",
		"misnamed waits for metadata.name (it is invalid (not shown"))
	if shown := testkit.JSON(o); strings.Contains(shown, password) {
		t.Errorf("the status tells the password: %s", shown)
	}
	leaks.none(t)
}
