package watch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// child is a ConfigMap as the API server sends it: 15 labels, the managed
// fields of two managers, and kubectl's copy.
const childJSON = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{
	"name":"instance-%[1]d-config-%[2]d","namespace":"team-%[3]d","uid":"9c0f5a5e-5c0e-4b41-8d53-%012[4]d",
	"resourceVersion":"%[4]d","creationTimestamp":"2026-08-01T10:00:00Z",
	"labels":{
		"app.kubernetes.io/managed-by":"kro","applyset.kubernetes.io/part-of":"applyset-%032[1]d-v1",
		"kro.run/collection-index":"%[2]d","kro.run/collection-size":"5","kro.run/instance-group":"kro.run",
		"kro.run/instance-id":"4b1e2c5d-7a37-4c53-9f0a-%012[1]d","kro.run/instance-kind":"WebApplication",
		"kro.run/instance-name":"instance-%[1]d","kro.run/instance-namespace":"team-%[3]d",
		"kro.run/instance-version":"v1alpha1","kro.run/kro-version":"v0.9.3","kro.run/node-id":"config%[2]d",
		"kro.run/owned":"true","kro.run/resource-graph-definition-id":"0d2f1be5-a3b5-4a64-9f65-0ae8b0e2a7c1",
		"kro.run/resource-graph-definition-name":"web-application"},
	"annotations":{"internal.kro.run/apply-order":"1","kubectl.kubernetes.io/last-applied-configuration":"{\"a\":\"b\"}"},
	"managedFields":[
		{"manager":"kro.run/applyset","operation":"Apply","apiVersion":"v1","time":"2026-08-01T10:00:%02[2]dZ","fieldsType":"FieldsV1",
		"fieldsV1":{"f:data":{"f:host":{},"f:port":{}},"f:metadata":{"f:annotations":{"f:internal.kro.run/apply-order":{}},"f:labels":{
			"f:app.kubernetes.io/managed-by":{},"f:applyset.kubernetes.io/part-of":{},"f:kro.run/collection-index":{},
			"f:kro.run/collection-size":{},"f:kro.run/instance-group":{},"f:kro.run/instance-id":{},"f:kro.run/instance-kind":{},
			"f:kro.run/instance-name":{},"f:kro.run/instance-namespace":{},"f:kro.run/instance-version":{},"f:kro.run/kro-version":{},
			"f:kro.run/node-id":{},"f:kro.run/owned":{},"f:kro.run/resource-graph-definition-id":{},
			"f:kro.run/resource-graph-definition-name":{}}}}},
		{"manager":"kubectl","operation":"Update","apiVersion":"v1","time":"2026-08-01T11:00:00Z","fieldsType":"FieldsV1",
		"fieldsV1":{"f:data":{"f:extra":{}}}}]},
	"data":{"host":"db-%[1]d.example.com","port":"5432","extra":"x"}}`

func childOf(tb testing.TB, instance, n int) *unstructured.Unstructured {
	tb.Helper()
	o := &unstructured.Unstructured{}
	text := fmt.Sprintf(childJSON, instance, n, instance%100, 5*instance+n+1)
	if err := json.Unmarshal([]byte(text), o); err != nil {
		tb.Fatal(err)
	}
	return o
}

func TestCompactKeepsLastAppliedOnRequest(t *testing.T) {
	o := childOf(t, 1, 2)
	for annotated, want := range map[bool]int{false: 1, true: 2} {
		c := &compactor{keepLastApplied: annotated}
		if got := c.compact(o).GetAnnotations(); len(got) != want {
			t.Errorf("annotated: %t, got %v", annotated, got)
		}
	}
}

func TestCompactKeepsWhatIsNeeded(t *testing.T) {
	c := &compactor{manager: "kro.run/applyset"}
	o := childOf(t, 1, 2)
	before := o.DeepCopy()
	small := c.compact(o)
	if diff := cmp.Diff(before, o); diff != "" {
		t.Errorf("the original changed:\n%s", diff)
	}
	if diff := cmp.Diff(small, c.compact(small)); diff != "" {
		t.Errorf("the copy of the copy differs:\n%s", diff)
	}
	unstructured.RemoveNestedField(before.Object, "metadata", "annotations", lastApplied)
	fields := before.GetManagedFields()[:1]
	fields[0].Time = nil
	before.SetManagedFields(fields)
	if diff := cmp.Diff(before, small); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	small.DeepCopy() // whoever changes a copy begins like this
}

// TestCompactChildrenUseLittleMemory measures the budget of 8 KiB per child.
func TestCompactChildrenUseLittleMemory(t *testing.T) {
	const instances, budget = 2000, 8 << 10
	cost := func(keep func(*unstructured.Unstructured) *unstructured.Unstructured) int {
		s := newStore(partOf)
		before := heap()
		for i := range instances {
			for n := range 5 {
				s.observe(keep(childOf(t, i, n)))
			}
		}
		after := heap()
		runtime.KeepAlive(s)
		return (after - before) / (5 * instances)
	}
	c := &compactor{manager: "kro.run/applyset"}
	compact := cost(c.compact)
	runtime.KeepAlive(c)
	whole := cost(func(o *unstructured.Unstructured) *unstructured.Unstructured { return o })
	t.Logf("a cached ConfigMap child with 15 labels takes %d bytes; as decoded it would take %d", compact, whole)
	if compact > budget {
		t.Errorf("more than the budget of %d", budget)
	}
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func BenchmarkCompact(b *testing.B) {
	c := &compactor{manager: "kro.run/applyset"}
	o := childOf(b, 1, 2)
	b.ReportAllocs()
	for b.Loop() {
		c.compact(o)
	}
}

func TestCompactSharesOwnerReferences(t *testing.T) {
	c := &compactor{manager: "kro.run/applyset"}
	owned := func(n int) *unstructured.Unstructured {
		o := childOf(t, 1, n)
		o.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "App", "uid": "i-1"}, map[string]any{"kind": "Team", "uid": fmt.Sprint("t-", n)}}
		entry := o.Object["metadata"].(map[string]any)["managedFields"].([]any)[0].(map[string]any)
		entry["fieldsV1"].(map[string]any)["f:metadata"].(map[string]any)["f:ownerReferences"] = map[string]any{`k:{"uid":"i-1"}`: map[string]any{}}
		return o
	}
	before := owned(1)
	a, b := c.compact(before), c.compact(owned(2))
	if diff := cmp.Diff(before.GetOwnerReferences(), a.GetOwnerReferences()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(owned(1), before); diff != "" {
		t.Errorf("the original changed:\n%s", diff)
	}
	refs := func(o *unstructured.Unstructured) []any {
		return o.Object["metadata"].(map[string]any)["ownerReferences"].([]any)
	}
	for i, want := range []bool{true, false} {
		if same := reflect.ValueOf(refs(a)[i]).Pointer() == reflect.ValueOf(refs(b)[i]).Pointer(); same != want {
			t.Errorf("reference %d is one copy: %t", i, same)
		}
	}
	fields := a.GetManagedFields()[0].FieldsV1.GetRawString()
	if strings.Contains(fields, "ownerReferences") || !strings.Contains(fields, "f:labels") {
		t.Errorf("the managed fields are %s", fields)
	}
	if diff := cmp.Diff(a, c.compact(a)); diff != "" {
		t.Errorf("the copy of a copy differs:\n%s", diff)
	}
}
