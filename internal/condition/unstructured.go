package condition

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Read returns the conditions of an object's status. Malformed ones are left out.
func Read(o *unstructured.Unstructured) Set {
	raw, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := raw.([]any)
	var out Set
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		c := v1alpha1.Condition{Type: text(m, "type"), Status: metav1.ConditionStatus(text(m, "status")), Reason: text(m, "reason"), Message: text(m, "message")}
		if c.Type == "" {
			continue
		}
		c.ObservedGeneration, _ = m["observedGeneration"].(int64)
		if at, err := time.Parse(time.RFC3339, text(m, "lastTransitionTime")); err == nil {
			t := metav1.NewTime(at)
			c.LastTransitionTime = &t
		}
		out = append(out, c)
	}
	return out
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// Unstructured returns the conditions in the form of an object's status. Each has a reason
// and a message, even if empty: readers of the graph dialect rely on them.
func (s Set) Unstructured() []any {
	out := make([]any, 0, len(s))
	for _, c := range s {
		m := map[string]any{"type": c.Type, "status": string(c.Status), "reason": c.Reason, "message": c.Message}
		if c.LastTransitionTime != nil {
			m["lastTransitionTime"] = c.LastTransitionTime.UTC().Format(time.RFC3339)
		}
		if c.ObservedGeneration != 0 {
			m["observedGeneration"] = c.ObservedGeneration
		}
		out = append(out, m)
	}
	return out
}
