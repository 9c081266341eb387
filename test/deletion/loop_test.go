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

// phoenix has children on three layers, each with the value of its instance.
var phoenix = leafKind + `
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-phoenix}
spec:
  schema: {apiVersion: v1alpha1, kind: Phoenix, group: $GROUP, spec: {value: string}, status: {value: "${c.data.value}"}}
  resources:
    - id: a
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-a"}, data: {value: "${schema.spec.value}"}}
    - id: b
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-b"}, spec: {value: "${a.data.value}"}}
    - id: c
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-c"}, data: {value: "${b.spec.value}"}}
`

// valued is a nest of three layers through which a value goes down and up again.
var valued = leafKind + `
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-low}
spec:
  schema: {apiVersion: v1alpha1, kind: Low, group: $GROUP, spec: {value: string}, status: {value: "${leaf.spec.value}"}}
  resources:
    - id: below
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-below"}, data: {value: "${schema.spec.value}"}}
    - id: leaf
      template: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: "${schema.metadata.name}-leaf"}, spec: {value: "${below.data.value}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-mid}
spec:
  schema: {apiVersion: v1alpha1, kind: Mid, group: $GROUP, spec: {value: string}, status: {value: "${low.status.value}"}}
  resources:
    - id: low
      template: {apiVersion: $GROUP/v1alpha1, kind: Low, metadata: {name: "${schema.metadata.name}"}, spec: {value: "${schema.spec.value}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-top}
spec:
  schema: {apiVersion: v1alpha1, kind: Top, group: $GROUP, spec: {value: string}, status: {value: "${mid.status.value}"}}
  resources:
    - id: mid
      template: {apiVersion: $GROUP/v1alpha1, kind: Mid, metadata: {name: "${schema.metadata.name}"}, spec: {value: "${schema.spec.value}"}}
`

// moment is when an instance in the loop is deleted.
type moment string

const (
	whenReady   moment = "ready"
	whenMade    moment = "made"    // nobody may have seen it yet
	whenClaimed moment = "claimed" // its first child is about to be made
)

// TestSweepANameIsRebornAHundredTimes deletes and recreates an instance, as soon
// as the API server takes it, and checks whether each incarnation has what is its
// own: objects with its UID and its value.
func TestSweepANameIsRebornAHundredTimes(t *testing.T) {
	for name, tc := range map[string]struct {
		rounds  int
		deleted []moment
		meddled bool
	}{
		"deleted when it is ready":              {testkit.Size(14, 100), []moment{whenReady}, false},
		"every other deleted as soon as made":   {testkit.Size(14, 100), []moment{whenMade, whenReady}, false},
		"some deleted when they are claimed":    {testkit.Size(14, 100), []moment{whenClaimed, whenMade, whenClaimed, whenReady}, false},
		"most deleted before anybody saw them":  {testkit.Size(14, 100), []moment{whenMade, whenMade, whenMade, whenMade, whenReady}, false},
		"while somebody meddles with all of it": {testkit.Size(14, 100), []moment{whenReady, whenClaimed}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.Apply(t, phoenix)
			s.AwaitDefinitions(t, "phoenix")
			l := loop{Suite: s, kind: s.Kind("Phoenix"), children: map[string]child{
				"x-a": {suite.ConfigMap, "data"}, "x-b": {leaf(s), "spec"}, "x-c": {suite.ConfigMap, "data"},
			}}
			if tc.meddled {
				defer changeConcurrently(t, s, l.kind, suite.ConfigMap, leaf(s))()
			}
			l.run(t, tc.rounds, tc.deleted)
			awaitNothingLeft(t, s, l.kind)
		})
	}
}

// TestSweepANestIsRebornAHundredTimes does so with three layers.
func TestSweepANestIsRebornAHundredTimes(t *testing.T) {
	for name, deleted := range map[string][]moment{
		"deleted when it is ready": {whenReady},
		"some deleted before that": {whenMade, whenReady, whenClaimed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.Apply(t, valued)
			s.AwaitDefinitions(t, "low", "mid", "top")
			l := loop{Suite: s, kind: s.Kind("Top"), children: map[string]child{"x": {s.Kind("Mid"), "spec"}}, below: map[string]child{
				"x-below": {suite.ConfigMap, "data"}, "x-leaf": {leaf(s), "spec"},
			}}
			l.run(t, testkit.Size(10, 100), deleted)
			awaitNothingLeft(t, s, kindsOf(s, layers...)...)
		})
	}
}

// awaitNothingLeft waits until no object is an instance of the kinds or belongs to one. The API
// server may delete an instance while it gets its finalizer, and then what was made for it
// goes after it.
func awaitNothingLeft(t *testing.T, s suite.Suite, instances ...schema.GroupVersionKind) {
	t.Helper()
	for _, gvk := range append(instances, suite.ConfigMap, leaf(s)) {
		err := testkit.AwaitList(t.Context(), s.Resource(t, gvk, s.NS), metav1.ListOptions{}, func(all map[string]*unstructured.Unstructured) error {
			for name := range all {
				if !strings.HasSuffix(name, "/kube-root-ca.crt") {
					return errors.New(gvk.Kind + " " + name + " is left over")
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	expectNoInstances(t, s, instances...)
}

// loop deletes and recreates the instance x of a kind.
type loop struct {
	suite.Suite
	kind schema.GroupVersionKind
	// children are its own objects, below those further down, by name.
	children, below map[string]child
}

// child is an object of an instance, which has the instance's value in a field.
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
			l.await(t, made, value)
		case whenClaimed:
			l.Await(t, l.kind, l.NS, "x", func(o *unstructured.Unstructured) error {
				if o == nil || len(o.GetFinalizers()) == 0 {
					return errors.New("has no finalizer")
				}
				return nil
			})
		case whenMade:
		}
		uid := made.GetUID()
		err := l.Resource(t, l.kind, l.NS).Delete(t.Context(), "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		l.awaitEnd(t, uid)
	}
	testkit.Report(t, "deletion: %s is reborn %d times in %.1f s (%s)", l.kind.Kind, rounds, time.Since(began).Seconds(), t.Name())
}

// create creates an incarnation, after the former is gone.
func (l loop) create(t *testing.T, value string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"value": value}}}
	o.SetGroupVersionKind(l.kind)
	o.SetName("x")
	made, err := l.Resource(t, l.kind, l.NS).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make %s: %v", value, err)
	}
	return made
}

// await waits until the incarnation is ready with its value, and checks its children.
func (l loop) await(t *testing.T, made *unstructured.Unstructured, value string) {
	t.Helper()
	l.Await(t, l.kind, l.NS, "x", func(o *unstructured.Unstructured) error {
		if err := testkit.IsReady(o); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(o.Object, "status", "value"); o.GetUID() != made.GetUID() || got != value {
			return fmt.Errorf("is %s with the value %q, not %s with %q", o.GetUID(), got, made.GetUID(), value)
		}
		return nil
	})
	for name, c := range l.children {
		if o := l.Get(t, c.GroupVersionKind, l.NS, name); o == nil || o.GetLabels()["kro.run/instance-id"] != string(made.GetUID()) {
			t.Fatalf("%s is not of %s: %s", name, made.GetUID(), testkit.JSON(o))
		}
		l.has(t, name, c, value)
	}
	for name, c := range l.below {
		l.has(t, name, c, value)
	}
}

func (l loop) has(t *testing.T, name string, c child, value string) {
	t.Helper()
	o := l.Get(t, c.GroupVersionKind, l.NS, name)
	if o == nil || o.GetDeletionTimestamp() != nil {
		t.Fatalf("%s of a ready instance: %s", name, testkit.JSON(o))
	}
	if got, _, _ := unstructured.NestedString(o.Object, c.field, "value"); got != value {
		t.Fatalf("%s has the value %q, not %q", name, got, value)
	}
}

// changeConcurrently annotates objects of the kinds after each change, as another controller
// may, until it is stopped.
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
			ours := map[string]bool{}
			for e := range events.ResultChan() {
				o, ok := e.Object.(*unstructured.Unstructured)
				if !ok || e.Type == watch.Deleted || ours[o.GetResourceVersion()] {
					continue
				}
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/seen":%q}}}`, o.GetResourceVersion())
				if made, err := of.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
					ours[made.GetResourceVersion()] = true
				}
			}
		})
	}
	return func() {
		cancel()
		done.Wait()
	}
}

// awaitEnd waits until an incarnation is gone.
func (l loop) awaitEnd(t *testing.T, uid types.UID) {
	t.Helper()
	l.Await(t, l.kind, l.NS, "x", func(o *unstructured.Unstructured) error {
		if o != nil && o.GetUID() == uid {
			return errors.New("is still there")
		}
		return nil
	})
}

// rival has one child, whose name does not depend on its own.
const rival = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-rival}
spec:
  schema: {apiVersion: v1alpha1, kind: Rival, group: $GROUP, spec: {value: string}, status: {value: "${only.data.value}"}}
  resources:
    - id: only
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: only}, data: {value: "${schema.spec.value}"}}
    - id: own
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-own"}, data: {value: "${only.data.value}"}}
`

// TestSweepTwoInstancesFightForOneName lets two instances want an object of the
// same name, and deletes the one that has it, repeatedly.
func TestSweepTwoInstancesFightForOneName(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, rival)
	s.AwaitDefinitions(t, "rival")
	of := s.Resource(t, s.Kind("Rival"), s.NS)
	put := func(name, value string) *unstructured.Unstructured {
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
	has := func(name, value string, uid types.UID) {
		t.Helper()
		s.Await(t, s.Kind("Rival"), s.NS, name, func(o *unstructured.Unstructured) error {
			if err := testkit.IsReady(o); err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedString(o.Object, "status", "value"); got != value || o.GetUID() != uid {
				return fmt.Errorf("shows %q, not %q", got, value)
			}
			return nil
		})
		only := s.Get(t, suite.ConfigMap, s.NS, "only")
		if got, _, _ := unstructured.NestedString(only.Object, "data", "value"); got != value || only.GetLabels()["kro.run/instance-id"] != string(uid) {
			t.Fatalf("it is not %s's with %s: %s", name, value, testkit.JSON(only))
		}
	}
	names := [2]string{"one", "two"}
	holder := put(names[0], "0")
	has(names[0], "0", holder.GetUID())
	rounds := testkit.Size(16, 100)
	began := time.Now()
	for i := 1; i <= rounds; i++ {
		value := strconv.Itoa(i)
		newcomer := put(names[i%2], value)
		if i%3 != 0 { // of every third nobody knows whether it has looked yet
			s.Await(t, s.Kind("Rival"), s.NS, names[i%2], isWaiting("NotOwned", "only already exists and belongs to Rival "+s.NS+"/"+holder.GetName()))
		}
		only := s.Get(t, suite.ConfigMap, s.NS, "only")
		if only.GetLabels()["kro.run/instance-id"] != string(holder.GetUID()) {
			t.Fatalf("round %d: it was taken over: %s", i, testkit.JSON(only))
		}
		s.Delete(t, s.Kind("Rival"), s.NS, holder.GetName())
		has(names[i%2], value, newcomer.GetUID())
		s.AwaitGone(t, s.Kind("Rival"), s.NS, holder.GetName())
		holder = newcomer
	}
	s.Delete(t, s.Kind("Rival"), s.NS, holder.GetName())
	s.AwaitGone(t, s.Kind("Rival"), s.NS, holder.GetName())
	testkit.Report(t, "deletion: two instances take one name from each other %d times in %.1f s", rounds, time.Since(began).Seconds())
	expectNone(t, s, s.Kind("Rival"), suite.ConfigMap)
}
