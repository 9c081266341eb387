package dryrun

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// recordKind records the effect on a kind when its CustomResourceDefinition would be
// written. A definition that would be created is shown as established, since no server will
// set that condition. The entry's lock is held.
func (c call) recordKind(e *entry) {
	if c.info.resource.Group != "apiextensions.k8s.io" || c.info.resource.Resource != "customresourcedefinitions" || e.planned == nil {
		return
	}
	group, _, _ := unstructured.NestedString(e.planned.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(e.planned.Object, "spec", "names", "plural")
	kind, _, _ := unstructured.NestedString(e.planned.Object, "spec", "names", "kind")
	of := schema.GroupResource{Group: group, Resource: plural}
	c.overlay.mu.Lock()
	if e.stored != nil {
		c.overlay.changedKinds[of] = true
	} else {
		c.overlay.installedKinds[of] = installed{kind, kind + "List"}
	}
	c.overlay.mu.Unlock()
	if conditions, _, _ := unstructured.NestedSlice(e.planned.Object, "status", "conditions"); e.stored != nil || len(conditions) > 0 {
		return
	}
	now := e.planned.DeepCopy()
	names, _, _ := unstructured.NestedMap(now.Object, "spec", "names")
	now.Object["status"] = map[string]any{
		"acceptedNames": names,
		"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": ""},
			map[string]any{"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": ""},
		},
	}
	c.overlay.setPlanned(e, now)
}
