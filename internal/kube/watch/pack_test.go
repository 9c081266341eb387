package watch

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/shard"
)

const packedJSON = `{"apiVersion":"kro.run/v1alpha1","kind":"GraphRevision","metadata":{"name":"a","labels":{"x":"y"},"resourceVersion":"7","creationTimestamp":"2026-01-02T03:04:05Z",
		"ownerReferences":[{"apiVersion":"kro.run/v1alpha1","kind":"ResourceGraphDefinition","name":"d","uid":"u","controller":true}],
		"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"kro.run/v1alpha1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:text":{}}}}]},
	"spec":{"text":"ü","none":null,"whole":1,"real":1.5,"exact":1.0,"yes":true,"empty":{},"list":[1,"a",{"b":[]}]},"status":{},"flag":true}`

func packedObject(tb testing.TB) *unstructured.Unstructured {
	tb.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(packedJSON), o); err != nil {
		tb.Fatal(err)
	}
	o.Object["spec"].(map[string]any)["exact"] = 1.0 // which the API server may send as well
	return o
}

func TestReadsOfAPackedObjectReturnWhatWasStored(t *testing.T) {
	o := packedObject(t)
	before := o.DeepCopy()
	c := &compactor{packs: true, manager: "m"}
	small := c.compact(o)
	if diff := cmp.Diff(before, o); diff != "" {
		t.Errorf("the original changed:\n%s", diff)
	}
	for _, fields := range []map[string]any{small.Object, metadataOf(small)} {
		if !isPacked(fields) {
			t.Errorf("nothing of %v is packed", fields)
		}
	}
	for _, name := range []string{"spec", "status", "flag"} {
		if _, is := small.Object[name]; is {
			t.Errorf("%s is not packed", name)
		}
	}
	for _, name := range []string{"managedFields", "ownerReferences", "creationTimestamp"} {
		if _, is := metadataOf(small)[name]; is {
			t.Errorf("metadata.%s is not packed", name)
		}
	}
	if again := c.compact(o); !reflect.DeepEqual(small, again) {
		t.Error("two packed copies of an object differ")
	}
	s := newStore("x", nil)
	s.observe(small)
	name := objectName{name: "a"}
	reads := map[string]func() *unstructured.Unstructured{
		"get":             func() *unstructured.Unstructured { got, _ := s.get(name); return got },
		"getWithComplete": func() *unstructured.Unstructured { got, _ := s.getWithComplete(name, 0); return got },
		"list":            func() *unstructured.Unstructured { got, _ := s.list(everything); return got[0] },
		"ownedBy":         func() *unstructured.Unstructured { got, _ := s.ownedBy("y", 0); return got[0] },
	}
	for read, object := range reads {
		if diff := cmp.Diff(before, object()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", read, diff)
		}
	}
	got, _ := s.get(name)
	got.Object["spec"].(map[string]any)["text"] = "changed"
	if again, _ := s.get(name); !reflect.DeepEqual(before, again) {
		t.Error("a change of what was read changed what is stored")
	}
	if !reflect.DeepEqual(small, c.compact(unpacked(small))) {
		t.Error("the copy of what was read differs")
	}
}

func TestAnObjectThatWasDeletedDespiteFinalizersIsUnpacked(t *testing.T) {
	o := packedObject(t)
	o.SetFinalizers([]string{"f"})
	s := newStore("x", nil)
	s.keepIfDeletedWith = func(finalizer string) bool { return finalizer == "f" }
	small := (&compactor{packs: true, manager: "m"}).compact(o)
	s.observe(small)
	s.observeDeletion(small)
	if diff := cmp.Diff(o, s.getDeletedDespiteFinalizers(objectName{name: "a"})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if s.getDeletedDespiteFinalizers(objectName{name: "b"}) != nil {
		t.Error("an object that does not exist was deleted")
	}
}

// TestAListOfPackedObjectsChangesNothing compares, as the list after a broken watch does.
func TestAListOfPackedObjectsChangesNothing(t *testing.T) {
	packed, plain := &compactor{packs: true, manager: "m"}, &compactor{manager: "m"}
	for _, stored := range []*compactor{packed, plain} {
		for _, listed := range []*compactor{packed, plain} {
			s := newStore("x", nil)
			s.observe(stored.compact(packedObject(t)))
			if changed, _, _ := s.replace([]*unstructured.Unstructured{listed.compact(packedObject(t))}, 8, shard.Set{}, time.Unix(1e9, 0)); len(changed) != 0 {
				t.Errorf("changes: %v", changed)
			}
			other := packedObject(t)
			other.Object["flag"] = false
			if changed, _, _ := s.replace([]*unstructured.Unstructured{listed.compact(other)}, 9, shard.Set{}, time.Unix(1e9, 0)); len(changed) != 1 {
				t.Errorf("changes of an object that reads differently now: %v", changed)
			}
		}
	}
}

// TestAChangeDuringAnotherFormStays changes an object while others are given another form.
func TestAChangeDuringAnotherFormStays(t *testing.T) {
	s, c := newStore("x", nil), &compactor{packs: true, manager: "m"}
	first := (&compactor{manager: "m"}).compact(packedObject(t))
	changed, added := packedObject(t), packedObject(t)
	changed.SetResourceVersion("8")
	added.SetName("b")
	added.SetUID("other")
	s.observe(first)
	s.reform(func(o *unstructured.Unstructured) *unstructured.Unstructured {
		s.observe(changed)
		s.observe(added)
		return c.compact(o)
	})
	if got, _ := s.get(objectName{name: "a"}); got != changed {
		t.Errorf("the store has %v", got)
	}
	s.reform(c.inForm)
	for _, o := range s.owned["y"] {
		if !isPacked(o.Object) {
			t.Errorf("the index of owners keeps %s unpacked", o.GetName())
		}
	}
	if n := len(s.owned["y"]); n != 2 {
		t.Errorf("%d objects of the owner", n)
	}
	s.close()
	s.reform((&compactor{}).inForm)
	if s.owned != nil {
		t.Error("a closed store has objects")
	}
}

func TestFieldsThatAreNotJSONAreNotPacked(t *testing.T) {
	o := packedObject(t)
	o.Object["spec"] = map[string]any{"f": func() {}}
	small := (&compactor{packs: true}).compact(o)
	if isPacked(small.Object) {
		t.Error("a function is packed")
	}
	if _, is := unpacked(small).Object["status"].(map[string]any); !is {
		t.Errorf("the status is %v", unpacked(small).Object["status"])
	}
}

func TestAnObjectWithoutFieldsIsNotPacked(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": "a"}}}
	small := (&compactor{packs: true}).compact(o)
	if diff := cmp.Diff(o, small); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if unpacked(small) != small {
		t.Error("an object without packed fields is copied")
	}
}
