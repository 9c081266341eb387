package definitions

import (
	"strconv"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAChangePassesThroughACollectionItemByItem stops it at an item that is not ready, and takes it back.
func TestAChangePassesThroughACollectionItemByItem(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-fleet}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Fleet
    group: $GROUP
    spec: {image: string, frozen: boolean | default=false}
  resources:
    - id: zones
      forEach: [{zone: "${['a', 'b', 'c']}"}]
      propagateWhen: ["${linearlyReady(zone, zones, 1)}", "${!schema.spec.frozen}"]
      readyWhen: ["${each.data.?runs.orValue('') == each.data.image}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${zone}"}, data: {image: "${schema.spec.image}"}}
`)
	s.AwaitDefinitions(t, "fleet")
	fleet := s.Kind("Fleet")
	of := func(spec string) string {
		return "\napiVersion: $GROUP/v1alpha1\nkind: Fleet\nmetadata: {name: x, namespace: $NS}\nspec: " + spec + "\n"
	}
	runs := func(name, image string) {
		t.Helper()
		s.Patch(t, suite.ConfigMap, s.NS, name, `{"data": {"runs": "`+image+`"}}`)
	}
	images := func(a, b, c string) {
		t.Helper()
		for name, image := range map[string]string{"a": a, "b": b, "c": c} {
			if got := s.Get(t, suite.ConfigMap, s.NS, name); got == nil && image != "" || got != nil && suite.HasField(image, "data", "image")(got) != nil {
				t.Errorf("%s is %v, expected the image %q", name, got, image)
			}
		}
	}
	waitsFor := func(item string) {
		t.Helper()
		s.Await(t, fleet, s.NS, "x", suite.HasCondition("ResourcesReady", "False", "", "waits until zones["+item+"] is up to date and ready"))
	}
	s.Apply(t, of("{image: v1}"))
	waitsFor("a")
	images("v1", "", "")
	runs("a", "v1")
	waitsFor("b")
	images("v1", "v1", "")
	runs("b", "v1")
	s.Await(t, suite.ConfigMap, s.NS, "c", suite.HasField("v1", "data", "image"))
	runs("c", "v1")
	s.Await(t, fleet, s.NS, "x", suite.HasCondition("Ready", "True", ""))

	s.Apply(t, of("{image: v2, frozen: true}"))
	s.Await(t, fleet, s.NS, "x", suite.HasCondition("ResourcesReady", "False", "NotPropagated", "!schema.spec.frozen is false"))
	images("v1", "v1", "v1")
	s.Apply(t, of("{image: v2}"))
	waitsFor("a")
	images("v2", "v1", "v1")
	runs("a", "v2")
	waitsFor("b")
	images("v2", "v2", "v1")
	s.Apply(t, of("{image: v1}")) // v2 does not run in b
	waitsFor("a")
	images("v1", "v2", "v1")
	runs("a", "v1")
	s.Await(t, fleet, s.NS, "x", suite.HasCondition("Ready", "True", ""))
	images("v1", "v1", "v1")
}

// TestItemsThatAreReadyAtOnceFollowAtOnce: their order is kept, and no batch waits for an event or for a time.
func TestItemsThatAreReadyAtOnceFollowAtOnce(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-row}
spec:
  schema: {apiVersion: v1alpha1, kind: Row, group: $GROUP, spec: {places: "[]string"}}
  resources:
    - id: places
      forEach: [{place: "${schema.spec.places}"}]
      propagateWhen: ["${linearlyReady(place, places, 1)}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${place}"}}
`)
	s.AwaitDefinitions(t, "row")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Row\nmetadata: {name: x, namespace: $NS}\nspec: {places: [t, s, r, q, p, o, 'n', m, l, k, j, i, h, g, f, e, d, c, b, a]}\n")
	s.Await(t, s.Kind("Row"), s.NS, "x", suite.HasCondition("Ready", "True", ""))
	before := uint64(0)
	for name := 't'; name >= 'a'; name-- {
		o := s.Get(t, suite.ConfigMap, s.NS, string(name))
		version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
		if err != nil || version <= before {
			t.Errorf("%c has the version %s, after %d", name, o.GetResourceVersion(), before)
		}
		before = version
	}
}
