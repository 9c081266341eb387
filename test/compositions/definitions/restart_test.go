package definitions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// apart is a server on which a test runs, and stops, controllers of its own.
func apart(t *testing.T, config *rest.Config) corner {
	t.Helper()
	return corner{suite.Suite{World: testkit.NewWorld(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)}, &port{}}
}

// run starts the controllers and returns how to stop them.
func (c corner) run(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	controllers := suite.Start(t, server.Options{Config: config, Composites: c.port.on})
	return func() { _ = controllers.Stop() } // a crash is an error
}

// all of a test's, settled.
func (c corner) settled(t *testing.T) {
	t.Helper()
	c.Await(t, definition, "", c.name("xapps"), all(established, offered))
	c.Await(t, c.kind("Claim"), c.NS, "a", all(keeps("finalizer.apiextensions.crossplane.io")))
	c.Await(t, c.kind("XApp"), "", "a", all(keeps("composite.apiextensions.crossplane.io")))
	c.revisions(t, c.name("small"), func(all map[int64]*unstructured.Unstructured) error {
		if len(all) != 1 || all[1] == nil {
			return fmt.Errorf("there are %d revisions", len(all))
		}
		return says("ValidPipeline", "True", "ValidPipeline")(all[1])
	})
}

const world = "---\n" // between the parts

func TestRestarts(t *testing.T) {
	config := testkit.Another(t)
	c := apart(t, config)
	stop := c.run(t, config)
	defer func() { stop() }()
	c.Put(t, plain("v1", "XApp", claimable)+world+pipeline("small", "XApp", ""))
	c.Await(t, definition, "", c.name("xapps"), all(established, offered))
	c.Put(t, app("Claim", c.NS, "a", false)+app("XApp", "", "a", false))
	c.settled(t)
	stop()

	t.Log("nothing has happened: nothing is written, and what serves the kinds has its world")
	writes := testkit.Counter{Counts: testkit.IsWrite}
	c.port.served = nil
	stop = c.run(t, writes.Wrap(config))
	for _, kind := range []string{"Claim", "XApp"} {
		c.port.await(t, c.kind(kind), func(s *served) error {
			if s.passes["a"] == 0 {
				return errors.New("has not looked")
			}
			return uses(1, 1)(s)
		})
	}
	c.settled(t)
	stop()
	if n := writes.Now(); n.Total > 0 {
		t.Errorf("a restart writes: %s", n)
	}

	t.Log("the definition was broken meanwhile: its kinds are served as they were")
	c.Put(t, strings.Replace(plain("v1", "XApp", claimable), "type: string", "type: strin", 1))
	c.Put(t, app("XApp", "", "b", false))
	c.port.served = nil
	stop = c.run(t, config)
	c.Await(t, c.kind("XApp"), "", "b", all(keeps("composite.apiextensions.crossplane.io")))
	c.Await(t, definition, "", c.name("xapps"), all(says("Established", "False", "InvalidDefinition", "served as it was before"), says("Offered", "False", "InvalidDefinition")))
	c.port.await(t, c.kind("XApp"), func(s *served) error {
		if err := uses(1, 1)(s); err != nil {
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

// idle is for how long nothing may happen. That nothing does is told by nobody, and so it
// takes a clock.
const idle = 3 * time.Second

// TestNothingIsAskedAtRest, nor while a deletion waits for what only others can do.
func TestNothingIsAskedAtRest(t *testing.T) {
	config := testkit.Another(t)
	c := apart(t, config)
	var counter testkit.Counter
	defer c.run(t, counter.Wrap(config))()
	c.Put(t, plain("v1", "XApp", claimable)+world+plain("v2", "Held", "")+world+strings.Replace(plain("v2", "Bad", ""), "type: string", "type: strin", 1)+world+pipeline("small", "XApp", "")+world+pipeline("missing", "XApp", "  - step: b\n    functionRef: {name: nobodys}\n"))
	c.Await(t, definition, "", c.name("xapps"), all(established, offered))
	c.Await(t, definition, "", c.name("helds"), established)
	c.Put(t, app("Claim", c.NS, "a", false)+app("XApp", "", "a", false)+app("Held", c.NS, "a", true))
	c.settled(t)
	c.Await(t, c.kind("Held"), c.NS, "a", all(keeps("composite.apiextensions.crossplane.io")))
	c.Delete(t, definition, "", c.name("helds"))
	c.Await(t, definition, "", c.name("helds"), all(says("Established", "False", "TerminatingCompositeResource", "1 of kind Held remains")))
	c.revisions(t, c.name("missing"), func(all map[int64]*unstructured.Unstructured) error {
		if all[1] == nil {
			return errors.New("there is none")
		}
		return says("ValidPipeline", "False", "MissingCapabilities")(all[1])
	})
	<-time.After(idle)
	before := counter.Now()
	<-time.After(idle)
	if asked := counter.Since(before); asked.Total > 0 {
		t.Errorf("in %s of nothing there were %d requests: %s", idle, asked.Total, asked)
	}
}

// TestSweep stops the controllers after each of their writes, while definitions come and
// while they go. The end is the same.
func TestSweep(t *testing.T) {
	config := testkit.Another(t)
	begun := apart(t, config)
	stop := begun.run(t, config)
	begun.Put(t, plain("v2", "First", "")) // what is installed is
	begun.Await(t, definition, "", begun.name("firsts"), established)
	stop()
	points := 0
	sweep := func(name string, before, act, settled func(*testing.T, corner), left func(*testing.T, corner) []string) {
		t.Run(name, func(t *testing.T) {
			want, writes := converge(t, config, 0, before, act, settled, left)
			for n := 1; n <= writes; n += testkit.Size(6, 1) {
				points++
				got, _ := converge(t, config, n, before, act, settled, left)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("after a crash at write %d of %d the world differs (-without +with):\n%s", n, writes, diff)
				}
			}
			t.Logf("%d writes", writes)
		})
	}
	come := func(t *testing.T, c corner) {
		c.Put(t, plain("v1", "XApp", claimable)+world+pipeline("small", "XApp", ""))
		c.Await(t, definition, "", c.name("xapps"), all(established, offered))
		c.Put(t, app("Claim", c.NS, "a", false)+app("XApp", "", "a", false))
	}
	settled := func(t *testing.T, c corner) { c.settled(t) }
	again := "  - step: second\n    functionRef: {name: function-auto-ready}\n"
	turned := func(t *testing.T, c corner) {
		c.Put(t, pipeline("small", "XApp", again))
		c.revisions(t, c.name("small"), numbers(1, 2))
		c.Put(t, pipeline("small", "XApp", ""))
	}
	sweep("they come", nil, come, settled, everything)
	sweep("a composition turns back", func(t *testing.T, c corner) { come(t, c); c.settled(t) }, turned, func(t *testing.T, c corner) {
		c.revisions(t, c.name("small"), func(all map[int64]*unstructured.Unstructured) error {
			for _, o := range all {
				if err := says("ValidPipeline", "True", "ValidPipeline")(o); err != nil {
					return err
				}
			}
			return numbers(2, 3)(all)
		})
	}, everything)
	sweep("they go", func(t *testing.T, c corner) { come(t, c); c.settled(t) },
		func(t *testing.T, c corner) { c.Delete(t, definition, "", c.name("xapps")) },
		func(t *testing.T, c corner) {
			c.AwaitGone(t, definition, "", c.name("xapps"))
			c.AwaitGone(t, crdKind, "", c.name("xapps"))
			c.AwaitGone(t, crdKind, "", c.name("claims"))
		}, everything)
	testkit.Say(t, "definitions: %d crash points", points)
}

// converge plays a part in a corner of its own, with a crash after the n-th write (none for
// 0), and returns what is there in the end and how many writes there were.
func converge(t *testing.T, config *rest.Config, n int, before, act, settled func(*testing.T, corner), left func(*testing.T, corner) []string) ([]string, int) {
	t.Helper()
	c := apart(t, config)
	if before != nil {
		stop := c.run(t, config)
		before(t, c)
		stop()
	}
	crash := testkit.NewCrash(n)
	stop := crash.Revive(config, func(through *rest.Config) func() { return c.run(t, through) })
	act(t, c)
	settled(t, c)
	stop()
	return left(t, c), crash.Writes()
}

// everything is what is there of a corner's, without what differs from run to run.
func everything(t *testing.T, c corner) []string {
	t.Helper()
	var out []string
	for _, gvk := range []schema.GroupVersionKind{definition, composition, revision, crdKind} {
		list, err := c.Of(t, gvk, "").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
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
