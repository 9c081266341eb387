package observe_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
)

// TestWhyLooksAtTheDefinition: of an object that nothing has reconciled, the cause is its definition, if that is not served.
func TestWhyLooksAtTheDefinition(t *testing.T) {
	const (
		fresh    = "apiVersion: example.org/v1\nkind: Store\nmetadata: {name: shop, namespace: prod, generation: 1}\nstatus: {observedGeneration: -1}\n"
		bare     = "apiVersion: example.org/v1\nkind: Store\nmetadata: {name: shop, namespace: prod, generation: 1}\n"
		stale    = "apiVersion: example.org/v1\nkind: Store\nmetadata: {name: shop, namespace: prod, generation: 2, labels: {applyset.kubernetes.io/id: x}}\nstatus: {conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}\n"
		deleting = "apiVersion: example.org/v1\nkind: Store\nmetadata: {name: shop, namespace: prod, generation: 2, deletionTimestamp: '2026-08-01T11:00:00Z', finalizers: [kro.run/finalizer], labels: {applyset.kubernetes.io/id: x}}\n"
		recipe   = "apiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata: {name: stores}\n"
	)
	definition := func(condition string) string {
		return "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: store, uid: u, generation: 1}\nstatus: {conditions: [" + condition + "]}\n"
	}
	revision := func(condition string) string {
		return "apiVersion: apiextensions.crossplane.io/v1\nkind: CompositionRevision\nmetadata: {name: stores-1, uid: u, generation: 1, labels: {crossplane.io/composition-name: stores}}\nstatus: {conditions: [" + condition + "]}\n"
	}
	const (
		broken    = "{type: GraphAccepted, status: 'False', reason: InvalidResourceGraph, message: 'failed to build resourcegraphdefinition: spec.resources[0]: undefined field', observedGeneration: 1}, {type: Ready, status: 'False', reason: InvalidResourceGraph, message: m, observedGeneration: 1}"
		forbidden = "{type: GraphAccepted, status: 'True', reason: Valid}, {type: ControllerReady, status: 'False', reason: Forbidden, message: 'cannot read instances: stores is forbidden'}, {type: Ready, status: 'False', reason: Forbidden, message: m, observedGeneration: 1}"
		served    = "{type: Ready, status: 'True', reason: Ready, observedGeneration: 1}"
		invalid   = "{type: ValidPipeline, status: 'False', reason: InvalidPipeline, message: 'spec.pipeline[0].input.patchess: unknown field'}"
		lacking   = "{type: ValidPipeline, status: 'False', reason: MissingCapabilities, message: 'there is no function function-autoready'}"
		valid     = "{type: ValidPipeline, status: 'True', reason: ValidPipeline}"
	)
	cases := map[string]struct{ object, by, cause, advice string }{
		"an invalid one": {fresh, definition(broken), "ResourceGraphDefinition store is not ready: InvalidResourceGraph: spec.resources[0]: undefined field", "correct these fields and apply the definition again"},
		"one whose instances the controllers may not read":          {fresh, definition(forbidden), "ResourceGraphDefinition store is not ready: Forbidden: cannot read instances: stores is forbidden", "grant the missing permission"},
		"an object without any mark":                                {bare, definition(broken), "ResourceGraphDefinition store is not ready: InvalidResourceGraph: spec.resources[0]: undefined field", "correct these fields"},
		"a change that is not reconciled":                           {stale, definition(forbidden), "ResourceGraphDefinition store is not ready: Forbidden: cannot read instances: stores is forbidden", "grant the missing permission"},
		"a deletion that has not begun":                             {deleting, definition(forbidden), "ResourceGraphDefinition store is not ready: Forbidden: cannot read instances: stores is forbidden", "grant the missing permission"},
		"one that is gone":                                          {fresh, "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: store}\n", "ResourceGraphDefinition store is not ready: DefinitionMissing: it does not exist", "apply the definition again"},
		"one that nobody has reconciled either":                     {fresh, definition(""), "ResourceGraphDefinition store is not ready: it has not been reconciled yet", "wait: the controllers have not reconciled it yet"},
		"one that is served":                                        {fresh, definition(served), "Store prod/shop is not ready: InProgress: it has not been reconciled yet", "wait: the controllers have not reconciled it yet"},
		"a composition that is invalid":                             {recipe, revision(invalid), "CompositionRevision stores-1 is not ready: InvalidPipeline: spec.pipeline[0].input.patchess: unknown field", "correct these fields and apply the composition again"},
		"a composition with functions that nobody serves":           {recipe, revision(lacking), "CompositionRevision stores-1 is not ready: MissingCapabilities: there is no function function-autoready", "serve the functions that are missing"},
		"a composition that is valid":                               {recipe, revision(valid), "Composition stores is ready", ""},
		"a composition whose revision may not be read is as before": {recipe, "", "Composition stores exists; its status does not say whether it is ready", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
			w := state(t, tc.object)
			if tc.by != "" {
				w.ServedBy = map[object.Key]*unstructured.Unstructured{object.KeyOf(w.Root): state(t, tc.by).Root}
			}
			if !observe.IsUnreconciled(w.Root) && w.Root.GetKind() != "Composition" {
				t.Error("its definition is not looked at")
			}
			e := observe.Explain(observe.Build(w, now), now)
			if e.Cause != tc.cause || !strings.Contains(strings.Join(e.Advice, "\n"), tc.advice) {
				t.Errorf("%s\n%q", e.Cause, e.Advice)
			}
			if e.IsReady() != (tc.advice == "") {
				t.Errorf("ready: %t", e.IsReady())
			}
		})
	}
}

// TestTheShortestWayIsShown: one node waits for the cause directly, and for another that waits for it as well.
func TestTheShortestWayIsShown(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	wait := func(on string) observe.Wait {
		return observe.Wait{On: on + ".status.id", Reason: "WaitingForField", Since: now}
	}
	top := observe.Node{Kind: "App", Name: "a", Exists: true, Instance: true, Ready: observe.False, Children: []observe.Node{
		{Node: "vpc", Kind: "Vpc", Name: "v", Exists: true, Ready: observe.False, Reason: "Creating"},
		{Node: "subnet", Waits: []observe.Wait{wait("vpc")}},
		{Node: "cluster", Waits: []observe.Wait{wait("subnet"), wait("vpc")}},
	}}
	var got []string
	for _, l := range observe.Explain(top, now).Chain {
		got = append(got, l.Node)
	}
	if want := " cluster vpc"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDefines(t *testing.T) {
	const (
		graph = "{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: x}, spec: {schema: {kind: WebService}}}"
		named = "{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: x}, spec: {schema: {kind: Policy, plural: policies, group: a.example.org}}}"
		xrd   = "{apiVersion: apiextensions.crossplane.io/v2, kind: CompositeResourceDefinition, metadata: {name: x}, spec: {group: example.org, names: {kind: XStore, plural: xstores, shortNames: [xs]}, claimNames: {kind: Store, plural: stores}}}"
	)
	for _, tc := range []struct {
		definition, written string
		want                bool
	}{
		{graph, "webservice", true}, {graph, "WebServices", true}, {graph, "webservice.kro.run", true}, {graph, "webservice.example.org", false}, {graph, "web", false},
		{named, "policies", true}, {named, "policy.a.example.org", true}, {named, "policy.kro.run", false},
		{xrd, "xstores.example.org", true}, {xrd, "xs", true}, {xrd, "store", true}, {xrd, "stores", true}, {xrd, "shop", false},
	} {
		if got := observe.Defines(state(t, tc.definition).Root, tc.written); got != tc.want {
			t.Errorf("%s: %s: got %t", tc.definition, tc.written, got)
		}
	}
}
