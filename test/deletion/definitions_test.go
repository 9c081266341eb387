package deletion

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestDefinitionsAreDeletedWhileTheNestIs deletes the definitions, in every order,
// while a finalizer of a leaf blocks the deletion of the nest: that deletion needs no definition, and
// the definitions wait until their last instance is deleted.
func TestDefinitionsAreDeletedWhileTheNestIs(t *testing.T) {
	for _, order := range [][]string{
		{"low", "mid", "top"}, {"low", "top", "mid"}, {"mid", "low", "top"}, {"mid", "top", "low"}, {"top", "low", "mid"}, {"top", "mid", "low"},
	} {
		t.Run(strings.Join(order, ", "), func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			setFinalizers(t, s, leaf(s), "x-leaf", guard)
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			for _, name := range order {
				s.Delete(t, suite.RGD, "", s.Name(name))
			}
			for _, name := range order {
				s.Await(t, suite.RGD, "", s.Name(name), countsInstances(1))
			}
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			setFinalizers(t, s, leaf(s), "x-leaf")
			awaitNestGone(t, s)
			for _, name := range order {
				s.AwaitGone(t, suite.RGD, "", s.Name(name))
			}
			for _, kind := range layers {
				s.AwaitGone(t, suite.CRD, "", kindCRD(s, kind))
			}
			awaitGone(t, s, leaf(s), "x-below")
		})
	}
}

const anotherTop = "apiVersion: $GROUP/v1alpha1\nkind: Top\nmetadata: {name: other, namespace: $NS}\n"

// TestDefinitionsWithInstancesWaitAndCountThem deletes the definitions of two
// nests, which stay until a user deletes them.
func TestDefinitionsWithInstancesWaitAndCountThem(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	s.Apply(t, anotherTop)
	s.AwaitReady(t, s.Kind("Top"), s.NS, "other")
	before := nestUIDs(t, s)
	definitions := []string{"low", "mid", "top"}
	for _, name := range definitions {
		s.Delete(t, suite.RGD, "", s.Name(name))
	}
	for _, name := range definitions {
		s.Await(t, suite.RGD, "", s.Name(name), countsInstances(2))
	}
	s.Delete(t, s.Kind("Top"), s.NS, "other")
	for _, name := range definitions {
		s.Await(t, suite.RGD, "", s.Name(name), countsInstances(1))
	}
	after := nestUIDs(t, s)
	for object, uid := range before {
		if strings.HasPrefix(object, "x") && after[object] != uid {
			t.Errorf("the UID of %s was %s and is %s", object, uid, after[object])
		}
	}
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	awaitNestGone(t, s)
	for _, name := range definitions {
		s.AwaitGone(t, suite.RGD, "", s.Name(name))
	}
	for _, kind := range layers {
		s.AwaitGone(t, suite.CRD, "", kindCRD(s, kind))
	}
}

// TestRecreatedDefinitionsServeTheirInstances deletes the definitions
// of instances, with and without a deletion timestamp, and recreates them.
func TestRecreatedDefinitionsServeTheirInstances(t *testing.T) {
	remove := func(t *testing.T, s suite.Suite) {
		t.Helper()
		for _, name := range []string{"top", "mid", "low"} {
			patch := `{"metadata":{"annotations":{"kro.run/allow-orphans":"true"}}}`
			s.Patch(t, suite.RGD, "", s.Name(name), patch)
			s.Delete(t, suite.RGD, "", s.Name(name))
		}
		for _, name := range []string{"top", "mid", "low"} {
			s.AwaitGone(t, suite.RGD, "", s.Name(name))
		}
	}
	recreate := func(t *testing.T, s suite.Suite) {
		t.Helper()
		s.Apply(t, nest)
		s.AwaitDefinitions(t, "low", "mid", "top")
	}
	t.Run("with unchanged instances", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		before := nestUIDs(t, s)
		remove(t, s)
		recreate(t, s)
		for i, kind := range layers {
			definition := s.Get(t, suite.RGD, "", s.Name([]string{"low", "mid", "top"}[i]))
			s.Await(t, s.Kind(kind), s.NS, "x", hasLabel("kro.run/resource-graph-definition-id", string(definition.GetUID())))
			s.AwaitReady(t, s.Kind(kind), s.NS, "x")
		}
		after := nestUIDs(t, s)
		for object, uid := range before {
			if after[object] != uid {
				t.Errorf("the UID of %s was %s and is %s", object, uid, after[object])
			}
		}
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
	t.Run("with instances that are deleted meanwhile", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		remove(t, s)
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		recreate(t, s)
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
	t.Run("with instances whose deletion is blocked", func(t *testing.T) {
		s := newSuite(t)
		buildBlocked(t, s)
		since := report.ReadDeletion(s.Get(t, s.Kind("Top"), s.NS, "x")).Blockers[0].Since
		remove(t, s)
		setFinalizers(t, s, leaf(s), "x-leaf")
		awaitGone(t, s, leaf(s), "x-leaf")
		setFinalizers(t, s, leaf(s), "x-below", guard)
		recreate(t, s)
		awaitBlocked(t, s, "x-below", report.HeldByFinalizer, guard)
		if now := report.ReadDeletion(s.Get(t, s.Kind("Top"), s.NS, "x")).Blockers[0].Since; now.Before(since.Time) {
			t.Errorf("Top reports a blocker since %s, and before since %s", now, since)
		}
		setFinalizers(t, s, leaf(s), "x-below")
		awaitNestGone(t, s)
	})
}
