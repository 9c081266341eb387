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
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var revisionKind = definition.RevisionKind

// edition is a definition of boxes that says which edition it is, and is ready when the
// instance says so.
func edition(word, more string) string {
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

func boxes(s suite.Suite, t *testing.T, spec string, names ...string) {
	t.Helper()
	for _, name := range names {
		s.Put(t, fmt.Sprintf("apiVersion: $GROUP/v1alpha1\nkind: Box\nmetadata: {name: %s, namespace: $NS}\nspec: {%s}\n", name, spec))
	}
}

// are checks of which edition each box is.
func are(s suite.Suite, t *testing.T, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		s.Await(t, s.Kind("Box"), s.NS, name, all(exists, field(want[name], "status", "edition")))
	}
}

func annotateWith(s suite.Suite, t *testing.T, o *unstructured.Unstructured, annotations string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{` + annotations + `}}}`
	s.Patch(t, o.GroupVersionKind(), o.GetNamespace(), o.GetName(), patch)
}

func serves(n int64) check { return field(n, "status", "servingRevision") }

func TestEachContentIsARevision(t *testing.T) {
	s := begin(t)
	s.Put(t, edition("one", ""))
	s.Active(t, "box")
	first := s.AwaitReady(t, revisionKind, "", s.Name("box-r00001"))
	d := s.Await(t, rgd, "", s.Name("box"), all(field(int64(1), "status", "lastIssuedRevision"), serves(1),
		conditionIs("GraphRevisionsResolved", "True", "Resolved", "revision 1 compiled and active")))
	if err := all(
		field("true", "metadata", "labels", "kro.run/owned"),
		field(s.Name("box"), "metadata", "labels", "kro.run/resource-graph-definition-name"),
		field(s.Name("box"), "spec", "snapshot", "name"), field(int64(1), "spec", "snapshot", "generation"),
		conditionIs("GraphVerified", "True", "Verified"),
	)(first); err != nil {
		t.Error(err)
	}
	if owner := metav1.GetControllerOf(first); owner == nil || owner.UID != d.GetUID() || !slices.Equal(first.GetFinalizers(), []string{"kro.run/finalizer"}) {
		t.Errorf("it is controlled by %v, with %v", owner, first.GetFinalizers())
	}

	t.Log("it can't be changed")
	_, err := s.Of(t, revisionKind, "").Patch(t.Context(), first.GetName(), types.MergePatchType, []byte(`{"spec":{"snapshot":{"generation":7}}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec is immutable") {
		t.Errorf("the server says %v", err)
	}

	t.Log("what says how revisions are used makes none, another content does, and so does a former one")
	s.Put(t, edition("one", "revisionHistoryLimit: 2"))
	s.Put(t, edition("two", "revisionHistoryLimit: 2"))
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(2), field(int64(2), "status", "lastIssuedRevision")))
	s.Put(t, edition("one", "revisionHistoryLimit: 2"))
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(3), field(int64(3), "status", "lastIssuedRevision")))
	s.AwaitEventOn(t, d, "RevisionIssued", "revision 3", "box-r00003")

	t.Log("as many are kept as it says, and none outlives the definition")
	s.AwaitGone(t, revisionKind, "", s.Name("box-r00001"))
	s.AwaitReady(t, revisionKind, "", s.Name("box-r00002"))

	t.Log("one that somebody deletes while it serves is made anew, under another number")
	s.Delete(t, revisionKind, "", s.Name("box-r00003"))
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(4)))
	s.AwaitGone(t, revisionKind, "", s.Name("box-r00003"))

	s.Delete(t, rgd, "", s.Name("box"))
	s.AwaitGone(t, rgd, "", s.Name("box"))
	s.AwaitGone(t, revisionKind, "", s.Name("box-r00002"))
	s.AwaitGone(t, revisionKind, "", s.Name("box-r00004"))
}

func TestAResourceGroupHasRevisionsOfItsOwn(t *testing.T) {
	s := begin(t)
	group := strings.Replace(strings.Replace(edition("one", ""), "ResourceGraphDefinition", "ResourceGroup", 1), "metadata: {name: $ID-box}", "metadata: {name: $ID-box, namespace: $NS}", 1)
	s.Put(t, group)
	s.Put(t, strings.ReplaceAll(edition("two", ""), "kind: Box", "kind: Bin"))
	s.AwaitReady(t, rg, s.NS, s.Name("box"))
	s.Active(t, "box")
	theirs := s.NS + "." + s.Name("box") + "-g00001"
	if err := all(field(s.NS, "spec", "snapshot", "namespace"), field(s.NS, "metadata", "labels", "kro.run/resource-graph-definition-namespace"))(
		s.AwaitReady(t, revisionKind, "", theirs)); err != nil {
		t.Error(err)
	}
	s.AwaitReady(t, revisionKind, "", s.Name("box-r00001"))
	s.Delete(t, rg, s.NS, s.Name("box"))
	s.AwaitGone(t, rg, s.NS, s.Name("box"))
	s.AwaitGone(t, revisionKind, "", theirs)
	s.AwaitReady(t, revisionKind, "", s.Name("box-r00001"))
}

func TestAGroupsSecretIsInNoRevision(t *testing.T) {
	s := begin(t)
	s.Put(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: $ID-box, namespace: $NS}
spec:
  schema: {apiVersion: v1alpha1, kind: Box, group: $GROUP}
  resources:
    - id: secret
      template: {apiVersion: v1, kind: Secret, metadata: {name: "${schema.metadata.name}"}, stringData: {password: hunter2}}
`)
	s.Await(t, rg, s.NS, s.Name("box"), all(testkit.IsReady, conditionIs("GraphRevisionsResolved", "True", "NotKept", "writes out a Secret's values")))
	boxes(s, t, "", "a")
	s.AwaitReady(t, s.Kind("Box"), s.NS, "a")
	if s.Get(t, revisionKind, "", s.NS+"."+s.Name("box")+"-g00001") != nil {
		t.Error("its values are in a revision")
	}
}

func TestADefinitionMayAskForARevision(t *testing.T) {
	s := begin(t)
	s.Put(t, edition("one", ""))
	s.Active(t, "box")
	boxes(s, t, "", "a")
	are(s, t, map[string]string{"a": "one"})
	s.Put(t, edition("two", ""))
	are(s, t, map[string]string{"a": "two"})

	t.Log("it is pinned, and another content is kept and doesn't serve")
	s.Put(t, edition("two", "revision: 1"))
	are(s, t, map[string]string{"a": "one"})
	s.Put(t, edition("three", "revision: 1"))
	d := s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(1), field(int64(3), "status", "lastIssuedRevision"),
		conditionIs("GraphRevisionsResolved", "True", "Pinned", "spec.revision asks for it", "the newest is 3")))
	are(s, t, map[string]string{"a": "one"})

	t.Log("a revision that isn't there changes nothing")
	s.Put(t, edition("three", "revision: 9"))
	s.Await(t, rgd, "", s.Name("box"), all(serves(1), field("Active", "status", "state"),
		conditionIs("Ready", "False", "RevisionMissing", "there is no revision 9, which spec.revision asks for; there are 1, 2 and 3; revision 1 serves on")))
	are(s, t, map[string]string{"a": "one"})

	t.Log("a rollback goes before the spec, until there is something newer than what it was made from")
	at := testkit.Kubeconfig(t, s.Config)
	var out, errs bytes.Buffer
	if code := cli.Main(t.Context(), []string{"rollback", s.Name("box"), "--kubeconfig", at, "--to", "7"}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "there is no revision 7; there are 1, 2 and 3") {
		t.Errorf("exit code %d, %s%s", code, out.String(), errs.String())
	}
	if code := cli.Main(t.Context(), []string{"rollback", s.Name("box"), "--kubeconfig", at, "--to", "2"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "goes from revision 1 to 2, until there is one after 3") {
		t.Errorf("exit code %d, %s%s", code, out.String(), errs.String())
	}
	are(s, t, map[string]string{"a": "two"})
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, conditionIs("GraphRevisionsResolved", "True", "RolledBack", "espalier.dev/rollback-to")))
	s.AwaitEventOn(t, d, "RevisionServed", "revision 2 (RolledBack), no longer by 1")
	s.Put(t, edition("four", ""))
	are(s, t, map[string]string{"a": "four"})
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(4), conditionIs("GraphRevisionsResolved", "True", "Resolved")))

	t.Log("what makes no sense changes nothing either")
	annotateWith(s, t, d, `"espalier.dev/rollback-to":"the last"`)
	s.Await(t, rgd, "", s.Name("box"), all(serves(4), conditionIs("Ready", "False", "RevisionMissing", "espalier.dev/rollback-to", "not \"the last\"")))
}

func TestAnInstanceMayAskForARevision(t *testing.T) {
	s := begin(t)
	s.Put(t, edition("one", "revisionHistoryLimit: 1"))
	s.Active(t, "box")
	boxes(s, t, "", "a", "b")
	are(s, t, map[string]string{"a": "one", "b": "one"})
	a := s.Get(t, s.Kind("Box"), s.NS, "a")
	annotateWith(s, t, a, `"espalier.dev/revision":"1"`)
	s.Put(t, edition("two", "revisionHistoryLimit: 1"))
	are(s, t, map[string]string{"a": "one", "b": "two"})
	s.Put(t, edition("three", "revisionHistoryLimit: 1"))
	are(s, t, map[string]string{"a": "one", "b": "three"})
	s.AwaitGone(t, revisionKind, "", s.Name("box-r00002"))
	if s.Get(t, revisionKind, "", s.Name("box-r00001")) == nil {
		t.Error("the revision that an instance asks for is gone")
	}

	t.Log("one that it can't have leaves it as it is")
	annotateWith(s, t, a, `"espalier.dev/revision":"2"`)
	s.Await(t, s.Kind("Box"), s.NS, "a", all(field("one", "status", "edition"), field("ERROR", "status", "state"),
		conditionIs("Ready", "False", "RevisionMissing", "there is no revision 2; there are", "stays as it is")))
	annotateWith(s, t, a, `"espalier.dev/revision":"latest"`)
	s.Await(t, s.Kind("Box"), s.NS, "a", all(field("one", "status", "edition"), conditionIs("Ready", "False", "RevisionMissing", `not "latest"`)))
	if s.Get(t, configMap, s.NS, "a-content") == nil {
		t.Error("its object is gone")
	}

	t.Log("and it follows the definition when it asks for none")
	annotateWith(s, t, a, `"espalier.dev/revision":null`)
	s.Await(t, s.Kind("Box"), s.NS, "a", all(testkit.IsReady, field("three", "status", "edition")))
}

// rollout is one of two waves: those that volunteer, and then half of all.
const rollout = `rollout: {progressDeadline: 3s, waves: [{selector: {matchLabels: {volunteer: "yes"}}}, {percent: 50}]}`

func TestARevisionIsRolledOutInWaves(t *testing.T) {
	s := begin(t)
	s.Put(t, edition("one", rollout))
	s.Active(t, "box")
	names := []string{"a", "b", "c", "d", "e", "f"}
	boxes(s, t, `fit: one`, names...)
	for _, name := range names {
		s.AwaitReady(t, s.Kind("Box"), s.NS, name)
	}
	label := `{"metadata":{"labels":{"volunteer":"yes"}}}`
	s.Patch(t, s.Kind("Box"), s.NS, "f", label)
	pinned := s.Get(t, s.Kind("Box"), s.NS, "e")
	annotateWith(s, t, pinned, `"espalier.dev/revision":"1"`)

	t.Log("the first wave isn't ready: the rollout stops there, and says at whom")
	s.Put(t, edition("two", rollout))
	d := s.Await(t, rgd, "", s.Name("box"), all(conditionIs("GraphRevisionsResolved", "False", "RolloutStopped", "wave 1 of 3", s.NS+"/f"), conditionIs("Ready", "False", "RolloutStopped"),
		field("Active", "status", "state"), serves(1), field("Stopped", "status", "rollout", "phase"), field(int64(2), "status", "rollout", "revision"),
		field(int64(5), "status", "rollout", "total"), field(int64(1), "status", "rollout", "updated"), field(int64(0), "status", "rollout", "ready"), field(int64(1), "status", "rollout", "pinned")))
	if list, _, _ := unstructured.NestedSlice(d.Object, "status", "rollout", "unready"); len(list) != 1 {
		t.Errorf("unready are %v", list)
	}
	are(s, t, map[string]string{"f": "two", "a": "one", "b": "one", "c": "one", "d": "one", "e": "one"})
	s.AwaitEventOn(t, d, "RolloutStopped", s.NS+"/f (NotReady)")

	t.Log("it goes on by itself: as many as it says, in the next wave")
	boxes(s, t, `fit: two`, "f")
	s.Await(t, rgd, "", s.Name("box"), all(field(int64(2), "status", "rollout", "wave"), field("Stopped", "status", "rollout", "phase")))
	editions := map[string]int{}
	for _, name := range names {
		word, _, _ := unstructured.NestedString(s.Get(t, s.Kind("Box"), s.NS, name).Object, "status", "edition")
		editions[word]++
	}
	if two := editions["two"]; two < 3 || two > 4 {
		t.Errorf("of five who follow, half are reached beside the volunteer: %v", editions)
	}

	t.Log("and to the end")
	boxes(s, t, `fit: for all`, names...)
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(2), field("Complete", "status", "rollout", "phase"), field(int64(5), "status", "rollout", "ready")))
	are(s, t, map[string]string{"a": "two", "b": "two", "c": "two", "d": "two", "e": "one", "f": "two"})
	for _, reason := range []string{"RolloutStarted", "RolloutWave", "RolloutResumed", "RolloutComplete"} {
		s.AwaitEventOn(t, d, reason, "revision 2")
	}
}

// TestAChangeOfTheWavesReachesNobodyByItself puts a percentage in the place of the volunteers,
// while these are all that a rollout has reached.
func TestAChangeOfTheWavesReachesNobodyByItself(t *testing.T) {
	s := begin(t)
	volunteers := `rollout: {waves: [{selector: {matchLabels: {volunteer: "yes"}}, pause: 1h}]}`
	s.Put(t, edition("one", volunteers))
	s.Active(t, "box")
	names := []string{"a", "b", "c", "d"}
	boxes(s, t, `fit: for all`, names...)
	label := `{"metadata":{"labels":{"volunteer":"yes"}}}`
	s.Patch(t, s.Kind("Box"), s.NS, "d", label)
	for _, name := range names {
		s.AwaitReady(t, s.Kind("Box"), s.NS, name)
	}
	s.Put(t, edition("two", volunteers))
	s.Await(t, rgd, "", s.Name("box"), all(field("Pausing", "status", "rollout", "phase"), field(int64(1), "status", "rollout", "updated")))

	s.Put(t, edition("two", `rollout: {waves: [{percent: 1, pause: 1h}]}`))
	d := s.Await(t, rgd, "", s.Name("box"), all(field("Pausing", "status", "rollout", "phase"), func(o *unstructured.Unstructured) error {
		if begun, _, _ := unstructured.NestedSlice(o.Object, "status", "rollout", "begun"); len(begun) != 2 {
			return fmt.Errorf("%d waves have begun, and not the former one and one percent", len(begun))
		}
		return nil
	}))
	if n, _, _ := unstructured.NestedInt64(d.Object, "status", "rollout", "updated"); n > 2 {
		t.Errorf("%d of 4 have it: one percent is one beside the volunteer", n)
	}
	s.AwaitEventOn(t, d, "RolloutChanged", "begin anew")
	are(s, t, map[string]string{"d": "two"})
}

// TestADefinitionThatComesBackGoesOnWithItsRollout deletes a definition in the middle of a
// rollout, and leaves its instances behind.
func TestADefinitionThatComesBackGoesOnWithItsRollout(t *testing.T) {
	s := begin(t)
	volunteers := `rollout: {waves: [{selector: {matchLabels: {volunteer: "yes"}}, pause: 1h}]}`
	s.Put(t, edition("one", volunteers))
	s.Active(t, "box")
	boxes(s, t, `fit: for all`, "a", "b")
	label := `{"metadata":{"labels":{"volunteer":"yes"}}}`
	s.Patch(t, s.Kind("Box"), s.NS, "a", label)
	s.AwaitReady(t, s.Kind("Box"), s.NS, "a")
	s.AwaitReady(t, s.Kind("Box"), s.NS, "b")
	s.Put(t, edition("two", volunteers))
	paused := all(field("Pausing", "status", "rollout", "phase"), field(int64(1), "status", "rollout", "updated"), serves(1))
	d := s.Await(t, rgd, "", s.Name("box"), paused)
	annotateWith(s, t, d, `"kro.run/allow-orphans":"true"`)
	s.Delete(t, rgd, "", s.Name("box"))
	s.AwaitGone(t, rgd, "", s.Name("box"))

	s.Put(t, edition("two", volunteers))
	s.Await(t, rgd, "", s.Name("box"), all(paused, field(int64(2), "status", "lastIssuedRevision")))
	are(s, t, map[string]string{"a": "two", "b": "one"})
}

func TestARollbackEndsARollout(t *testing.T) {
	s := begin(t)
	s.Put(t, edition("one", rollout))
	s.Active(t, "box")
	names := []string{"a", "b", "c"}
	boxes(s, t, `fit: one`, names...)
	for _, name := range names {
		s.AwaitReady(t, s.Kind("Box"), s.NS, name)
	}
	s.Put(t, edition("two", rollout))
	d := s.Await(t, rgd, "", s.Name("box"), all(field("Stopped", "status", "rollout", "phase"), field(int64(2), "status", "rollout", "wave")))
	annotateWith(s, t, d, `"espalier.dev/rollback-to":"1","espalier.dev/rollback-from":"2"`)
	are(s, t, map[string]string{"a": "one", "b": "one", "c": "one"})
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(1), field(nil, "status", "rollout")))
	s.AwaitEventOn(t, d, "RolloutEnded", "revision 2 has ended")
	for _, name := range names {
		s.AwaitReady(t, s.Kind("Box"), s.NS, name)
	}

	t.Log("a pause keeps the next one from beginning, and instances that come follow what serves")
	s.Put(t, edition("three", strings.Replace(rollout, "{", "{paused: true, ", 1)))
	s.Await(t, rgd, "", s.Name("box"), all(conditionIs("GraphRevisionsResolved", "Unknown", "RolloutPaused", "spec.rollout.paused"), field(int64(0), "status", "rollout", "wave")))
	boxes(s, t, `fit: for all`, "a", "b", "c", "d")
	are(s, t, map[string]string{"a": "one", "d": "one"})
	s.Put(t, edition("three", strings.Replace(rollout, "{", "{paused: false, ", 1)))
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(3)))
	are(s, t, map[string]string{"a": "three", "b": "three", "c": "three", "d": "three"})
}

func TestRevisionsWithMoreFieldsAreRolledBackWithoutLoss(t *testing.T) {
	s := begin(t)
	s.Put(t, edition("one", ""))
	s.Active(t, "box")
	more := strings.Replace(edition("two", ""), `spec: {fit:`, `spec: {size: integer | default=3, fit:`, 1)
	s.Put(t, more)
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(2)))
	boxes(s, t, "size: 5", "a")
	are(s, t, map[string]string{"a": "two"})
	annotateWith(s, t, s.Get(t, rgd, "", s.Name("box")), `"espalier.dev/rollback-to":"1","espalier.dev/rollback-from":"2"`)
	are(s, t, map[string]string{"a": "one"})
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(1), conditionIs("KindReady", "True", "Ready")))
	if err := field(int64(5), "spec", "size")(s.Get(t, s.Kind("Box"), s.NS, "a")); err != nil {
		t.Error(err)
	}

	t.Log("what would lose a field is still refused, names it, and leaves the last good one serving")
	annotateWith(s, t, s.Get(t, rgd, "", s.Name("box")), `"espalier.dev/rollback-to":null,"espalier.dev/rollback-from":null`)
	are(s, t, map[string]string{"a": "two"})
	s.Put(t, edition("three", ""))
	s.Await(t, rgd, "", s.Name("box"), all(serves(2), conditionIs("KindReady", "False", "BreakingChange", "spec.schema.spec.size: field removed", "kro.run/allow-breaking-changes")))
	are(s, t, map[string]string{"a": "two"})
	annotateWith(s, t, s.Get(t, rgd, "", s.Name("box")), `"kro.run/allow-breaking-changes":"true"`)
	are(s, t, map[string]string{"a": "three"})
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(3)))
}

func TestARolloutThatMakesNoSenseReachesNobody(t *testing.T) {
	s := begin(t)
	s.Put(t, edition("one", ""))
	s.Active(t, "box")
	boxes(s, t, "", "a")
	are(s, t, map[string]string{"a": "one"})
	s.Put(t, edition("two", "rollout: {maxUnavailable: half, waves: [{percent: 50}, {percent: 20}]}"))
	s.Await(t, rgd, "", s.Name("box"), all(serves(1), field("Active", "status", "state"),
		conditionIs("Ready", "False", "InvalidRollout", "spec.rollout.waves[1].percent", `spec.rollout.maxUnavailable`, "revision 1 serves on")))
	are(s, t, map[string]string{"a": "one"})
	s.Put(t, edition("two", "rollout: {waves: [{percent: 20}, {percent: 50}]}"))
	s.Await(t, rgd, "", s.Name("box"), all(testkit.IsReady, serves(2)))
	are(s, t, map[string]string{"a": "two"})
}

// TestARevisionWithoutADefinitionTellsWhetherItCompiles makes two by hand, as a restore does
// that begins with them.
func TestARevisionWithoutADefinitionTellsWhetherItCompiles(t *testing.T) {
	s := begin(t)
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
	s.Put(t, fmt.Sprintf(alone, "good", "value"))
	s.Await(t, revisionKind, "", s.Name("good"), all(testkit.IsReady, conditionIs("GraphVerified", "True", "Verified"),
		field([]any{"first", "second"}, "status", "topologicalOrder")))
	s.Put(t, fmt.Sprintf(alone, "bad", "vlaue"))
	s.Await(t, revisionKind, "", s.Name("bad"), all(conditionIs("GraphVerified", "False", "InvalidGraph", `did you mean "value"?`),
		conditionIs("Ready", "False", "InvalidGraph")))
	for _, name := range []string{"good", "bad"} {
		s.Delete(t, revisionKind, "", s.Name(name))
		s.AwaitGone(t, revisionKind, "", s.Name(name))
	}
}
