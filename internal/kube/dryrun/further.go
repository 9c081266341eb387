package dryrun

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
)

// further tries a write to an object that would have been written before. What the two
// make together is sent to the server as one update of what is stored, and the server's
// answer counts, but for the managed fields: those are worked out here, write by write.
func (c call) further(e *entry, body []byte) (answer, error) {
	next, failed, err := c.merged(e, body)
	if err != nil || failed != nil {
		return orElse(failed), err
	}
	entries := next.GetManagedFields()
	if c.overlay.servedAsStored(c.at) {
		next, failed, err = c.tryUpdate(e, next)
		if err != nil || failed != nil {
			return orElse(failed), err
		}
	}
	next.SetManagedFields(entries)
	next.SetGeneration(e.generation(next))
	if isSame(e.now, next) {
		return objectAnswer(http.StatusOK, e.now), nil
	}
	c.accept(e, next)
	return objectAnswer(http.StatusOK, next), nil
}

// generation is that of an object after a further write. The server counts one for all
// writes together, and which changes count is for it to say.
func (e *entry) generation(next *unstructured.Unstructured) int64 {
	was := e.now.GetGeneration()
	counted := e.stored != nil && was == e.stored.GetGeneration() && next.GetGeneration() > was
	if was > 0 && (counted || !reflect.DeepEqual(versioned(e.now), versioned(next))) {
		return was + 1
	}
	return was
}

// versioned is the part of an object whose changes a generation counts.
func versioned(o *unstructured.Unstructured) map[string]any {
	out := maps.Clone(o.Object)
	delete(out, "metadata")
	delete(out, "status")
	return out
}

func orElse(a *answer) answer {
	if a == nil {
		return answer{}
	}
	return *a
}

// merged is the object with a further write. Failed is why it can't be.
func (c call) merged(e *entry, body []byte) (next *unstructured.Unstructured, failed *answer, err error) {
	q := c.request.URL.Query()
	manager := q.Get("fieldManager")
	fm, err := c.overlay.types.manager(c, e.now, c.at.subresource)
	if err != nil {
		return nil, nil, err
	}
	live := e.now.DeepCopy()
	if c.request.Method == http.MethodPatch && c.isApply() {
		applied := &unstructured.Unstructured{}
		if err := json.Unmarshal(body, &applied.Object); err != nil {
			return nil, nil, fmt.Errorf("dry run: an apply of %s is not JSON: %w", c.at.name, err)
		}
		if a := c.precondition(applied, e.now); a != nil {
			return nil, a, nil
		}
		unstructured.RemoveNestedField(applied.Object, "metadata", "uid")
		unstructured.RemoveNestedField(applied.Object, "metadata", "resourceVersion")
		o, err := fm.apply(live, applied, manager, isTrue(q.Get("force")))
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			raw, err := json.Marshal(status.Status())
			return nil, &answer{code: int(status.Status().Code), raw: raw}, err
		}
		return o, nil, err
	}
	wanted, err := c.patched(e.now, body)
	if err != nil {
		return nil, nil, err
	}
	if a := c.precondition(wanted, e.now); a != nil {
		return nil, a, nil
	}
	if c.at.subresource == "status" {
		status, has := wanted.Object["status"]
		entries := wanted.GetManagedFields()
		wanted = e.now.DeepCopy()
		delete(wanted.Object, "status")
		if has {
			wanted.Object["status"] = status
		}
		wanted.SetManagedFields(entries)
	} else if e.hasStatus {
		delete(wanted.Object, "status")
		if status, has := e.now.Object["status"]; has {
			wanted.Object["status"] = status
		}
	}
	metadata, _ := wanted.Object["metadata"].(map[string]any)
	was, _ := e.now.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		delete(metadata, field)
		if value, has := was[field]; has {
			metadata[field] = value
		}
	}
	wanted.Object["metadata"] = metadata
	next, err = fm.update(live, wanted, manager)
	return next, nil, err
}

// patched is the object that a request that is no apply asks for.
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
		return nil, fmt.Errorf("dry run: a patch of type %s can't be merged with what was tried before", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("dry run: patch %s %s: %w", c.at.resource.Resource, c.at.name, err)
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(raw)
}

// precondition refuses a write that is meant for another incarnation or revision.
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

// servedAsStored says whether the server can try an object of a kind: its kind wouldn't be
// installed or changed.
func (o *Overlay) servedAsStored(at target) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, isInstalled := o.kinds[at.resource.GroupResource()]
	return !isInstalled && !o.altered[at.resource.GroupResource()]
}

// tryUpdate has the server try what several writes make of an object.
func (c call) tryUpdate(e *entry, next *unstructured.Unstructured) (*unstructured.Unstructured, *answer, error) {
	body := next.DeepCopy()
	body.SetManagedFields(nil)
	manager := c.request.URL.Query().Get("fieldManager")
	if e.stored == nil {
		if c.at.subresource == "status" {
			return next, nil, nil // it can't be tried before the object is there
		}
		body.SetResourceVersion("")
		body.SetUID("")
		raw, err := body.MarshalJSON()
		if err != nil {
			return nil, nil, err
		}
		a, err := c.tryCreation(raw, manager)
		return c.answered(e, next, a), failure(a), err
	}
	body.SetResourceVersion(e.stored.GetResourceVersion())
	raw, err := body.MarshalJSON()
	if err != nil {
		return nil, nil, err
	}
	q := url.Values{"dryRun": {metav1.DryRunAll}, "fieldManager": {manager}}
	a, err := c.send(c.request.Context(), http.MethodPut, c.at.path(), q, asJSON, raw)
	if err != nil || a.failed() {
		return nil, failure(a), err
	}
	return c.answered(e, next, a), nil, nil
}

func failure(a answer) *answer {
	if a.failed() {
		return &a
	}
	return nil
}

// answered is what an update makes of an object: what was written as the server answers it,
// and the rest as it would be.
func (c call) answered(e *entry, next *unstructured.Unstructured, a answer) *unstructured.Unstructured {
	answered := a.object()
	if answered == nil {
		return next
	}
	if c.at.subresource == "status" {
		e.hasStatus = true
		out := next.DeepCopy()
		delete(out.Object, "status")
		if status, has := answered.Object["status"]; has {
			out.Object["status"] = status
		}
		return out
	}
	if status, has := next.Object["status"]; has && (e.hasStatus || e.stored == nil) {
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
