package dryrun

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// noteKind notes what becomes of a kind when its CustomResourceDefinition would be written.
// One that would be installed is shown as established, since no server is going to say so.
// The entry's lock is held.
func (c call) noteKind(e *entry) {
	if c.at.resource.Group != "apiextensions.k8s.io" || c.at.resource.Resource != "customresourcedefinitions" || e.now == nil {
		return
	}
	group, _, _ := unstructured.NestedString(e.now.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(e.now.Object, "spec", "names", "plural")
	kind, _, _ := unstructured.NestedString(e.now.Object, "spec", "names", "kind")
	of := schema.GroupResource{Group: group, Resource: plural}
	c.overlay.mu.Lock()
	if e.stored != nil {
		c.overlay.altered[of] = true
	} else {
		c.overlay.kinds[of] = installed{kind, kind + "List"}
	}
	c.overlay.mu.Unlock()
	if conditions, _, _ := unstructured.NestedSlice(e.now.Object, "status", "conditions"); e.stored != nil || len(conditions) > 0 {
		return
	}
	now := e.now.DeepCopy()
	names, _, _ := unstructured.NestedMap(now.Object, "spec", "names")
	now.Object["status"] = map[string]any{
		"acceptedNames": names,
		"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": ""},
			map[string]any{"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": ""},
		},
	}
	c.overlay.becomes(e, now)
}
