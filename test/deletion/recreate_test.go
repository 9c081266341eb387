package deletion

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// chain has children in three layers, each with the value of its instance.
var chain = leafKind + "---" + suite.Graph("Chain", `spec: {value: string}, status: {value: "${c.data.value}"}`, `
    - id: a
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-a"}, data: {value: "${schema.spec.value}"}}
    - id: b
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-b"}, spec: {value: "${a.data.value}"}}
    - id: c
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-c"}, data: {value: "${b.spec.value}"}}
`)

// valueNest is a nest of three layers: a value goes down in the specs and up in the statuses.
var valueNest = leafKind + "---" + suite.Graph("Low", `spec: {value: string}, status: {value: "${leaf.spec.value}"}`, `
    - id: below
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-below"}, data: {value: "${schema.spec.value}"}}
    - id: leaf
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-leaf"}, spec: {value: "${below.data.value}"}}
`) + "---" + suite.Graph("Mid", `spec: {value: string}, status: {value: "${low.status.value}"}`, `
    - id: low
      template: {apiVersion: $GROUP/v1alpha1, kind: Low, metadata: {name: "${schema.metadata.name}"}, spec: {value: "${schema.spec.value}"}}
`) + "---" + suite.Graph("Top", `spec: {value: string}, status: {value: "${mid.status.value}"}`, `
    - id: mid
      template: {apiVersion: $GROUP/v1alpha1, kind: Mid, metadata: {name: "${schema.metadata.name}"}, spec: {value: "${schema.spec.value}"}}
`)

// moment is the time at which an instance is deleted.
type moment string

const (
	whenReady   moment = "ready"
	whenCreated moment = "created" // possibly before the controllers have seen it
	whenClaimed moment = "claimed" // when it has its finalizer, before its first child is created
)

// TestSweepAnInstanceIsRecreatedRepeatedly deletes an instance and recreates it as soon as the API
// server accepts the name, and checks whether the children of each have its UID and its value.
func TestSweepAnInstanceIsRecreatedRepeatedly(t *testing.T) {
	for name, tc := range map[string]struct {
		rounds     int
		deleted    []moment
		concurrent bool // another client changes all objects
	}{
		"deleted when ready":                       {testkit.Size(14, 100), []moment{whenReady}, false},
		"every other deleted when created":         {testkit.Size(14, 100), []moment{whenCreated, whenReady}, false},
		"some deleted when claimed":                {testkit.Size(14, 100), []moment{whenClaimed, whenCreated, whenClaimed, whenReady}, false},
		"most deleted when created":                {testkit.Size(14, 100), []moment{whenCreated, whenCreated, whenCreated, whenCreated, whenReady}, false},
		"while another client changes all objects": {testkit.Size(14, 100), []moment{whenReady, whenClaimed}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.Apply(t, chain)
			s.AwaitDefinitions(t, "chain")
			l := loop{Suite: s, kind: s.Kind("Chain"), children: map[string]child{
				"x-a": {suite.ConfigMap, "data"}, "x-b": {leaf(s), "spec"}, "x-c": {suite.ConfigMap, "data"},
			}}
			if tc.concurrent {
				defer changeConcurrently(t, s, l.kind, suite.ConfigMap, leaf(s))()
			}
			l.run(t, tc.rounds, tc.deleted)
			awaitNothingLeft(t, s, l.kind)
		})
	}
}

// TestSweepANestIsRecreatedRepeatedly is TestSweepAnInstanceIsRecreatedRepeatedly with three layers.
func TestSweepANestIsRecreatedRepeatedly(t *testing.T) {
	for name, deleted := range map[string][]moment{
		"deleted when ready":  {whenReady},
		"some deleted before": {whenCreated, whenReady, whenClaimed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.Apply(t, valueNest)
			s.AwaitDefinitions(t, "low", "mid", "top")
			l := loop{Suite: s, kind: s.Kind("Top"), children: map[string]child{"x": {s.Kind("Mid"), "spec"}}, below: map[string]child{
				"x-below": {suite.ConfigMap, "data"}, "x-leaf": {leaf(s), "spec"},
			}}
			l.run(t, testkit.Size(10, 100), deleted)
			awaitNothingLeft(t, s, kindsOf(s, layers...)...)
		})
	}
}

// awaitNothingLeft waits until no object is an instance of the kinds or a child of one. The API
// server may delete an instance just before its finalizer is added; its children are deleted after
// it then.
func awaitNothingLeft(t *testing.T, s suite.Suite, instances ...schema.GroupVersionKind) {
	t.Helper()
	for _, gvk := range append(instances, suite.ConfigMap, leaf(s)) {
		s.AwaitList(t, gvk, s.NS, "", func(all map[string]*unstructured.Unstructured) error {
			for name := range all {
				if !strings.HasSuffix(name, "/kube-root-ca.crt") {
					return errors.New(gvk.Kind + " " + name + " remains")
				}
			}
			return nil
		})
	}
	expectNoInstances(t, s, instances...)
}

// loop deletes and recreates the instance x of a kind.
type loop struct {
	suite.Suite
	kind schema.GroupVersionKind
	// children are its own children, below those of nested instances, by name.
	children, below map[string]child
}

// child is the kind of a child, and its field with the value of the instance.
type child struct {
	schema.GroupVersionKind
	field string
}

func (l loop) run(t *testing.T, rounds int, moments []moment) {
	t.Helper()
	began := time.Now()
	for i := range rounds {
		value := strconv.Itoa(i)
		made := l.create(t, value)
		switch moments[i%len(moments)] {
		case whenReady:
			l.awaitReadyWith(t, made, value)
		case whenClaimed:
			l.Await(t, l.kind, l.NS, "x", func(o *unstructured.Unstructured) error {
				if o == nil || len(o.GetFinalizers()) == 0 {
					return errors.New("has no finalizer")
				}
				return nil
			})
		case whenCreated:
		}
		uid := made.GetUID()
		err := l.Resource(t, l.kind, l.NS).Delete(t.Context(), "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		l.awaitDeleted(t, uid)
	}
	testkit.Report(t, "deletion: %s is recreated %d times in %.1f s (%s)", l.kind.Kind, rounds, time.Since(began).Seconds(), t.Name())
}

// create creates the instance x.
func (l loop) create(t *testing.T, value string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"value": value}}}
	o.SetGroupVersionKind(l.kind)
	o.SetName("x")
	made, err := l.Resource(t, l.kind, l.NS).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s: %v", value, err)
	}
	return made
}

// awaitReadyWith waits until the instance is ready with its value, and checks its children.
func (l loop) awaitReadyWith(t *testing.T, made *unstructured.Unstructured, value string) {
	t.Helper()
	l.Await(t, l.kind, l.NS, "x", func(o *unstructured.Unstructured) error {
		if err := testkit.IsReady(o); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(o.Object, "status", "value"); o.GetUID() != made.GetUID() || got != value {
			return fmt.Errorf("has UID %s and the value %q, not %s and %q", o.GetUID(), got, made.GetUID(), value)
		}
		return nil
	})
	for name, c := range l.children {
		if o := l.Get(t, c.GroupVersionKind, l.NS, name); o == nil || o.GetLabels()["kro.run/instance-id"] != string(made.GetUID()) {
			t.Fatalf("%s is no child of UID %s: %s", name, made.GetUID(), testkit.JSON(o))
		}
		l.checkValue(t, name, c, value)
	}
	for name, c := range l.below {
		l.checkValue(t, name, c, value)
	}
}

func (l loop) checkValue(t *testing.T, name string, c child, value string) {
	t.Helper()
	o := l.Get(t, c.GroupVersionKind, l.NS, name)
	if o == nil || o.GetDeletionTimestamp() != nil {
		t.Fatalf("%s of a ready instance: %s", name, testkit.JSON(o))
	}
	if got, _, _ := unstructured.NestedString(o.Object, c.field, "value"); got != value {
		t.Fatalf("%s has the value %q, not %q", name, got, value)
	}
}

// changeConcurrently annotates objects of the kinds after each of their changes, as another
// controller may, until it is stopped.
func changeConcurrently(t *testing.T, s suite.Suite, kinds ...schema.GroupVersionKind) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for _, gvk := range kinds {
		of := s.Resource(t, gvk, s.NS)
		events, err := of.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		done.Go(func() {
			written := map[string]bool{}
			for e := range events.ResultChan() {
				o, ok := e.Object.(*unstructured.Unstructured)
				if !ok || e.Type == watch.Deleted || written[o.GetResourceVersion()] {
					continue
				}
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/seen":%q}}}`, o.GetResourceVersion())
				if made, err := of.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
					written[made.GetResourceVersion()] = true
				}
			}
		})
	}
	return func() {
		cancel()
		done.Wait()
	}
}

// awaitDeleted waits until the instance with the UID is deleted.
func (l loop) awaitDeleted(t *testing.T, uid types.UID) {
	t.Helper()
	l.Await(t, l.kind, l.NS, "x", func(o *unstructured.Unstructured) error {
		if o != nil && o.GetUID() == uid {
			return errors.New("still exists")
		}
		return nil
	})
}

// rival has a child whose name does not depend on that of the instance.
var rival = suite.Graph("Rival", `spec: {value: string}, status: {value: "${only.data.value}"}`, `
    - id: only
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: only}, data: {value: "${schema.spec.value}"}}
    - id: own
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-own"}, data: {value: "${only.data.value}"}}
`)

// TestSweepTwoInstancesConflictOverOneName has two instances with a child of the same name, and
// repeatedly deletes the one that owns it.
func TestSweepTwoInstancesConflictOverOneName(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, rival)
	s.AwaitDefinitions(t, "rival")
	of := s.Resource(t, s.Kind("Rival"), s.NS)
	create := func(name, value string) *unstructured.Unstructured {
		t.Helper()
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"value": value}}}
		o.SetGroupVersionKind(s.Kind("Rival"))
		o.SetName(name)
		made, err := of.Create(t.Context(), o, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	awaitOwner := func(name, value string, uid types.UID) {
		t.Helper()
		s.Await(t, s.Kind("Rival"), s.NS, name, func(o *unstructured.Unstructured) error {
			if err := testkit.IsReady(o); err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedString(o.Object, "status", "value"); got != value || o.GetUID() != uid {
				return fmt.Errorf("status.value is %q, not %q", got, value)
			}
			return nil
		})
		only := s.Get(t, suite.ConfigMap, s.NS, "only")
		if got, _, _ := unstructured.NestedString(only.Object, "data", "value"); got != value || only.GetLabels()["kro.run/instance-id"] != string(uid) {
			t.Fatalf("only does not belong to %s with the value %s: %s", name, value, testkit.JSON(only))
		}
	}
	names := [2]string{"one", "two"}
	owner := create(names[0], "0")
	awaitOwner(names[0], "0", owner.GetUID())
	rounds := testkit.Size(16, 100)
	began := time.Now()
	for i := 1; i <= rounds; i++ {
		value := strconv.Itoa(i)
		newcomer := create(names[i%2], value)
		if i%3 != 0 { // every third may not have been reconciled yet
			s.Await(t, s.Kind("Rival"), s.NS, names[i%2], isWaiting("NotOwned", "only already exists and belongs to Rival "+s.NS+"/"+owner.GetName()))
		}
		only := s.Get(t, suite.ConfigMap, s.NS, "only")
		if only.GetLabels()["kro.run/instance-id"] != string(owner.GetUID()) {
			t.Fatalf("round %d: only has another owner: %s", i, testkit.JSON(only))
		}
		s.Delete(t, s.Kind("Rival"), s.NS, owner.GetName())
		awaitOwner(names[i%2], value, newcomer.GetUID())
		s.AwaitGone(t, s.Kind("Rival"), s.NS, owner.GetName())
		owner = newcomer
	}
	s.Delete(t, s.Kind("Rival"), s.NS, owner.GetName())
	s.AwaitGone(t, s.Kind("Rival"), s.NS, owner.GetName())
	testkit.Report(t, "deletion: the owner of one name changes %d times between two instances in %.1f s", rounds, time.Since(began).Seconds())
	expectNone(t, s, s.Kind("Rival"), suite.ConfigMap)
}
