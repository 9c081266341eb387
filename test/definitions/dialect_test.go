package definitions

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// What manifests and suites that others wrote for the dialect rest on.

const worded = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-worded}
spec:
  schema:
    apiVersion: v1alpha1
    kind: PodInfo
    plural: podinfos
    group: $GROUP
    metadata: {nameValidation: maxLength=5}
    spec: {secret: boolean | default=false, twin: string | default=other}
  resources:
    - {id: one, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-one"}}}
    - {id: two, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-${schema.spec.twin}"}}}
    - id: three
      includeWhen: ["${schema.spec.secret}"]
      deletionPolicy: Orphaned
      template: {apiVersion: v1, kind: Secret, metadata: {name: "${schema.metadata.name}-three"}}
`

const wordedInstance = "\napiVersion: $GROUP/v1alpha1\nkind: PodInfo\nmetadata: {name: x, namespace: $NS}\n"

// expectRefused checks that the API server refuses an object, with a reason in its message.
func expectRefused(t *testing.T, s suite.Suite, what, text, why string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TryApply(t, o); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestTheAuthorSetsThePluralAndTheNames(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, worded)
	s.AwaitDefinitions(t, "worded")
	s.Await(t, suite.CRD, "", "podinfos."+s.Group, suite.All(suite.HasField("podinfos", "spec", "names", "plural")))
	expectRefused(t, s, "a name that is too long", s.Expand("\napiVersion: $GROUP/v1alpha1\nkind: PodInfo\nmetadata: {name: far-too-long, namespace: $NS}\n"), "metadata.name")
	s.Apply(t, wordedInstance)
	s.AwaitReady(t, s.Kind("PodInfo"), s.NS, "x")
}

// kindsEqual checks the kinds in the inventory of an instance.
func kindsEqual(want string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		if got := o.GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"]; got != want {
			return errors.New("it has objects of " + got)
		}
		return nil
	}
}

func TestTheInventoryHasOnlyKindsOfIncludedNodes(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, worded)
	s.AwaitDefinitions(t, "worded")
	s.Apply(t, wordedInstance)
	s.Await(t, s.Kind("PodInfo"), s.NS, "x", suite.All(testkit.IsReady, kindsEqual("ConfigMap")))

	t.Log("it names it before there is one, and no longer than there is one")
	s.Apply(t, wordedInstance+"spec: {secret: true}\n")
	s.Await(t, s.Kind("PodInfo"), s.NS, "x", suite.All(testkit.IsReady, kindsEqual("ConfigMap,Secret")))
	secret := s.Get(t, suite.Secret, s.NS, "x-three")
	if got := secret.GetAnnotations()["kro.run/deletion-policy"]; got != "Orphaned" {
		t.Errorf("what is left in place has the message %q", got)
	}
	s.Apply(t, wordedInstance+"spec: {secret: false}\n")
	s.Await(t, s.Kind("PodInfo"), s.NS, "x", suite.All(testkit.IsReady, kindsEqual("ConfigMap")))
	s.Await(t, suite.Secret, s.NS, "x-three", func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("is deleted, and should be left in place")
		}
		if _, marked := o.GetAnnotations()["kro.run/deletion-policy"]; marked {
			return errors.New("is marked still")
		}
		return nil
	})
}

func TestTwoNodesOfOneNameAdoptNoForeignObject(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, worded)
	s.AwaitDefinitions(t, "worded")
	s.Apply(t, "\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x-one, namespace: $NS}\ndata: {of: somebody}\n")
	before := s.Get(t, suite.ConfigMap, s.NS, "x-one")
	s.Apply(t, wordedInstance+"spec: {twin: one}\n")
	s.Await(t, s.Kind("PodInfo"), s.NS, "x", suite.All(suite.HasField("ERROR", "status", "state"), suite.HasCondition("ResourcesReady", "False", "Rejected", "one", "two", "render")))
	s.Delete(t, s.Kind("PodInfo"), s.NS, "x")
	s.AwaitGone(t, s.Kind("PodInfo"), s.NS, "x")
	if after := s.Get(t, suite.ConfigMap, s.NS, "x-one"); after.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("what another client had was written")
	}
}

func TestDeletionPoliciesAreForTemplates(t *testing.T) {
	s := suite.New(t)
	expectRefused(t, s, "a reference that is to be left in place", s.Expand(suite.Graph("Refused", "", `
    - {id: there, deletionPolicy: Orphaned, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: there}}}
`)), "deletionPolicy is only supported on template resources")
}

var revisionOf = schema.GroupVersionKind{Group: "internal.kro.run", Version: "v1alpha1", Kind: "GraphRevision"}

func TestADeletionThatOrphansLeavesRevisions(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, worded)
	s.AwaitDefinitions(t, "worded")
	name := s.Name("worded") + "-r00001"
	first := s.Get(t, revisionOf, "", name)
	s.DeleteWith(t, suite.RGD, "", s.Name("worded"), metav1.DeletePropagationOrphan)
	s.AwaitGone(t, suite.RGD, "", s.Name("worded"))
	s.Await(t, revisionOf, "", name, func(o *unstructured.Unstructured) error {
		switch {
		case o == nil || o.GetDeletionTimestamp() != nil:
			return errors.New("is deleted")
		case len(o.GetOwnerReferences()) > 0:
			return errors.New("is owned by who is gone")
		}
		return nil
	})

	t.Log("the next definition of the name continues with it")
	s.Apply(t, worded)
	s.AwaitDefinitions(t, "worded")
	s.Await(t, suite.RGD, "", s.Name("worded"), suite.All(suite.HasField(int64(1), "status", "lastIssuedRevision")))
	if again := s.Get(t, revisionOf, "", name); again.GetUID() != first.GetUID() || len(again.GetOwnerReferences()) == 0 {
		t.Errorf("it continues with %s of %v; the revision was %s", again.GetUID(), again.GetOwnerReferences(), first.GetUID())
	}
}

func TestAFailedUpdateOfAnItemIsReported(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Fixed", "spec: {value: string}", `
    - id: parts
      forEach: [{slot: "${['a', 'b']}"}]
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${schema.metadata.name}-${slot}"}
        immutable: ${slot == 'a'}
        data: {value: "${schema.spec.value}"}
`))
	s.AwaitDefinitions(t, "fixed")
	instance := "\napiVersion: $GROUP/v1alpha1\nkind: Fixed\nmetadata: {name: x, namespace: $NS}\nspec: {value: VALUE}\n"
	s.Apply(t, strings.Replace(instance, "VALUE", "first", 1))
	s.AwaitReady(t, s.Kind("Fixed"), s.NS, "x")

	t.Log("its sibling is updated, and the item stays as it was")
	s.Apply(t, strings.Replace(instance, "VALUE", "second", 1))
	s.Await(t, s.Kind("Fixed"), s.NS, "x", suite.All(suite.HasField("ERROR", "status", "state"),
		suite.HasCondition("ResourcesReady", "False", "Rejected", "parts[x-a]: item "+s.NS+"/x-a: update rejected: ")))
	s.Await(t, suite.ConfigMap, s.NS, "x-b", suite.All(suite.HasField("second", "data", "value")))
	s.Await(t, suite.ConfigMap, s.NS, "x-a", suite.All(suite.HasField("first", "data", "value")))
	s.Apply(t, strings.Replace(instance, "VALUE", "first", 1))
	s.AwaitReady(t, s.Kind("Fixed"), s.NS, "x")
}

const longNames = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-long}
spec:
  schema: {apiVersion: v1alpha1, kind: LongNamed, group: $GROUP, spec: {text: string}}
  resources:
    - id: settingsWithMoreThanTheSixtyThreeCharactersThatFitIntoTheValueOfALabel
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: long}, data: {text: "${schema.spec.text}"}}
    - id: after
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: after}, data:
        {text: "${settingsWithMoreThanTheSixtyThreeCharactersThatFitIntoTheValueOfALabel.data.text}"}}
`

func TestSelectorsOfKroFindObjectsWithLongNames(t *testing.T) {
	const node = "settingsWithMoreThanTheSixtyThreeCharactersThatFitIntoTheValueOfALabel"
	name := strings.Repeat("a-long-name-", 10) + "end"
	instance := func(text string) string {
		return "\napiVersion: $GROUP/v1alpha1\nkind: LongNamed\nmetadata: {name: " + name + ", namespace: $NS}\nspec: {text: " + text + "}\n"
	}
	hashed := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "h-" + hex.EncodeToString(sum[:])[:40]
	}
	s := suite.New(t)
	s.Apply(t, longNames)
	s.AwaitDefinitions(t, "long")
	for _, text := range []string{"one", "two"} {
		s.Apply(t, instance(text))
		s.Await(t, suite.ConfigMap, s.NS, "after", suite.HasField(text, "data", "text"))
		s.Await(t, suite.ConfigMap, s.NS, "long", suite.All(
			suite.HasField(text, "data", "text"),
			suite.HasField(hashed(node), "metadata", "labels", "kro.run/node-id"),
			suite.HasField(node, "metadata", "annotations", "internal.kro.run/node-path"),
			suite.HasField(hashed(name), "metadata", "labels", "kro.run/instance-name"),
			suite.HasField(name, "metadata", "annotations", "internal.kro.run/instance-name")))
	}
	s.Delete(t, s.Kind("LongNamed"), s.NS, name)
	s.AwaitGone(t, s.Kind("LongNamed"), s.NS, name)
	s.AwaitGone(t, suite.ConfigMap, s.NS, "long")
}
