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

// TestACollectionWithoutAPaceChangesInBatches is of items that say when they are ready: all are created at once, and change one
// after the other.
func TestACollectionWithoutAPaceChangesInBatches(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-team}
spec:
  schema: {apiVersion: v1alpha1, kind: Team, group: $GROUP, spec: {image: string}}
  resources:
    - id: zones
      forEach: [{zone: "${['a', 'b', 'c']}"}]
      readyWhen: ["${each.data.image != 'bad'}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${zone}"}, data: {image: "${schema.spec.image}"}}
`)
	s.AwaitDefinitions(t, "team")
	use := func(image string) {
		t.Helper()
		s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Team\nmetadata: {name: x, namespace: $NS}\nspec: {image: "+image+"}\n")
	}
	all := func(image string) {
		t.Helper()
		for _, name := range []string{"a", "b", "c"} {
			s.Await(t, suite.ConfigMap, s.NS, name, suite.HasField(image, "data", "image"))
		}
	}
	use("bad")
	all("bad")
	use("good")
	all("good") // what is not ready does not wait for another
	s.Await(t, s.Kind("Team"), s.NS, "x", suite.HasCondition("Ready", "True", ""))
	use("bad")
	s.Await(t, s.Kind("Team"), s.NS, "x", suite.HasCondition("ResourcesReady", "False", "", "zones[b]: waits until zones[a] is up to date and ready"))
	s.Await(t, suite.ConfigMap, s.NS, "a", suite.HasField("bad", "data", "image"))
	for _, name := range []string{"b", "c"} {
		if err := suite.HasField("good", "data", "image")(s.Get(t, suite.ConfigMap, s.NS, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	use("better")
	all("better")
	s.Await(t, s.Kind("Team"), s.NS, "x", suite.HasCondition("Ready", "True", ""))
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
