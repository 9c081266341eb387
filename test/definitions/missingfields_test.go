package definitions

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestARevisionOfFieldsThatTheKindLacksDoesNotServe(t *testing.T) {
	s := suite.New(t)
	const pinning = "instanceOverrides: {revision: Allow}"
	first := strings.Replace(boxDefinition("one", pinning), `spec: {fit:`, `spec: {size: integer | default=3, fit:`, 1)
	s.Apply(t, first)
	s.AwaitDefinitions(t, "box")
	s.Apply(t, boxDefinition("two", pinning))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.HasCondition("KindReady", "False", "BreakingChange"))
	annotate(s, t, s.Get(t, suite.RGD, "", s.Name("box")), `"kro.run/allow-breaking-changes":"true"`)
	s.Await(t, suite.RGD, "", s.Name("box"), servesRevision(2))
	s.AwaitDefinitions(t, "box")

	t.Log("an instance that requests one with a field that was removed is not composed by it")
	applyBoxes(s, t, "", "a")
	expectEditions(s, t, map[string]string{"a": "two"})
	annotate(s, t, s.Get(t, s.Kind("Box"), s.NS, "a"), `"espalier.dev/revision":"1"`)
	s.Await(t, s.Kind("Box"), s.NS, "a", suite.All(suite.HasField("two", "status", "edition"),
		suite.HasCondition("Ready", "False", "RevisionMissing", "revision 1 cannot serve: the schema of the served kind lacks fields of it", "size")))

	t.Log("nor does a new definition serve with the schema of a former one of its name")
	annotate(s, t, s.Get(t, suite.RGD, "", s.Name("box")), `"kro.run/allow-orphans":"true"`)
	s.Delete(t, suite.RGD, "", s.Name("box"))
	s.AwaitGone(t, suite.RGD, "", s.Name("box"))
	for _, name := range []string{"box-r00001", "box-r00002"} {
		s.Delete(t, revisionKind, "", s.Name(name))
		s.AwaitGone(t, revisionKind, "", s.Name(name))
	}
	s.Apply(t, strings.ReplaceAll(boxDefinition("three", pinning), "fit", "form"))
	s.Await(t, suite.RGD, "", s.Name("box"), suite.All(suite.HasCondition("KindReady", "False", "BreakingChange"),
		suite.HasCondition("ControllerReady", "False", "NoGraph"), suite.HasField(nil, "status", "servingRevision")))
}
