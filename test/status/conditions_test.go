package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// conditionsEqual checks all conditions, in order.
func conditionsEqual(want ...string) suite.Check {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return errors.New("does not exist")
		}
		var got []string
		for _, c := range condition.Read(o) {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)))
			if c.LastTransitionTime == nil || c.ObservedGeneration == 0 {
				return fmt.Errorf("%s has no time or generation", c.Type)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("the conditions are %q, not %q", got, want)
		}
		return nil
	}
}

const site = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-site}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Site
    group: $GROUP
    spec: {zones: "[]string", word: string | default="True"}
    status:
      zones: ${size(parts)}
      conditions:
        - "${runtime.newCondition({type: 'Switched', status: switch.data.on == 'yes' ? 'True' : 'False', reason: 'Switch', message: switch.data.on})}"
        - "${runtime.newCondition({type: 'Ready', status: runtime.condition(schema, 'ResourcesReady').status == 'True' && switch.data.on == 'yes' ? 'True' : 'False', reason: runtime.condition(schema, 'ResourcesReady').reason})}"
        - "${parts.map(p, runtime.newCondition({type: 'Part-' + p.data.zone, status: 'True'}))}"
        - "${runtime.newCondition({type: 'Worded', status: schema.spec.word})}"
  resources:
    - id: switch
      externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: switch}}
    - id: parts
      forEach: [{zone: "${schema.spec.zones}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "part-${zone}"}, data: {zone: "${zone}"}}
`

func TestConditionsOfTheAuthorReplaceTheBuiltInOnes(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, site)
	set := func(on string) {
		t.Helper()
		s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: switch, namespace: $NS}\ndata: {\"on\": \""+on+"\"}\n")
	}
	put := func(spec string) {
		t.Helper()
		s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Site\nmetadata: {name: s, namespace: $NS}\nspec: "+spec+"\n")
	}
	kind := s.Kind("Site")
	put("{zones: [a, b]}")
	s.Await(t, kind, s.NS, "s", suite.All(suite.HasField("IN_PROGRESS", "status", "state"), conditionsEqual("Ready=False WaitingForExternal", "Part-a=True", "Part-b=True", "Worded=True")))
	set("no")
	o := s.Await(t, kind, s.NS, "s", suite.All(suite.HasField("ACTIVE", "status", "state"),
		conditionsEqual("Ready=False AllResourcesReady", "Part-a=True", "Part-b=True", "Worded=True", "Switched=False Switch")))
	version := o.GetResourceVersion()
	set("yes")
	o = s.Await(t, kind, s.NS, "s", suite.All(testkit.IsReady, suite.HasCondition("Switched", "True", "Switch", "yes")))
	if o.GetResourceVersion() == version {
		t.Error("nothing was written")
	}

	// What has no value stays as it was, and is an error of the instance.
	put("{zones: [b], word: maybe}")
	s.Await(t, kind, s.NS, "s", suite.All(suite.HasField("ERROR", "status", "state"), suite.HasCondition("Part-a", "True", ""), suite.HasCondition("Worded", "True", "")))
	s.AwaitEvent(t, "s", "ConditionFailed", `the status of a condition is "maybe"`)
	put("{zones: [b], word: \"False\"}")
	s.Await(t, kind, s.NS, "s", suite.All(suite.HasField("ACTIVE", "status", "state"),
		conditionsEqual("Ready=True AllResourcesReady", "Part-b=True", "Worded=False", "Switched=True Switch")))

	// Without conditions of the author's the engine's are back.
	before, rest, _ := strings.Cut(site, "      conditions:\n")
	_, after, _ := strings.Cut(rest, "  resources:\n")
	s.Apply(t, before+"  resources:\n"+after)
	s.Await(t, kind, s.NS, "s", conditionsEqual("Ready=True Ready", "InstanceManaged=True Managed", "GraphResolved=True Resolved", "ResourcesReady=True AllResourcesReady"))
	s.Apply(t, site)
	s.Await(t, kind, s.NS, "s", suite.HasCondition("Switched", "True", "Switch"))
	s.Delete(t, kind, s.NS, "s")
	s.AwaitGone(t, kind, s.NS, "s")
}

func TestAMissingKindShowsBesideTheAuthorsConditions(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Site", `status: {conditions: ["${runtime.newCondition({type: 'Mine', status: 'True'})}"]}`, `
    - id: cache
      template: {apiVersion: cache.$GROUP/v1, kind: Redis, metadata: {name: "${schema.metadata.name}"}}
    - id: reader
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${cache.metadata.name}"}}
`))
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Site\nmetadata: {name: x, namespace: $NS}\n")
	o := s.Await(t, s.Kind("Site"), s.NS, "x", suite.All(conditionsEqual("Mine=True"), suite.HasProblem("cache", `no matches for kind "Redis"`)))
	if waiting, _, _ := unstructured.NestedSlice(o.Object, "status", "waiting"); len(waiting) == 0 {
		t.Errorf("nothing waits: %s", testkit.JSON(o))
	}
}

func TestAnEnclosingDefinitionUsesTheAuthorsReady(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, site)
	s.Apply(t, strings.NewReplacer("$ID-site", "$ID-plain", "kind: Site", "kind: Plain", "type: 'Ready'", "type: 'Usable'", "part-", "plain-").Replace(site))
	s.AwaitDefinitions(t, "site", "plain")
	s.Apply(t, suite.Graph("Above", `status: {site: "${site.status.zones}", plain: "${plain.status.zones}"}`, `
    - id: site
      template: {apiVersion: $GROUP/v1alpha1, kind: Site, metadata: {name: below}, spec: {zones: [a]}}
    - id: plain
      template: {apiVersion: $GROUP/v1alpha1, kind: Plain, metadata: {name: below}, spec: {zones: [b, c]}}
`))
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: switch, namespace: $NS}\ndata: {\"on\": \"no\"}\n")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Above\nmetadata: {name: a, namespace: $NS}\n")
	o := s.Await(t, s.Kind("Above"), s.NS, "a", suite.All(suite.HasCondition("ResourcesReady", "False", "NotReady", "site is not ready"), suite.HasField(1, "status", "site"), suite.HasField(2, "status", "plain")))
	if message := testkit.ConditionMessage(o, "ResourcesReady"); strings.Contains(message, "plain") {
		t.Error("one without a Ready of its own goes by its state:", message)
	}
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: switch, namespace: $NS}\ndata: {\"on\": \"yes\"}\n")
	s.AwaitReady(t, s.Kind("Above"), s.NS, "a")
}

func TestASuspendedInstanceKeepsItsAuthorsConditions(t *testing.T) {
	s := suite.New(t)
	suspend := func(value string) {
		t.Helper()
		s.PatchAs(t, "operator", s.Kind("Site"), s.NS, "x", `{"metadata":{"annotations":{"kro.run/reconcile":`+value+`}}}`)
	}
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: switch, namespace: $NS}\ndata: {\"on\": 'yes'}\n")
	s.Apply(t, site)
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Site\nmetadata: {name: x, namespace: $NS}\nspec: {zones: [a]}\n")
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")
	suspend(`"suspended"`)
	s.Await(t, s.Kind("Site"), s.NS, "x", suite.All(
		conditionsEqual("Switched=True Switch", "Ready=False ReconciliationSuspended", "Part-a=True", "Worded=True"), suite.HasField("SUSPENDED", "status", "state"),
		func(o *unstructured.Unstructured) error {
			if got, _, _ := unstructured.NestedInt64(o.Object, "status", "zones"); got != 1 {
				return errors.New("a value is gone")
			}
			return nil
		}))
	suspend("null")
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")
}
