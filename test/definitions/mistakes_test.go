package definitions

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestAMistakeTakesBackNothingOfARollout makes mistakes while a wave has been reached.
func TestAMistakeTakesBackNothingOfARollout(t *testing.T) {
	s := begin(t)
	s.Put(t, edition("one", rollout))
	s.Active(t, "box")
	boxes(s, t, `fit: one`, "a", "b", "f")
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: f, namespace: $NS, labels: {volunteer: \"yes\"}}\nspec: {fit: one}\n")
	are(s, t, map[string]string{"a": "one", "b": "one", "f": "one"})
	s.Put(t, edition("two", rollout))
	s.Await(t, rgd, "", s.Name("box"), field("Stopped", "status", "rollout", "phase"))
	reached := map[string]string{"a": "one", "b": "one", "f": "two"}
	are(s, t, reached)

	t.Log("waves that make no sense")
	s.Put(t, edition("two", strings.Replace(rollout, "{percent: 50}", "{percent: 50}, {percent: 40}", 1)))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("GraphRevisionsResolved", "False", "InvalidRollout", "spec.rollout.waves[2].percent"))
	boxes(s, t, `fit: still one`, "b") // somebody whom the controller looks at again
	s.Await(t, configMap, s.NS, "b-content", field("still one", "data", "fit"))
	are(s, t, reached)

	t.Log("a spec that can't be read asks for nothing")
	s.Put(t, strings.Replace(edition("three", ""), "- id: content\n", "- id: content\n      waitFor: {x: {fields: [5]}}\n      includeWhen: [ready]\n", 1))
	s.Await(t, rgd, "", s.Name("box"), conditionIs("GraphAccepted", "False", "InvalidResourceGraph",
		"spec.resources[0].waitFor.x.fields[0]: 5 can't be read", "spec.resources[0].includeWhen[0]: "))
	boxes(s, t, `fit: one`, "b")
	s.Await(t, configMap, s.NS, "b-content", field("one", "data", "fit"))
	are(s, t, reached)
	for _, name := range []string{"box-r00001", "box-r00002"} {
		if s.Get(t, revisionKind, "", s.Name(name)) == nil {
			t.Errorf("revision %s is gone", name)
		}
	}

	t.Log("and it goes on when they are mended")
	s.Put(t, edition("two", rollout))
	boxes(s, t, `fit: for all`, "a", "b", "f")
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(2), field("Complete", "status", "rollout", "phase")))
	are(s, t, map[string]string{"a": "two", "b": "two", "f": "two"})
}

// TestASuspendedInstanceStopsNoRollout suspends the one that the first wave is for.
func TestASuspendedInstanceStopsNoRollout(t *testing.T) {
	s := begin(t)
	const waves = `rollout: {waves: [{selector: {matchLabels: {volunteer: "yes"}}}]}`
	s.Put(t, edition("one", waves))
	s.Active(t, "box")
	boxes(s, t, ``, "a", "f")
	are(s, t, map[string]string{"a": "one", "f": "one"})
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: f, namespace: $NS, labels: {volunteer: \"yes\"}, annotations: {kro.run/reconcile: suspended}}\n")
	s.Await(t, s.Kind("Box"), s.NS, "f", field("SUSPENDED", "status", "state"))
	s.Put(t, edition("two", waves))
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(2), field("Complete", "status", "rollout", "phase")))
	are(s, t, map[string]string{"a": "two", "f": "one"})

	t.Log("it follows when it is looked after again")
	s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: f, namespace: $NS, labels: {volunteer: \"yes\"}}\n")
	are(s, t, map[string]string{"f": "two"})
}

// TestAPinOutlivesASpecThatCantBeRead pins a definition to its first revision, by its spec.
func TestAPinOutlivesASpecThatCantBeRead(t *testing.T) {
	s := begin(t)
	s.Put(t, edition("one", ""))
	s.Active(t, "box")
	boxes(s, t, ``, "a")
	s.Put(t, edition("two", "revision: 1"))
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(1), conditionIs("GraphRevisionsResolved", "True", "Pinned")))
	s.Put(t, strings.Replace(edition("three", ""), "- id: content\n", "- id: content\n      waitFor: {x: {fields: [5]}}\n", 1))
	s.Await(t, rgd, "", s.Name("box"), all(serves(1), conditionIs("GraphAccepted", "False", "InvalidResourceGraph", "can't be read")))
	boxes(s, t, `fit: other`, "a")
	s.Await(t, configMap, s.NS, "a-content", field("other", "data", "fit"))
	are(s, t, map[string]string{"a": "one"})
}

// TestAKindThatCannotComeIsRefused misspells a kind that the API server is built with, and
// one that a CustomResourceDefinition might still define.
func TestAKindThatCannotComeIsRefused(t *testing.T) {
	s := begin(t)
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
	s.Put(t, text("ConfgMap", "batch/v1, kind: CronJbo"))
	s.Await(t, rgd, "", s.Name("typo"), all(field("Inactive", "status", "state"), conditionIs("GraphAccepted", "False", "InvalidResourceGraph",
		`spec.resources[0].template.kind: the API server has no kind "ConfgMap" in v1; did you mean "ConfigMap"?`,
		`spec.resources[1].externalRef.kind: the API server has no kind "CronJbo" in batch/v1; did you mean "CronJob"?`)))

	t.Log("a version of a group that CustomResourceDefinitions serve may get kinds at any time")
	s.Put(t, text("ConfigMap", "kro.run/v1alpha1, kind: ResourceGraphDefinitoin"))
	s.Await(t, rgd, "", s.Name("typo"), all(testkit.IsReady, conditionIs("GraphAccepted", "True", "Valid", "ResourceGraphDefinitoin.v1alpha1.kro.run")))
}
