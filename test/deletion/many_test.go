package deletion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// member has five children in three layers.
var member = leafKind + "---" + suite.Graph("Member", "", `
    - id: a
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-a"}, data: {a: b}}
    - id: b
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-b"}, data: {a: "${a.data.a}"}}
    - id: c
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-c"}, spec: {a: "${a.data.a}"}}
    - id: d
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-d"}, data: {a: "${b.data.a}"}}
    - id: e
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-e"}, data: {a: "${b.data.a}"}}
`)

// TestSweepManyInstancesAreDeletedAtOnce deletes many instances with one request. None is blocked,
// so none reports a blocker at any time.
func TestSweepManyInstancesAreDeletedAtOnce(t *testing.T) {
	s := newSerialSuite(t)
	s.Apply(t, member)
	s.AwaitDefinitions(t, "member")
	deleteManyAtOnce(t, s, "Member", testkit.Size(60, 1000), s.Kind("Member"))
}

// TestSweepManyNestsAreDeletedAtOnce deletes many nests of three layers with one
// request: an object that is queued is not reported as a blocker.
func TestSweepManyNestsAreDeletedAtOnce(t *testing.T) {
	s := newSerialSuite(t)
	s.Apply(t, nest)
	s.AwaitDefinitions(t, "low", "mid", "top")
	deleteManyAtOnce(t, s, "Top", testkit.Size(30, 500), kindsOf(s, layers...)...)
}

// deleteManyAtOnce creates n instances of a kind and deletes them with one request.
func deleteManyAtOnce(t *testing.T, s suite.Suite, kind string, n int, instances ...schema.GroupVersionKind) {
	t.Helper()
	of := s.Resource(t, s.Kind(kind), s.NS)
	ready := watchUntil(t, s, s.Kind(kind), func(seen map[string]bool, e watch.Event, o *unstructured.Unstructured) bool {
		if e.Type != watch.Deleted && testkit.IsReady(o) == nil {
			seen[o.GetName()] = true
		}
		return len(seen) == n
	})
	var creating sync.WaitGroup
	errs := make([]error, n)
	slots := make(chan struct{}, 16)
	for i := range n {
		slots <- struct{}{}
		creating.Go(func() {
			defer func() { <-slots }()
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(s.Kind(kind))
			o.SetName(fmt.Sprintf("i%04d", i))
			_, errs[i] = of.Create(t.Context(), o, metav1.CreateOptions{})
		})
	}
	creating.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	ready(t)

	watched := watchKinds(t, s, instances, func(o *unstructured.Unstructured) error {
		if o.GetDeletionTimestamp() == nil {
			return nil
		}
		if d := report.ReadDeletion(o); d != nil && (len(d.Blockers) > 0 || len(d.LeftBehind) > 0) {
			return fmt.Errorf("reports blockers %+v and objects left behind %+v, but nothing blocks it", d.Blockers, d.LeftBehind)
		}
		return isNotInError(o)
	})
	gone := watchUntil(t, s, s.Kind(kind), func(seen map[string]bool, e watch.Event, o *unstructured.Unstructured) bool {
		if e.Type == watch.Deleted {
			seen[o.GetName()] = true
		}
		return len(seen) == n
	})
	before, began := requests.Snapshot(), time.Now()
	if err := of.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	requested := time.Since(began)
	gone(t)
	took, sent := time.Since(began), requests.Since(before)
	revisions := watched.check(t)
	expectNoInstances(t, s, instances...)
	testkit.Report(t, "deletion: %d of %s with one request are deleted in %.1f s, of which the request took %.1f s; %.1f requests each (%s); %d revisions seen, none blocked",
		n, kind, took.Seconds(), requested.Seconds(), float64(sent.Total)/float64(n), strings.ReplaceAll(sent.String(), ".example.com", ""), revisions)
}

// manyTimeout is how long the creation or deletion of many instances may take.
const manyTimeout = 5 * time.Minute

// watchUntil starts a watch of a kind. The returned function waits until check returns true, which
// gets each event, and a set to collect names in.
func watchUntil(t *testing.T, s suite.Suite, gvk schema.GroupVersionKind, check func(map[string]bool, watch.Event, *unstructured.Unstructured) bool) func(*testing.T) {
	t.Helper()
	of := s.Resource(t, gvk, s.NS)
	list, err := of.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), manyTimeout)
	revision, seen, done := list.GetResourceVersion(), map[string]bool{}, make(chan error, 1)
	go func() {
		defer cancel()
		for {
			events, err := of.Watch(ctx, metav1.ListOptions{ResourceVersion: revision, AllowWatchBookmarks: true})
			if err != nil {
				done <- err
				return
			}
			for e := range events.ResultChan() {
				o, ok := e.Object.(*unstructured.Unstructured)
				if !ok || e.Type == watch.Error {
					break
				}
				revision = o.GetResourceVersion()
				if e.Type != watch.Bookmark && check(seen, e, o) {
					events.Stop()
					done <- nil
					return
				}
			}
			events.Stop()
		}
	}()
	return func(t *testing.T) {
		t.Helper()
		if err := <-done; err != nil {
			t.Fatalf("%v, with %d seen", err, len(seen))
		}
	}
}

// expectNoInstances checks that neither instances of the kinds nor their children exist.
func expectNoInstances(t *testing.T, s suite.Suite, instances ...schema.GroupVersionKind) {
	t.Helper()
	expectNone(t, s, append(instances, suite.ConfigMap, leaf(s))...)
}

// expectNone checks that no object of the kinds is an instance or belongs to one.
func expectNone(t *testing.T, s suite.Suite, kinds ...schema.GroupVersionKind) {
	t.Helper()
	for _, gvk := range kinds {
		list := s.List(t, gvk, s.NS, "")
		for i := range list {
			if o := &list[i]; o.GetName() != "kube-root-ca.crt" {
				t.Errorf("%s remains", testkit.JSON(o))
			}
			if i == 5 {
				t.Fatalf("%d remain", len(list))
			}
		}
	}
}
