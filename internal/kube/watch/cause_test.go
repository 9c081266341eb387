package watch

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestCausePriority(t *testing.T) {
	vpcWith := func(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o := made(vpc, "a/x", 2, "app", "db")
		o.SetGeneration(1)
		if change != nil {
			change(o)
		}
		return o
	}
	before := vpcWith(nil)
	status := func(o *unstructured.Unstructured) { o.Object["status"] = map[string]any{"ready": true} }
	spec := func(o *unstructured.Unstructured) { o.SetGeneration(2) }
	label := func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"app": "web"}) }
	note := func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"a": "b"}) }
	deletion := func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, "2026-08-01T10:00:00Z", "metadata", "deletionTimestamp")
	}
	cases := map[string]struct {
		transition
		change   Change
		priority Priority
	}{
		"the spec changes":      {transition{old: before, new: vpcWith(spec)}, Updated, Urgent},
		"a label changes":       {transition{old: before, new: vpcWith(label)}, Updated, Urgent},
		"an annotation changes": {transition{old: before, new: vpcWith(note)}, Updated, Urgent},
		"it is deleted":         {transition{old: before, new: vpcWith(deletion)}, Updated, Urgent},
		"it is created":         {transition{new: before}, Added, Urgent},
		"it is gone":            {transition{old: before}, Deleted, Urgent},
		"its status changes":    {transition{old: before, new: vpcWith(status)}, Updated, Normal},
		"it was there before":   {transition{new: before, replay: true}, Added, Background},
	}
	for name, c := range cases {
		got := c.cause(time.Now())
		if got.Change != c.change || got.Priority != c.priority {
			t.Errorf("%s: %s with priority %d, want %s with %d", name, got.Change, got.Priority, c.change, c.priority)
		}
		if got.Object.String() != "Vpc a/x" {
			t.Errorf("%s: the cause is about %s", name, got.Object)
		}
	}
}
