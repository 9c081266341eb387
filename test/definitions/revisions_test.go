package definitions

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/graph/definition"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var revisionKind = definition.RevisionKind

// boxDefinition is a definition of boxes with a word that names its edition; a box is ready when
// its spec says so.
func boxDefinition(word, more string) string {
	return fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-box}
spec:
  %s
  schema: {apiVersion: v1alpha1, kind: Box, group: $GROUP, spec: {fit: 'string | default="for all"'}, status: {edition: "${content.data.edition}"}}
  resources:
    - id: content
      readyWhen: ["${content.data.fit == 'for all' || content.data.fit == content.data.edition}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-content"}, data: {edition: %s, fit: "${schema.spec.fit}"}}
`, more, word)
}

func applyBoxes(s suite.Suite, t *testing.T, spec string, names ...string) {
	t.Helper()
	for _, name := range names {
		s.Apply(t, fmt.Sprintf("apiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: %s, namespace: $NS}\nspec: {%s}\n", name, spec))
	}
}

// expectEditions checks of which edition each box is.
func expectEditions(s suite.Suite, t *testing.T, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		s.Await(t, s.Kind("Box"), s.NS, name, suite.All(suite.IsPresent, suite.HasField(want[name], "status", "edition")))
	}
}

func annotate(s suite.Suite, t *testing.T, o *unstructured.Unstructured, annotations string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{` + annotations + `}}}`
	s.Patch(t, o.GroupVersionKind(), o.GetNamespace(), o.GetName(), patch)
}

func servesRevision(n int64) suite.Check { return suite.HasField(n, "status", "servingRevision") }

func TestEachContentIsARevision(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxDefinition("one", ""))
	s.AwaitDefinitions(t, "box")
	first := s.AwaitReady(t, revisionKind, "", s.Name("box-r00001"))
	d := s.Await(t, suite.RGD, "", s.Name("box"), suite.All(suite.HasField(int64(1), "status", "lastIssuedRevision"), servesRevision(1),
		suite.HasCondition("GraphRevisionsResolved", "True", "Resolved", "revision 1 compiled and active")))
	if err := suite.All(
		suite.HasField("true", "metadata", "labels", "kro.run/owned"),
		suite.HasField(s.Name("box"), "metadata", "labels", "kro.run/resource-graph-definition-name"),
		suite.HasField(s.Name("box"), "spec", "snapshot", "name"), suite.HasField(int64(1), "spec", "snapshot", "generation"),
		suite.HasCondition("GraphVerified", "True", "Verified"),
	)(first); err != nil {
		t.Error(err)
	}
	if owner := metav1.GetControllerOf(first); owner == nil || owner.UID != d.GetUID() || !slices.Equal(first.GetFinalizers(), []string{"kro.run/finalizer"}) {
		t.Errorf("it is controlled by %v, with %v", owner, first.GetFinalizers())
	}

	t.Log("it cannot be changed")
	_, err := s.Resource(t, revisionKind, "").Patch(t.Context(), first.GetName(), types.MergePatchType, []byte(`{"spec":{"snapshot":{"generation":7}}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec is immutable") {
		t.Errorf("the server says %v", err)
	}

	t.Log("what says how revisions are used makes none, another content does, and so does a former one")
	s.Apply(t, boxDefinition("one", "revisionHistoryLimit: 2"))
	s.Apply(t, boxDefinition("two", "revisionHistoryLimit: 2"))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(2), suite.HasField(int64(2), "status", "lastIssuedRevision")))
	s.Apply(t, boxDefinition("one", "revisionHistoryLimit: 2"))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(3), suite.HasField(int64(3), "status", "lastIssuedRevision")))
	s.AwaitEventOn(t, d, "RevisionIssued", "revision 3", "box-r00003")

	t.Log("as many are kept as it says, and none outlives the definition")
	s.AwaitGone(t, revisionKind, "", s.Name("box-r00001"))
	s.AwaitReady(t, revisionKind, "", s.Name("box-r00002"))

	t.Log("a serving revision that another client deletes is recreated with another number")
	s.Delete(t, revisionKind, "", s.Name("box-r00003"))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(4)))
	s.AwaitGone(t, revisionKind, "", s.Name("box-r00003"))

	s.Delete(t, suite.RGD, "", s.Name("box"))
	s.AwaitGone(t, suite.RGD, "", s.Name("box"))
	s.AwaitGone(t, revisionKind, "", s.Name("box-r00002"))
	s.AwaitGone(t, revisionKind, "", s.Name("box-r00004"))
}

func TestRevisionsOfAResourceGroupAreItsOwn(t *testing.T) {
	s := suite.New(t)
	s.Account(t, rbac.DefaultServiceAccount)
	group := strings.Replace(strings.Replace(boxDefinition("one", ""), "ResourceGraphDefinition", "ResourceGroup", 1), "metadata: {name: $ID-box}", "metadata: {name: $ID-box, namespace: $NS}", 1)
	s.Apply(t, group)
	s.Apply(t, strings.ReplaceAll(boxDefinition("two", ""), "kind: Box", "kind: Bin"))
	s.AwaitReady(t, suite.RG, s.NS, s.Name("box"))
	s.AwaitDefinitions(t, "box")
	theirs := s.NS + "." + s.Name("box") + "-g00001"
	if err := suite.All(suite.HasField(s.NS, "spec", "snapshot", "namespace"), suite.HasField(s.NS, "metadata", "labels", "kro.run/resource-graph-definition-namespace"))(
		s.AwaitReady(t, revisionKind, "", theirs)); err != nil {
		t.Error(err)
	}
	s.AwaitReady(t, revisionKind, "", s.Name("box-r00001"))
	s.Delete(t, suite.RG, s.NS, s.Name("box"))
	s.AwaitGone(t, suite.RG, s.NS, s.Name("box"))
	s.AwaitGone(t, revisionKind, "", theirs)
	s.AwaitReady(t, revisionKind, "", s.Name("box-r00001"))
}

func TestNoRevisionContainsSecretValuesOfAResourceGroup(t *testing.T) {
	s := suite.New(t)
	s.Account(t, rbac.DefaultServiceAccount)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: $ID-box, namespace: $NS}
spec:
  schema: {apiVersion: v1alpha1, kind: Box, group: $GROUP}
  resources:
    - id: secret
      template: {apiVersion: v1, kind: Secret, metadata: {name: "${schema.metadata.name}"}, stringData: {password: hunter2}}
`)
	s.Await(t, suite.RG, s.NS, s.Name("box"), suite.All(testkit.IsReady, suite.HasCondition("GraphRevisionsResolved", "True", "NotKept", "literal values of a Secret")))
	applyBoxes(s, t, "", "a")
	s.AwaitReady(t, s.Kind("Box"), s.NS, "a")
	if s.Get(t, revisionKind, "", s.NS+"."+s.Name("box")+"-g00001") != nil {
		t.Error("its values are in a revision")
	}
}

func TestADefinitionCanPinARevision(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxDefinition("one", ""))
	s.AwaitDefinitions(t, "box")
	applyBoxes(s, t, "", "a")
	expectEditions(s, t, map[string]string{"a": "one"})
	s.Apply(t, boxDefinition("two", ""))
	expectEditions(s, t, map[string]string{"a": "two"})

	t.Log("it is pinned, and another content is kept and does not serve")
	s.Apply(t, boxDefinition("two", "revision: 1"))
	expectEditions(s, t, map[string]string{"a": "one"})
	s.Apply(t, boxDefinition("three", "revision: 1"))
	d := s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(1), suite.HasField(int64(3), "status", "lastIssuedRevision"),
		suite.HasCondition("GraphRevisionsResolved", "True", "Pinned", "requested by spec.revision", "newest is 3")))
	expectEditions(s, t, map[string]string{"a": "one"})

	t.Log("a revision that does not exist changes nothing")
	s.Apply(t, boxDefinition("three", "revision: 9"))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(servesRevision(1), suite.HasField("Active", "status", "state"),
		suite.HasCondition("Ready", "False", "RevisionMissing", "revision 9, which spec.revision requests, does not exist; existing revisions: 1, 2 and 3; revision 1 continues to serve")))
	expectEditions(s, t, map[string]string{"a": "one"})

	t.Log("a rollback takes precedence over the spec, until there is a newer revision")
	at := testkit.Kubeconfig(t, s.Config)
	var out, errs bytes.Buffer
	if code := cli.Main(t.Context(), []string{"rollback", s.Name("box"), "--kubeconfig", at, "--to", "7"}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "there is no revision 7; there are 1, 2 and 3") {
		t.Errorf("exit code %d, %s%s", code, out.String(), errs.String())
	}
	if code := cli.Main(t.Context(), []string{"rollback", s.Name("box"), "--kubeconfig", at, "--to", "2"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "rolls back from revision 1 to 2, until there is a revision after 3") {
		t.Errorf("exit code %d, %s%s", code, out.String(), errs.String())
	}
	expectEditions(s, t, map[string]string{"a": "two"})
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, suite.HasCondition("GraphRevisionsResolved", "True", "RolledBack", "espalier.dev/rollback-to")))
	s.AwaitEventOn(t, d, "RevisionServed", "revision 2 (RolledBack), no longer by 1")
	s.Apply(t, boxDefinition("four", ""))
	expectEditions(s, t, map[string]string{"a": "four"})
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(4), suite.HasCondition("GraphRevisionsResolved", "True", "Resolved")))

	t.Log("an invalid annotation changes nothing")
	annotate(s, t, d, `"espalier.dev/rollback-to":"the last"`)
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(servesRevision(4), suite.HasCondition("Ready", "False", "RevisionMissing", "espalier.dev/rollback-to", "not \"the last\"")))
}

// pinnable lets instances pin a revision, of which one is kept.
const pinnable = "revisionHistoryLimit: 1\n  instanceOverrides: {revision: Allow}"

func TestAnInstanceCanPinARevision(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxDefinition("one", pinnable))
	s.AwaitDefinitions(t, "box")
	applyBoxes(s, t, "", "a", "b")
	expectEditions(s, t, map[string]string{"a": "one", "b": "one"})
	a := s.Get(t, s.Kind("Box"), s.NS, "a")
	annotate(s, t, a, `"espalier.dev/revision":"1"`)
	s.Apply(t, boxDefinition("two", pinnable))
	expectEditions(s, t, map[string]string{"a": "one", "b": "two"})
	s.Apply(t, boxDefinition("three", pinnable))
	expectEditions(s, t, map[string]string{"a": "one", "b": "three"})
	s.AwaitGone(t, revisionKind, "", s.Name("box-r00002"))
	if s.Get(t, revisionKind, "", s.Name("box-r00001")) == nil {
		t.Error("the revision that an instance asks for is gone")
	}

	t.Log("a revision that does not exist leaves it unchanged")
	annotate(s, t, a, `"espalier.dev/revision":"2"`)
	s.Await(t, s.Kind("Box"), s.NS, "a", suite.All(suite.HasField("one", "status", "edition"), suite.HasField("ERROR", "status", "state"),
		suite.HasCondition("Ready", "False", "RevisionMissing", "revision 2 does not exist; existing revisions:", "the instance is not changed until then")))
	annotate(s, t, a, `"espalier.dev/revision":"latest"`)
	s.Await(t, s.Kind("Box"), s.NS, "a", suite.All(suite.HasField("one", "status", "edition"), suite.HasCondition("Ready", "False", "RevisionMissing", `not "latest"`)))
	if s.Get(t, suite.ConfigMap, s.NS, "a-content") == nil {
		t.Error("its object is gone")
	}

	t.Log("and it follows the definition when it asks for none")
	annotate(s, t, a, `"espalier.dev/revision":null`)
	s.Await(t, s.Kind("Box"), s.NS, "a", suite.All(testkit.IsReady, suite.HasField("three", "status", "edition")))
}

// rollout is one of two waves: those that volunteer, and then half of all.
const rollout = `rollout: {progressDeadline: 3s, waves: [{selector: {matchLabels: {volunteer: "yes"}}}, {percent: 50}]}
  instanceOverrides: {revision: Allow}`

func TestARevisionIsRolledOutInWaves(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxDefinition("one", rollout))
	s.AwaitDefinitions(t, "box")
	names := []string{"a", "b", "c", "d", "e", "f"}
	applyBoxes(s, t, `fit: one`, names...)
	for _, name := range names {
		s.AwaitReady(t, s.Kind("Box"), s.NS, name)
	}
	label := `{"metadata":{"labels":{"volunteer":"yes"}}}`
	s.Patch(t, s.Kind("Box"), s.NS, "f", label)
	pinned := s.Get(t, s.Kind("Box"), s.NS, "e")
	annotate(s, t, pinned, `"espalier.dev/revision":"1"`)

	t.Log("the first wave is not ready: the rollout stops there, and reports the instance")
	s.Apply(t, boxDefinition("two", rollout))
	d := s.Await(t, suite.RGD, "", s.Name("box"), suite.All(suite.HasCondition("GraphRevisionsResolved", "False", "RolloutStopped", "wave 1 of 3", s.NS+"/f"), suite.HasCondition("Ready", "False", "RolloutStopped"),
		suite.HasField("Active", "status", "state"), servesRevision(1), suite.HasField("Stopped", "status", "rollout", "phase"), suite.HasField(int64(2), "status", "rollout", "revision"),
		suite.HasField(int64(5), "status", "rollout", "total"), suite.HasField(int64(1), "status", "rollout", "updated"), suite.HasField(int64(0), "status", "rollout", "ready"), suite.HasField(int64(1), "status", "rollout", "pinned")))
	if list, _, _ := unstructured.NestedSlice(d.Object, "status", "rollout", "unready"); len(list) != 1 {
		t.Errorf("unready are %v", list)
	}
	expectEditions(s, t, map[string]string{"f": "two", "a": "one", "b": "one", "c": "one", "d": "one", "e": "one"})
	s.AwaitEventOn(t, d, "RolloutStopped", s.NS+"/f (")

	t.Log("it continues by itself: as many as it says, in the next wave")
	applyBoxes(s, t, `fit: two`, "f")
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(suite.HasField(int64(2), "status", "rollout", "wave"), suite.HasField("Stopped", "status", "rollout", "phase"), isUpdated))
	editions := map[string]int{}
	for _, name := range names {
		word, _, _ := unstructured.NestedString(s.Get(t, s.Kind("Box"), s.NS, name).Object, "status", "edition")
		editions[word]++
	}
	if two := editions["two"]; two < 3 || two > 4 {
		t.Errorf("of five who follow, half are reached beside the volunteer: %v", editions)
	}

	t.Log("and to the end")
	applyBoxes(s, t, `fit: for all`, names...)
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(2), suite.HasField("Complete", "status", "rollout", "phase"), suite.HasField(int64(5), "status", "rollout", "ready")))
	expectEditions(s, t, map[string]string{"a": "two", "b": "two", "c": "two", "d": "two", "e": "one", "f": "two"})
	for _, reason := range []string{"RolloutStarted", "RolloutWave", "RolloutResumed", "RolloutComplete"} {
		s.AwaitEventOn(t, d, reason, "revision 2")
	}
}

// isUpdated checks that each instance which a rollout has reached is composed by its revision.
func isUpdated(d *unstructured.Unstructured) error {
	unready, _, _ := unstructured.NestedSlice(d.Object, "status", "rollout", "unready")
	for _, one := range unready {
		if one.(map[string]any)["reason"] == "Updating" {
			return fmt.Errorf("is not updated: %v", one)
		}
	}
	return nil
}

// TestAWaveReachesInstancesThatWereLabelledBeforeItBegan changes a definition right after a label, which the controllers'
// watch of instances has not delivered yet: the wave of that label is not an empty one.
func TestAWaveReachesInstancesThatWereLabelledBeforeItBegan(t *testing.T) {
	s := suite.New(t)
	waves := `rollout: {waves: [{selector: {matchLabels: {volunteer: "yes"}}}, {percent: 50}]}`
	s.Apply(t, boxDefinition("one", waves))
	s.AwaitDefinitions(t, "box")
	names := []string{"a", "b", "c", "d"}
	applyBoxes(s, t, `fit: one`, names...)
	for _, name := range names {
		s.AwaitReady(t, s.Kind("Box"), s.NS, name)
	}
	release := watches.hold(s.Group)
	defer release()
	s.Patch(t, s.Kind("Box"), s.NS, "d", `{"metadata":{"labels":{"volunteer":"yes"}}}`)
	s.Apply(t, boxDefinition("two", waves))
	d := s.Await(t, suite.RGD, "", s.Name("box"), suite.HasField(int64(1), "status", "rollout", "updated"))
	if err := suite.All(suite.HasField(int64(1), "status", "rollout", "wave"), suite.HasCondition("GraphRevisionsResolved", "Unknown", "RollingOut", "wave 1 of 3"))(d); err != nil {
		t.Error(err)
	}
	release()
	expectEditions(s, t, map[string]string{"a": "one", "b": "one", "c": "one", "d": "two"})
}

// TestAChangeOfTheWavesUpdatesNoInstance puts a percentage in the place of the volunteers,
// while these are all that a rollout has reached.
func TestAChangeOfTheWavesUpdatesNoInstance(t *testing.T) {
	s := suite.New(t)
	volunteers := `rollout: {waves: [{selector: {matchLabels: {volunteer: "yes"}}, pause: 1h}]}`
	s.Apply(t, boxDefinition("one", volunteers))
	s.AwaitDefinitions(t, "box")
	names := []string{"a", "b", "c", "d"}
	applyBoxes(s, t, `fit: for all`, names...)
	label := `{"metadata":{"labels":{"volunteer":"yes"}}}`
	s.Patch(t, s.Kind("Box"), s.NS, "d", label)
	for _, name := range names {
		s.AwaitReady(t, s.Kind("Box"), s.NS, name)
	}
	s.Apply(t, boxDefinition("two", volunteers))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(suite.HasField("Pausing", "status", "rollout", "phase"), suite.HasField(int64(1), "status", "rollout", "updated")))

	s.Apply(t, boxDefinition("two", `rollout: {waves: [{percent: 1, pause: 1h}]}`))
	d := s.Await(t, suite.RGD, "", s.Name("box"), suite.All(suite.HasField("Pausing", "status", "rollout", "phase"), func(o *unstructured.Unstructured) error {
		if begun, _, _ := unstructured.NestedSlice(o.Object, "status", "rollout", "begun"); len(begun) != 2 {
			return fmt.Errorf("%d waves have begun, and not the former one and one percent", len(begun))
		}
		return nil
	}))
	if n, _, _ := unstructured.NestedInt64(d.Object, "status", "rollout", "updated"); n > 2 {
		t.Errorf("%d of 4 have it: one percent is one beside the volunteer", n)
	}
	s.AwaitEventOn(t, d, "RolloutChanged", "start again")
	expectEditions(s, t, map[string]string{"d": "two"})
}

// TestARecreatedDefinitionContinuesItsRollout deletes a definition in the middle of a
// rollout, and leaves its instances behind.
func TestARecreatedDefinitionContinuesItsRollout(t *testing.T) {
	s := suite.New(t)
	volunteers := `rollout: {waves: [{selector: {matchLabels: {volunteer: "yes"}}, pause: 1h}]}`
	s.Apply(t, boxDefinition("one", volunteers))
	s.AwaitDefinitions(t, "box")
	applyBoxes(s, t, `fit: for all`, "a", "b")
	label := `{"metadata":{"labels":{"volunteer":"yes"}}}`
	s.Patch(t, s.Kind("Box"), s.NS, "a", label)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "a")
	s.AwaitReady(t, s.Kind("Box"), s.NS, "b")
	s.Apply(t, boxDefinition("two", volunteers))
	paused := suite.All(suite.HasField("Pausing", "status", "rollout", "phase"), suite.HasField(int64(1), "status", "rollout", "updated"), servesRevision(1))
	d := s.Await(t, suite.RGD, "", s.Name("box"), paused)
	annotate(s, t, d, `"kro.run/allow-orphans":"true"`)
	s.Delete(t, suite.RGD, "", s.Name("box"))
	s.AwaitGone(t, suite.RGD, "", s.Name("box"))

	s.Apply(t, boxDefinition("two", volunteers))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(paused, suite.HasField(int64(2), "status", "lastIssuedRevision")))
	expectEditions(s, t, map[string]string{"a": "two", "b": "one"})
}

func TestARollbackEndsARollout(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxDefinition("one", rollout))
	s.AwaitDefinitions(t, "box")
	names := []string{"a", "b", "c"}
	applyBoxes(s, t, `fit: one`, names...)
	for _, name := range names {
		s.AwaitReady(t, s.Kind("Box"), s.NS, name)
	}
	s.Apply(t, boxDefinition("two", rollout))
	d := s.Await(t, suite.RGD, "", s.Name("box"), suite.All(suite.HasField("Stopped", "status", "rollout", "phase"), suite.HasField(int64(2), "status", "rollout", "wave")))
	annotate(s, t, d, `"espalier.dev/rollback-to":"1","espalier.dev/rollback-from":"2"`)
	expectEditions(s, t, map[string]string{"a": "one", "b": "one", "c": "one"})
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(1), suite.HasField(nil, "status", "rollout")))
	s.AwaitEventOn(t, d, "RolloutEnded", "revision 2 ended")
	for _, name := range names {
		s.AwaitReady(t, s.Kind("Box"), s.NS, name)
	}

	t.Log("a pause delays the next rollout, and new instances get the serving revision")
	s.Apply(t, boxDefinition("three", strings.Replace(rollout, "{", "{paused: true, ", 1)))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(suite.HasCondition("GraphRevisionsResolved", "Unknown", "RolloutPaused", "spec.rollout.paused"), suite.HasField(int64(0), "status", "rollout", "wave")))
	applyBoxes(s, t, `fit: for all`, "a", "b", "c", "d")
	expectEditions(s, t, map[string]string{"a": "one", "d": "one"})
	s.Apply(t, boxDefinition("three", strings.Replace(rollout, "{", "{paused: false, ", 1)))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(3)))
	expectEditions(s, t, map[string]string{"a": "three", "b": "three", "c": "three", "d": "three"})
}

func TestRevisionsWithMoreFieldsAreRolledBackWithoutLoss(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxDefinition("one", ""))
	s.AwaitDefinitions(t, "box")
	more := strings.Replace(boxDefinition("two", ""), `spec: {fit:`, `spec: {size: integer | default=3, fit:`, 1)
	s.Apply(t, more)
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(2)))
	applyBoxes(s, t, "size: 5", "a")
	expectEditions(s, t, map[string]string{"a": "two"})
	annotate(s, t, s.Get(t, suite.RGD, "", s.Name("box")), `"espalier.dev/rollback-to":"1","espalier.dev/rollback-from":"2"`)
	expectEditions(s, t, map[string]string{"a": "one"})
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(1), suite.HasCondition("KindReady", "True", "Ready")))
	if err := suite.HasField(int64(5), "spec", "size")(s.Get(t, s.Kind("Box"), s.NS, "a")); err != nil {
		t.Error(err)
	}

	t.Log("what would lose a field is still refused, names it, and leaves the last good one serving")
	annotate(s, t, s.Get(t, suite.RGD, "", s.Name("box")), `"espalier.dev/rollback-to":null,"espalier.dev/rollback-from":null`)
	expectEditions(s, t, map[string]string{"a": "two"})
	s.Apply(t, boxDefinition("three", ""))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(servesRevision(2), suite.HasCondition("KindReady", "False", "BreakingChange", "spec.schema.spec.size: field removed", "kro.run/allow-breaking-changes")))
	expectEditions(s, t, map[string]string{"a": "two"})
	annotate(s, t, s.Get(t, suite.RGD, "", s.Name("box")), `"kro.run/allow-breaking-changes":"true"`)
	expectEditions(s, t, map[string]string{"a": "three"})
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(3)))
}

func TestAnInvalidRolloutUpdatesNoInstance(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, boxDefinition("one", ""))
	s.AwaitDefinitions(t, "box")
	applyBoxes(s, t, "", "a")
	expectEditions(s, t, map[string]string{"a": "one"})
	s.Apply(t, boxDefinition("two", "rollout: {maxUnavailable: half, waves: [{percent: 50}, {percent: 20}]}"))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(servesRevision(1), suite.HasField("Active", "status", "state"),
		suite.HasCondition("Ready", "False", "InvalidRollout", "spec.rollout.waves[1].percent", `spec.rollout.maxUnavailable`, "revision 1 continues to serve")))
	expectEditions(s, t, map[string]string{"a": "one"})
	s.Apply(t, boxDefinition("two", "rollout: {waves: [{percent: 20}, {percent: 50}]}"))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(testkit.IsReady, servesRevision(2)))
	expectEditions(s, t, map[string]string{"a": "two"})
}

// TestARevisionWithoutADefinitionReportsWhetherItCompiles makes two by hand, as a restore does
// that begins with them.
func TestARevisionWithoutADefinitionReportsWhetherItCompiles(t *testing.T) {
	s := suite.New(t)
	const alone = `
apiVersion: internal.kro.run/v1alpha1
kind: GraphRevision
metadata: {name: $ID-%[1]s}
spec:
  revision: 1
  snapshot:
    name: $ID-%[1]s
    generation: 1
    spec:
      schema: {apiVersion: v1alpha1, kind: Box, group: $GROUP, spec: {value: string}}
      resources:
        - {id: second, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${first.metadata.name}-2"}}}
        - {id: first, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.spec.%[2]s}"}}}
`
	s.Apply(t, fmt.Sprintf(alone, "good", "value"))
	s.Await(t, revisionKind, "", s.Name("good"), suite.All(testkit.IsReady, suite.HasCondition("GraphVerified", "True", "Verified"),
		suite.HasField([]any{"first", "second"}, "status", "topologicalOrder")))
	s.Apply(t, fmt.Sprintf(alone, "bad", "vlaue"))
	s.Await(t, revisionKind, "", s.Name("bad"), suite.All(suite.HasCondition("GraphVerified", "False", "InvalidGraph", `did you mean "value"?`),
		suite.HasCondition("Ready", "False", "InvalidGraph")))
	for _, name := range []string{"good", "bad"} {
		s.Delete(t, revisionKind, "", s.Name(name))
		s.AwaitGone(t, revisionKind, "", s.Name(name))
	}
}
