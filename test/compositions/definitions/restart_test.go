package definitions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// newExclusiveCluster is a server on which a test runs, and stops, controllers of its own.
func newExclusiveCluster(t *testing.T, config *rest.Config) testCluster {
	t.Helper()
	return testCluster{suite.Suite{Cluster: testkit.NewCluster(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)}, &recordingKinds{}}
}

// run starts the controllers and returns a function that stops them.
func (c testCluster) run(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	controllers := suite.Start(t, server.Options{Config: config, Composites: c.port.withCluster})
	return func() { _ = controllers.Stop() } // a crash is an error
}

// all of a test's, settled.
func (c testCluster) awaitSettled(t *testing.T) {
	t.Helper()
	c.Await(t, definition, "", c.name("xapps"), all(isEstablished, isOffered))
	c.Await(t, c.kind("Claim"), c.NS, "a", all(finalizersAre("finalizer.apiextensions.crossplane.io")))
	c.Await(t, c.kind("XApp"), "", "a", all(finalizersAre("composite.apiextensions.crossplane.io")))
	c.revisions(t, c.name("small"), func(all map[int64]*unstructured.Unstructured) error {
		if len(all) != 1 || all[1] == nil {
			return fmt.Errorf("there are %d revisions", len(all))
		}
		return conditionIs("ValidPipeline", "True", "ValidPipeline")(all[1])
	})
}

const world = "---\n" // between the parts

func TestRestarts(t *testing.T) {
	config := testkit.AnotherServer(t)
	c := newExclusiveCluster(t, config)
	stop := c.run(t, config)
	defer func() { stop() }()
	c.Apply(t, definitionText("v1", "XApp", claimable)+world+compositionText("small", "XApp", ""))
	c.Await(t, definition, "", c.name("xapps"), all(isEstablished, isOffered))
	c.Apply(t, app("Claim", c.NS, "a", false)+app("XApp", "", "a", false))
	c.awaitSettled(t)
	stop()

	t.Log("nothing has happened: nothing is written, and what serves the kinds has its world")
	writes := testkit.Counter{Filter: testkit.IsWrite}
	c.port.served = nil
	stop = c.run(t, writes.Wrap(config))
	for _, kind := range []string{"Claim", "XApp"} {
		c.port.await(t, c.kind(kind), func(s *servedKind) error {
			if s.reconciles["a"] == 0 {
				return errors.New("has not looked")
			}
			return snapshotHas(1, 1)(s)
		})
	}
	c.awaitSettled(t)
	stop()
	if n := writes.Snapshot(); n.Total > 0 {
		t.Errorf("a restart writes: %s", n)
	}

	t.Log("the definition was broken meanwhile: its kinds are served as they were")
	c.Apply(t, strings.Replace(definitionText("v1", "XApp", claimable), "type: string", "type: strin", 1))
	c.Apply(t, app("XApp", "", "b", false))
	c.port.served = nil
	stop = c.run(t, config)
	c.Await(t, c.kind("XApp"), "", "b", all(finalizersAre("composite.apiextensions.crossplane.io")))
	c.Await(t, definition, "", c.name("xapps"), all(conditionIs("Established", "False", "InvalidDefinition", "the last valid definition is still served"), conditionIs("Offered", "False", "InvalidDefinition")))
	c.port.await(t, c.kind("XApp"), func(s *servedKind) error {
		if err := snapshotHas(1, 1)(s); err != nil {
			return err
		}
		if raw := string(s.used[0].Definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Raw); !strings.Contains(raw, `"string"`) {
			return errors.New("is served by the broken one: " + raw)
		}
		return nil
	})
	stop()

	t.Log("it was deleted meanwhile, broken as it is")
	c.Delete(t, definition, "", c.name("xapps"))
	stop = c.run(t, config)
	c.AwaitGone(t, definition, "", c.name("xapps"))
	c.AwaitGone(t, crdKind, "", c.name("claims"))
	c.AwaitGone(t, crdKind, "", c.name("xapps"))
}

// idle is how long a test waits to see that nothing happens.
const idle = 3 * time.Second

// TestNoRequestsAtRest, nor while a deletion waits for what only others can do.
func TestNoRequestsAtRest(t *testing.T) {
	config := testkit.AnotherServer(t)
	c := newExclusiveCluster(t, config)
	var counter testkit.Counter
	defer c.run(t, counter.Wrap(config))()
	c.Apply(t, definitionText("v1", "XApp", claimable)+world+definitionText("v2", "Held", "")+world+strings.Replace(definitionText("v2", "Bad", ""), "type: string", "type: strin", 1)+world+compositionText("small", "XApp", "")+world+compositionText("missing", "XApp", "  - step: b\n    functionRef: {name: nobodys}\n"))
	c.Await(t, definition, "", c.name("xapps"), all(isEstablished, isOffered))
	c.Await(t, definition, "", c.name("helds"), isEstablished)
	c.Apply(t, app("Claim", c.NS, "a", false)+app("XApp", "", "a", false)+app("Held", c.NS, "a", true))
	c.awaitSettled(t)
	c.Await(t, c.kind("Held"), c.NS, "a", all(finalizersAre("composite.apiextensions.crossplane.io")))
	c.Delete(t, definition, "", c.name("helds"))
	c.Await(t, definition, "", c.name("helds"), all(conditionIs("Established", "False", "TerminatingCompositeResource", "1 of kind Held remains")))
	c.revisions(t, c.name("missing"), func(all map[int64]*unstructured.Unstructured) error {
		if all[1] == nil {
			return errors.New("there is none")
		}
		return conditionIs("ValidPipeline", "False", "MissingCapabilities")(all[1])
	})
	<-time.After(idle)
	before := counter.Snapshot()
	<-time.After(idle)
	if asked := counter.Since(before); asked.Total > 0 {
		t.Errorf("in %s of nothing there were %d requests: %s", idle, asked.Total, asked)
	}
}

// TestSweep stops the controllers after each of their writes, while definitions come and
// while they go. The end is the same.
func TestSweep(t *testing.T) {
	config := testkit.AnotherServer(t)
	begun := newExclusiveCluster(t, config)
	stop := begun.run(t, config)
	begun.Apply(t, definitionText("v2", "First", "")) // what is installed is
	begun.Await(t, definition, "", begun.name("firsts"), isEstablished)
	stop()
	points := 0
	sweep := func(name string, before, act, settled func(*testing.T, testCluster), left func(*testing.T, testCluster) []string) {
		t.Run(name, func(t *testing.T) {
			want, writes := converge(t, config, 0, before, act, settled, left)
			for n := 1; n <= writes; n += testkit.Size(6, 1) {
				points++
				got, _ := converge(t, config, n, before, act, settled, left)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("after a crash at write %d of %d the cluster differs (-without +with):\n%s", n, writes, diff)
				}
			}
			t.Logf("%d writes", writes)
		})
	}
	come := func(t *testing.T, c testCluster) {
		c.Apply(t, definitionText("v1", "XApp", claimable)+world+compositionText("small", "XApp", ""))
		c.Await(t, definition, "", c.name("xapps"), all(isEstablished, isOffered))
		c.Apply(t, app("Claim", c.NS, "a", false)+app("XApp", "", "a", false))
	}
	settled := func(t *testing.T, c testCluster) { c.awaitSettled(t) }
	again := "  - step: second\n    functionRef: {name: function-auto-ready}\n"
	turned := func(t *testing.T, c testCluster) {
		c.Apply(t, compositionText("small", "XApp", again))
		c.revisions(t, c.name("small"), revisionsAre(1, 2))
		c.Apply(t, compositionText("small", "XApp", ""))
	}
	sweep("they come", nil, come, settled, inventory)
	sweep("a composition turns back", func(t *testing.T, c testCluster) { come(t, c); c.awaitSettled(t) }, turned, func(t *testing.T, c testCluster) {
		c.revisions(t, c.name("small"), func(all map[int64]*unstructured.Unstructured) error {
			for _, o := range all {
				if err := conditionIs("ValidPipeline", "True", "ValidPipeline")(o); err != nil {
					return err
				}
			}
			return revisionsAre(2, 3)(all)
		})
	}, inventory)
	sweep("they go", func(t *testing.T, c testCluster) { come(t, c); c.awaitSettled(t) },
		func(t *testing.T, c testCluster) { c.Delete(t, definition, "", c.name("xapps")) },
		func(t *testing.T, c testCluster) {
			c.AwaitGone(t, definition, "", c.name("xapps"))
			c.AwaitGone(t, crdKind, "", c.name("xapps"))
			c.AwaitGone(t, crdKind, "", c.name("claims"))
		}, inventory)
	testkit.Report(t, "definitions: %d crash points", points)
}

// converge plays a part in a namespace of its own, with a crash after the n-th write (none for
// 0), and returns what is there in the end and how many writes there were.
func converge(t *testing.T, config *rest.Config, n int, before, act, settled func(*testing.T, testCluster), left func(*testing.T, testCluster) []string) ([]string, int) {
	t.Helper()
	c := newExclusiveCluster(t, config)
	if before != nil {
		stop := c.run(t, config)
		before(t, c)
		stop()
	}
	crash := testkit.NewCrash(n)
	stop := crash.RunAndRestart(config, func(through *rest.Config) func() { return c.run(t, through) })
	act(t, c)
	settled(t, c)
	stop()
	return left(t, c), crash.Writes()
}

// inventory is the objects of a test's objects, without what differs from run to run.
func inventory(t *testing.T, c testCluster) []string {
	t.Helper()
	var out []string
	for _, gvk := range []schema.GroupVersionKind{definition, composition, revision, crdKind} {
		list := c.List(t, gvk, "", "")
		for i := range list {
			o := &list[i]
			if !strings.Contains(o.GetName(), c.Group) {
				continue
			}
			number, _, _ := unstructured.NestedInt64(o.Object, "spec", "revision")
			var conditions []string
			all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			for _, item := range all {
				condition, _ := item.(map[string]any)
				conditions = append(conditions, fmt.Sprint(condition["type"], condition["status"], condition["reason"]))
			}
			name := o.GetName()
			if gvk == revision {
				name = name[:strings.LastIndex(name, "-")]
			}
			out = append(out, strings.ReplaceAll(fmt.Sprintf("%s %s %d finalizers=%v going=%t owners=%d labels=%d %v status=%t", gvk.Kind, name, number, o.GetFinalizers(),
				o.GetDeletionTimestamp() != nil, len(o.GetOwnerReferences()), len(o.GetLabels()), slices.Sorted(slices.Values(conditions)), o.Object["status"] != nil), c.Group, "group"))
		}
	}
	slices.Sort(out)
	return out
}
