// Package live loads recorded states of clusters into an API server: what other engines
// had made when they were stopped, with status, owners, deletions and managed fields.
package live

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit"
)

//go:embed testdata/*.yaml
var recorded embed.FS

// State is what an engine had made.
type State string

// The recorded states. What the engines' own CustomResourceDefinitions were is in
// Installed.
const (
	Crossplane State = "crossplane"
	KRO        State = "kro"
)

// manager makes objects here before they get the managed fields that were recorded.
const manager = "load"

// loader puts the objects of one state into a cluster.
type loader struct {
	*testkit.Cluster
	// uids are the UIDs that objects have here, by those that were recorded.
	uids map[string]string
	// made are the objects as they are here, in the order in which they were created.
	made []*createdObject
}

// createdObject is an object that was created, and what was recorded of it.
type createdObject struct {
	recorded, here *unstructured.Unstructured
}

// Load puts states into a cluster whose API server has no objects of theirs yet. Objects
// get new UIDs, by which all that mentions the recorded ones refers to them. Generations
// start again, and what was observed of them is moved along. The objects are returned as
// they are then, by "Kind namespace/name".
func Load(t *testing.T, w *testkit.Cluster, states ...State) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	for _, state := range states {
		raw, err := recorded.ReadFile("testdata/" + string(state) + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		l := &loader{Cluster: w, uids: map[string]string{}}
		for _, c := range InstalledCRDs(t, state) {
			l.create(t, c)
		}
		l.createAll(t, testkit.Parse(t, string(raw)))
		l.deleteAll(t)
		for _, m := range l.made {
			l.observe(t, m)
			l.attribute(t, m)
			out[m.here.GetKind()+" "+m.here.GetNamespace()+"/"+m.here.GetName()] = m.here
		}
	}
	return out
}

// createAll creates each object once everything is there that it needs: its kind, its
// namespace, and the objects whose UIDs it mentions.
func (l *loader) createAll(t *testing.T, pending []*unstructured.Unstructured) {
	t.Helper()
	for len(pending) > 0 {
		missing := provided(pending)
		var later []*unstructured.Unstructured
		for _, o := range pending {
			if l.needs(t, o, missing) {
				later = append(later, o)
				continue
			}
			if o.GetKind() == "Namespace" && l.Get(t, o.GroupVersionKind(), "", o.GetName()) != nil {
				continue // of another state, too
			}
			here := l.create(t, o)
			l.uids[string(o.GetUID())] = string(here.GetUID())
			l.made = append(l.made, &createdObject{recorded: o, here: l.mentionItself(t, o, here)})
			delete(missing, string(o.GetUID()))
		}
		if len(later) > 0 && len(later) == len(pending) {
			t.Fatalf("%d objects wait for each other, %s %s among them", len(later), later[0].GetKind(), later[0].GetName())
		}
		pending = later
	}
}

// provided is what is there only after objects: their UIDs, kinds and namespaces.
func provided(objects []*unstructured.Unstructured) map[string]bool {
	out := map[string]bool{}
	for _, o := range objects {
		out[string(o.GetUID())] = true
		switch o.GetKind() {
		case "Namespace":
			out[o.GetName()] = true
		case "CustomResourceDefinition":
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
			out[kind+"."+group] = true
		}
	}
	return out
}

// needs reports whether an object needs something that is missing.
func (l *loader) needs(t *testing.T, o *unstructured.Unstructured, missing map[string]bool) bool {
	t.Helper()
	if missing[o.GroupVersionKind().GroupKind().String()] || missing[o.GetNamespace()] {
		return true
	}
	text := encode(t, o.Object)
	for uid := range missing {
		if uid != string(o.GetUID()) && len(uid) == 36 && strings.Contains(text, uid) {
			return true
		}
	}
	return false
}

// create creates an object without its status, and as if nobody deleted it.
func (l *loader) create(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	fresh := l.translateUIDs(t, o)
	delete(fresh.Object, "status")
	for _, field := range []string{"uid", "generation", "deletionTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(fresh.Object, "metadata", field)
	}
	fresh.SetFinalizers(without(o.GetFinalizers(), metav1.FinalizerDeleteDependents))
	here, err := l.client(t, fresh).Create(t.Context(), fresh, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		t.Fatalf("create %s %s/%s: %v", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	return here
}

// mentionItself completes an object that mentions its own UID.
func (l *loader) mentionItself(t *testing.T, o, here *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	rest := o.DeepCopy()
	rest.SetUID("")
	if !strings.Contains(encode(t, rest.Object), string(o.GetUID())) {
		return here
	}
	next := l.translateUIDs(t, here)
	next.SetUID(here.GetUID())
	return l.update(t, next)
}

// deleteAll deletes what was being deleted, children first. The garbage collector must know
// the children of what is deleted in the foreground, or it would let that go.
func (l *loader) deleteAll(t *testing.T) {
	t.Helper()
	for i := len(l.made) - 1; i >= 0; i-- {
		m := l.made[i]
		if m.recorded.GetDeletionTimestamp() == nil {
			continue
		}
		policy := metav1.DeletePropagationBackground
		for _, name := range m.recorded.GetFinalizers() {
			if name == metav1.FinalizerDeleteDependents {
				policy = metav1.DeletePropagationForeground
				l.awaitCollector(t, m.here)
			}
		}
		of, name := l.client(t, m.here), m.here.GetName()
		if err := of.Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatalf("delete %s %s: %v", m.here.GetKind(), name, err)
		}
		deleted, err := of.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("%s %s was being deleted, and is gone: %v", m.here.GetKind(), name, err)
		}
		m.here = deleted
	}
}

// awaitCollector waits until the garbage collector watches an object's children, by
// creating others of their kinds, whose owner has never been there.
func (l *loader) awaitCollector(t *testing.T, owner *unstructured.Unstructured) {
	t.Helper()
	for _, m := range l.made {
		if !metav1.IsControlledBy(m.here, owner) {
			continue
		}
		probe := m.here.DeepCopy()
		probe.SetName("probe-" + string(owner.GetUID()))
		probe.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: "never", UID: types.UID("probe-" + string(owner.GetUID())),
		}})
		probe.SetFinalizers(nil)
		probe.SetResourceVersion("")
		probe.SetDeletionTimestamp(nil)
		l.create(t, probe)
		l.AwaitGone(t, probe.GroupVersionKind(), probe.GetNamespace(), probe.GetName())
	}
}

// observe writes the status that was recorded.
func (l *loader) observe(t *testing.T, m *createdObject) {
	t.Helper()
	status, _, _ := unstructured.NestedMap(l.translateUIDs(t, m.recorded).Object, "status")
	if len(status) == 0 || m.here.GetKind() == "Namespace" {
		return
	}
	shiftObservedGenerations(status, m.here.GetGeneration()-max(m.recorded.GetGeneration(), 1)) // a first one is not recorded
	next := m.here.DeepCopy()
	next.Object["status"] = status
	here, err := l.client(t, next).UpdateStatus(t.Context(), next, metav1.UpdateOptions{FieldManager: manager})
	if err != nil {
		t.Fatalf("write the status of %s %s: %v", next.GetKind(), next.GetName(), err)
	}
	m.here = here
}

// shiftObservedGenerations adds to all generations that a status says were observed.
func shiftObservedGenerations(status map[string]any, by int64) {
	const field = "observedGeneration"
	if n, ok := status[field].(int64); ok {
		status[field] = n + by
	}
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			if n, ok := c[field].(int64); ok {
				c[field] = max(n+by, 0)
			}
		}
	}
}

// attribute gives an object the managed fields that were recorded.
func (l *loader) attribute(t *testing.T, m *createdObject) {
	t.Helper()
	entries, _, _ := unstructured.NestedSlice(l.translateUIDs(t, m.recorded).Object, "metadata", "managedFields")
	for _, entry := range entries {
		entry, _ := entry.(map[string]any)
		var fields map[string]any
		if err := json.Unmarshal([]byte(entry["fieldsV1"].(string)), &fields); err != nil {
			t.Fatal(err)
		}
		entry["fieldsType"], entry["fieldsV1"] = "FieldsV1", fields
	}
	next := m.here.DeepCopy()
	if err := unstructured.SetNestedSlice(next.Object, entries, "metadata", "managedFields"); err != nil {
		t.Fatal(err)
	}
	m.here = l.update(t, next)
}

// update replaces an object. What was updated meanwhile by the API server's own
// controllers is read again.
func (l *loader) update(t *testing.T, next *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	for {
		here, err := l.client(t, next).Update(t.Context(), next, metav1.UpdateOptions{FieldManager: manager})
		if err == nil {
			return here
		}
		current := l.Get(t, next.GroupVersionKind(), next.GetNamespace(), next.GetName())
		if !apierrors.IsConflict(err) || current == nil {
			t.Fatalf("update %s %s: %v", next.GetKind(), next.GetName(), err)
		}
		next.SetResourceVersion(current.GetResourceVersion())
	}
}

func (l *loader) client(t *testing.T, o *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	return l.Resource(t, o.GroupVersionKind(), o.GetNamespace())
}

// translateUIDs is an object with the UIDs that objects have here.
func (l *loader) translateUIDs(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	var pairs []string
	for was, is := range l.uids {
		pairs = append(pairs, was, is)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON([]byte(strings.NewReplacer(pairs...).Replace(encode(t, o.Object)))); err != nil {
		t.Fatal(err)
	}
	return out
}

func encode(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func without(list []string, drop string) []string {
	var out []string
	for _, item := range list {
		if item != drop {
			out = append(out, item)
		}
	}
	return out
}

// IsSameObject checks that an object is the one that was loaded, by its UID, and is not being
// deleted unless it was.
func IsSameObject(before, after *unstructured.Unstructured) error {
	switch {
	case after == nil:
		return errors.New("is gone")
	case after.GetUID() != before.GetUID():
		return fmt.Errorf("has been replaced: its UID was %s and is %s", before.GetUID(), after.GetUID())
	case before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil:
		return errors.New("is being deleted")
	}
	return nil
}
