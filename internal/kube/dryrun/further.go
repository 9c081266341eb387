package dryrun

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
)

// tryFurtherWrite tries a write to an object that has a planned state. The merged result is
// sent to the server as one update of the stored object. The server's answer counts, except
// for the managed fields, which are computed here write by write.
func (c call) tryFurtherWrite(e *entry, body []byte) (answer, error) {
	next, failed, err := c.merge(e, body)
	if err != nil || failed != nil {
		return valueOf(failed), err
	}
	current := c.inVersion(e.planned)
	entries := next.GetManagedFields()
	if c.overlay.servedAsStored(c.info) {
		next, failed, err = c.tryUpdate(e, next)
		if err != nil || failed != nil {
			return valueOf(failed), err
		}
	}
	next.SetManagedFields(entries)
	next.SetGeneration(e.generation(current, next))
	if isSame(current, next) {
		return objectAnswer(http.StatusOK, current), nil
	}
	c.accept(e, next)
	return objectAnswer(http.StatusOK, next), nil
}

// The server counts one for all writes together, and decides which changes count.
func (e *entry) generation(planned, next *unstructured.Unstructured) int64 {
	current := planned.GetGeneration()
	counted := e.stored != nil && !e.isReplaced() && current == e.stored.GetGeneration() && next.GetGeneration() > current
	if current > 0 && (counted || !reflect.DeepEqual(generationFields(planned), generationFields(next))) {
		return current + 1
	}
	return current
}

// These are the parts of an object whose changes increment the generation.
func generationFields(o *unstructured.Unstructured) map[string]any {
	out := maps.Clone(o.Object)
	delete(out, "metadata")
	delete(out, "status")
	return out
}

func valueOf(a *answer) answer {
	if a == nil {
		return answer{}
	}
	return *a
}

// failed is the answer that refuses the write; nil if none does.
func (c call) merge(e *entry, body []byte) (next *unstructured.Unstructured, failed *answer, err error) {
	live := c.inVersion(e.planned).DeepCopy()
	fm, err := c.overlay.types.manager(c, live, c.info.subresource)
	if err != nil {
		return nil, nil, err
	}
	if c.request.Method == http.MethodPatch && c.isApply() {
		return c.mergeApply(fm, e, live, body)
	}
	wanted, err := c.patched(live, body)
	if err != nil {
		return nil, nil, err
	}
	if a := c.precondition(wanted, e.planned); a != nil {
		return nil, a, nil
	}
	switch {
	case c.info.subresource == "status":
		wanted = withStatusOf(live, wanted)
	case e.hasStatus:
		setStatus(wanted, e.planned)
	}
	restoreSystemMetadata(wanted, e.planned)
	if wanted, failed = c.admit(wanted, live); failed != nil {
		return nil, failed, nil
	}
	return fm.update(live, wanted, c.request.URL.Query().Get("fieldManager")), nil, nil
}

func (c call) mergeApply(fm fieldManager, e *entry, live *unstructured.Unstructured, body []byte) (next *unstructured.Unstructured, failed *answer, err error) {
	applied := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &applied.Object); err != nil {
		return nil, nil, fmt.Errorf("dry run: an apply of %s is not JSON: %w", c.info.name, err)
	}
	if a := c.precondition(applied, e.planned); a != nil {
		return nil, a, nil
	}
	unstructured.RemoveNestedField(applied.Object, "metadata", "uid")
	unstructured.RemoveNestedField(applied.Object, "metadata", "resourceVersion")
	q := c.request.URL.Query()
	if next, failed = fm.apply(live, applied, q.Get("fieldManager"), isTrue(q.Get("force"))); failed == nil {
		next, failed = c.admit(next, live)
	}
	return next, failed, nil
}

// It takes over only the status and its managed fields.
func withStatusOf(live, wanted *unstructured.Unstructured) *unstructured.Unstructured {
	out := live.DeepCopy()
	setStatus(out, wanted)
	out.SetManagedFields(wanted.GetManagedFields())
	return out
}

func setStatus(o, from *unstructured.Unstructured) {
	delete(o.Object, "status")
	if status, has := from.Object["status"]; has {
		o.Object["status"] = status
	}
}

var systemMetadata = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"}

func restoreSystemMetadata(o, planned *unstructured.Unstructured) {
	metadata, _ := o.Object["metadata"].(map[string]any)
	before, _ := planned.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range systemMetadata {
		delete(metadata, field)
		if value, has := before[field]; has {
			metadata[field] = value
		}
	}
	o.Object["metadata"] = metadata
}

func (c call) patched(now *unstructured.Unstructured, body []byte) (*unstructured.Unstructured, error) {
	if c.request.Method == http.MethodPut {
		out := &unstructured.Unstructured{}
		return out, out.UnmarshalJSON(body)
	}
	raw, err := now.MarshalJSON()
	if err != nil {
		return nil, err
	}
	switch kind := types.PatchType(c.request.Header.Get("Content-Type")); kind {
	case types.MergePatchType:
		raw, err = jsonpatch.MergePatch(raw, body)
	case types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(body); err == nil {
			raw, err = patch.Apply(raw)
		}
	default:
		return nil, fmt.Errorf("dry run: a patch of type %s cannot be merged with an earlier write of the dry run", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("dry run: patch %s %s: %w", c.info.resource.Resource, c.info.name, err)
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(raw)
}

// A write that names another UID or resource version is a conflict.
func (c call) precondition(wanted, now *unstructured.Unstructured) *answer {
	var a answer
	switch {
	case wanted.GetUID() != "" && wanted.GetUID() != now.GetUID():
		a = c.conflict("another object has its name")
	case wanted.GetResourceVersion() != "" && wanted.GetResourceVersion() != now.GetResourceVersion():
		a = c.conflict("the object has been modified; please apply your changes to the latest version and try again")
	default:
		return nil
	}
	return &a
}

// servedAsStored reports whether the server can dry-run an object of the kind: the kind would be neither installed nor
// changed.
func (o *Overlay) servedAsStored(at requestInfo) bool { return o.plannedKind(at.resource) == nil }

// tryUpdate dry-runs the result of several writes to an object.
func (c call) tryUpdate(e *entry, next *unstructured.Unstructured) (*unstructured.Unstructured, *answer, error) {
	body := next.DeepCopy()
	body.SetManagedFields(nil)
	manager := c.request.URL.Query().Get("fieldManager")
	if e.stored == nil || e.isReplaced() {
		if c.info.subresource == "status" {
			return next, nil, nil // the server cannot dry-run it before the object exists
		}
		body.SetResourceVersion("")
		body.SetUID("")
		raw, err := body.MarshalJSON()
		if err != nil {
			return nil, nil, err
		}
		a, err := c.tryCreation(e, raw, manager)
		return c.mergeAnswer(e, next, a), failure(a), err
	}
	body.SetResourceVersion(e.stored.GetResourceVersion())
	if e.stored.GetDeletionTimestamp() == nil { // the deletion was not stored
		body.SetDeletionTimestamp(nil)
		body.SetDeletionGracePeriodSeconds(nil)
	}
	raw, err := body.MarshalJSON()
	if err != nil {
		return nil, nil, err
	}
	q := url.Values{"dryRun": {metav1.DryRunAll}, "fieldManager": {manager}}
	a, err := c.send(c.request.Context(), http.MethodPut, c.info.path(), q, asJSON, raw)
	if err != nil || a.failed() {
		return nil, failure(a), err
	}
	return c.mergeAnswer(e, next, a), nil, nil
}

func failure(a answer) *answer {
	if a.failed() {
		return &a
	}
	return nil
}

// The written part as the server answered it, the rest as planned.
func (c call) mergeAnswer(e *entry, next *unstructured.Unstructured, a answer) *unstructured.Unstructured {
	answered := a.object()
	if answered == nil {
		return next
	}
	if c.info.subresource == "status" {
		e.hasStatus = true
		out := next.DeepCopy()
		delete(out.Object, "status")
		if status, has := answered.Object["status"]; has {
			out.Object["status"] = status
		}
		return out
	}
	if status, has := next.Object["status"]; has && (e.hasStatus || e.stored == nil || e.isReplaced()) {
		answered.Object["status"] = status
	}
	answered.SetUID(next.GetUID())
	answered.SetCreationTimestamp(next.GetCreationTimestamp())
	if t := next.GetDeletionTimestamp(); t != nil {
		answered.SetDeletionTimestamp(t)
		answered.SetFinalizers(next.GetFinalizers())
	}
	return answered
}
