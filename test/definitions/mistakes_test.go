package definitions

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAnInvalidDefinitionRevertsNothingOfARollout makes the definition invalid while a wave is
// rolled out.
func TestAnInvalidDefinitionRevertsNothingOfARollout(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxDefinition("one", rollout))
	s.AwaitDefinitions(t, "box")
	applyBoxes(s, t, `fit: one`, "a", "b", "f")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: f, namespace: $NS, labels: {volunteer: \"yes\"}}\nspec: {fit: one}\n")
	expectEditions(s, t, map[string]string{"a": "one", "b": "one", "f": "one"})
	s.Apply(t, boxDefinition("two", rollout))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.HasField("Stopped", "status", "rollout", "phase"))
	reached := map[string]string{"a": "one", "b": "one", "f": "two"}
	expectEditions(s, t, reached)

	t.Log("waves that make no sense")
	s.Apply(t, boxDefinition("two", strings.Replace(rollout, "{percent: 50}", "{percent: 50}, {percent: 40}", 1)))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.HasCondition("GraphRevisionsResolved", "False", "InvalidRollout", "spec.rollout.waves[2].percent"))
	applyBoxes(s, t, `fit: still one`, "b") // an instance that is reconciled again
	s.Await(t, suite.ConfigMap, s.NS, "b-content", suite.HasField("still one", "data", "fit"))
	expectEditions(s, t, reached)

	t.Log("a spec that cannot be read asks for nothing")
	s.Apply(t, strings.Replace(boxDefinition("three", ""), "- id: content\n", "- id: content\n      waitFor: {x: {fields: [5]}}\n      includeWhen: [ready]\n", 1))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph",
		"spec.resources[0].waitFor.x.fields[0]: 5 is not allowed here", "spec.resources[0].includeWhen[0]: "))
	applyBoxes(s, t, `fit: one`, "b")
	s.Await(t, suite.ConfigMap, s.NS, "b-content", suite.HasField("one", "data", "fit"))
	expectEditions(s, t, reached)
	for _, name := range []string{"box-r00001", "box-r00002"} {
		if s.Get(t, revisionKind, "", s.Name(name)) == nil {
			t.Errorf("revision %s is gone", name)
		}
	}

	t.Log("and it continues when they are mended")
	s.Apply(t, boxDefinition("two", rollout))
	applyBoxes(s, t, `fit: for all`, "a", "b", "f")
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(2), suite.HasField("Complete", "status", "rollout", "phase")))
	expectEditions(s, t, map[string]string{"a": "two", "b": "two", "f": "two"})
}

// TestASuspendedInstanceStopsNoRollout suspends the one that the first wave is for.
func TestASuspendedInstanceStopsNoRollout(t *testing.T) {
	s := suite.New(t)
	const waves = `rollout: {waves: [{selector: {matchLabels: {volunteer: "yes"}}}]}`
	s.Apply(t, boxDefinition("one", waves))
	s.AwaitDefinitions(t, "box")
	applyBoxes(s, t, ``, "a", "f")
	expectEditions(s, t, map[string]string{"a": "one", "f": "one"})
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: f, namespace: $NS, labels: {volunteer: \"yes\"}, annotations: {kro.run/reconcile: suspended}}\n")
	s.Await(t, s.Kind("Box"), s.NS, "f", suite.HasField("SUSPENDED", "status", "state"))
	s.Apply(t, boxDefinition("two", waves))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(2), suite.HasField("Complete", "status", "rollout", "phase")))
	expectEditions(s, t, map[string]string{"a": "two", "f": "one"})

	t.Log("it follows when it is looked after again")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: f, namespace: $NS, labels: {volunteer: \"yes\"}}\n")
	expectEditions(s, t, map[string]string{"f": "two"})
}

// TestAPinnedRevisionServesDespiteAnInvalidSpec pins a definition to its first revision, and then
// makes the spec invalid.
func TestAPinnedRevisionServesDespiteAnInvalidSpec(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxDefinition("one", ""))
	s.AwaitDefinitions(t, "box")
	applyBoxes(s, t, ``, "a")
	s.Apply(t, boxDefinition("two", "revision: 1"))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(1), suite.HasCondition("GraphRevisionsResolved", "True", "Pinned")))
	s.Apply(t, strings.Replace(boxDefinition("three", ""), "- id: content\n", "- id: content\n      waitFor: {x: {fields: [5]}}\n", 1))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(servesRevision(1), suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph", "is not allowed here")))
	applyBoxes(s, t, `fit: other`, "a")
	s.Await(t, suite.ConfigMap, s.NS, "a-content", suite.HasField("other", "data", "fit"))
	expectEditions(s, t, map[string]string{"a": "one"})
}

// TestAMisspelledKindIsRefused misspells a built-in kind, which can never appear, and a kind that
// a CustomResourceDefinition may still define.
func TestAMisspelledKindIsRefused(t *testing.T) {
	s := suite.New(t)
	text := func(kind, other string) string {
		return `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-typo}
spec:
  schema: {apiVersion: v1alpha1, kind: Typo, group: $GROUP}
  resources:
    - id: settings
      template: {apiVersion: v1, kind: ` + kind + `, metadata: {name: settings}}
    - id: job
      externalRef: {apiVersion: ` + other + `, metadata: {name: nobody}}
`
	}
	s.Apply(t, text("ConfgMap", "batch/v1, kind: CronJbo"))
	s.Await(t, suite.RGD, "", s.Name("typo"), suite.All(suite.HasField("Inactive", "status", "state"), suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph",
		`spec.resources[0].template.kind: no matches for kind "ConfgMap" in version "v1"; did you mean "ConfigMap"?`,
		`spec.resources[1].externalRef.kind: no matches for kind "CronJbo" in version "batch/v1"; did you mean "CronJob"?`)))

	t.Log("a version of a group that CustomResourceDefinitions serve may get kinds at any time")
	s.Apply(t, text("ConfigMap", "kro.run/v1alpha1, kind: ResourceGraphDefinitoin"))
	s.Await(t, suite.RGD, "", s.Name("typo"), suite.All(testkit.IsReady, suite.HasCondition("GraphAccepted", "True", "Valid", "ResourceGraphDefinitoin.v1alpha1.kro.run")))
}
