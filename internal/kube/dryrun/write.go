package dryrun

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/uuid"
)

const asJSON = "application/json"

// write tries a write, and shows from then on what would have come of it.
func (c call) write() (*http.Response, error) {
	var body []byte
	if c.request.Body != nil {
		var err error
		body, err = io.ReadAll(c.request.Body)
		_ = c.request.Body.Close() // it has been read to its end
		if err != nil {
			return nil, err
		}
	}
	if c.request.Method == http.MethodPost && c.at.name == "" {
		name, err := named(body)
		if err != nil {
			return nil, fmt.Errorf("dry run: create %s: %w", c.at.resource.Resource, err)
		}
		c.at.name = name
	}
	if c.at.name == "" || c.at.subresource != "" && c.at.subresource != "status" {
		return nil, fmt.Errorf("dry run: %s %s is not sent, since the API server can't try it", c.request.Method, c.request.URL.Path)
	}
	e := c.overlay.entry(c.at.key())
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resource = c.at.resource
	before := e.now
	a, err := c.tryWrite(e, body)
	if err != nil {
		return nil, err
	}
	if e.now != before {
		c.noteKind(e)
	}
	return a.to(c.request), nil
}

// named is the name of an object that is to be created.
func named(body []byte) (string, error) {
	var o struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(body, &o); err != nil {
		return "", err
	}
	if o.Metadata.Name == "" {
		return "", fmt.Errorf("it has no name")
	}
	return o.Metadata.Name, nil
}

// tryWrite carries out a write on the object as it would be. The entry's lock is held.
func (c call) tryWrite(e *entry, body []byte) (answer, error) {
	_, isInstalled := c.overlay.installedKind(c.at.resource)
	switch {
	case e.written && e.now == nil && !c.creates():
		return c.absent(), nil
	case e.written && e.now == nil, isInstalled && e.now == nil:
		return c.create(e, body, isInstalled)
	case !e.written:
		return c.first(e, body)
	case c.request.Method == http.MethodDelete:
		return c.delete(e, body)
	case c.request.Method == http.MethodPost:
		return refused(http.StatusConflict, metav1.StatusReasonAlreadyExists, fmt.Sprintf("%s %q already exists", c.at.resource.GroupResource(), c.at.name), c.details()), nil
	}
	return c.further(e, body)
}

// creates says whether the request creates what isn't there.
func (c call) creates() bool {
	return c.request.Method == http.MethodPost || c.request.Method == http.MethodPatch && c.isApply()
}

func (c call) isApply() bool {
	return types.PatchType(c.request.Header.Get("Content-Type")) == types.ApplyYAMLPatchType
}

// dry is a request's query with a dry run.
func (c call) dry() url.Values {
	q := c.query()
	q.Set("dryRun", metav1.DryRunAll)
	return q
}

// first tries the first write to an object: the server's answer is what would become of it.
func (c call) first(e *entry, body []byte) (answer, error) {
	at := c.at
	at.subresource = ""
	stored, err := c.read(at.path())
	if err != nil || stored.failed() && stored.code != http.StatusNotFound {
		return stored, err
	}
	if e.stored = stored.object(); e.stored != nil {
		c.overlay.observeRevision(e.stored.GetResourceVersion())
	}
	if c.request.Method == http.MethodDelete {
		return c.delete(e, body)
	}
	if e.stored != nil && !c.overlay.servedAsStored(c.at) {
		e.now = e.stored.DeepCopy()
		a, err := c.further(e, body)
		if !e.written {
			e.now = nil
		}
		return a, err
	}
	a, err := c.send(c.request.Context(), c.request.Method, c.request.URL.Path, c.dry(), c.request.Header.Get("Content-Type"), body)
	if err != nil || a.failed() {
		return a, err
	}
	now := a.object()
	if now == nil {
		return answer{}, fmt.Errorf("dry run: %s %s: the answer is no object", c.request.Method, c.request.URL.Path)
	}
	if e.stored != nil && isSame(e.stored, now) {
		return a, nil // it would change nothing
	}
	e.hasStatus = c.at.subresource == "status"
	c.accept(e, now)
	return objectAnswer(a.code, now), nil
}

// accept notes what an object would be. What is being deleted goes with its last finalizer.
func (c call) accept(e *entry, now *unstructured.Unstructured) {
	if now.GetDeletionTimestamp() != nil && len(now.GetFinalizers()) == 0 {
		c.overlay.becomes(e, nil)
		return
	}
	c.overlay.becomes(e, now)
}

// create makes an object again that would have gone, or one of a kind that would be
// installed; of that kind the server can't try any.
func (c call) create(e *entry, body []byte, isInstalled bool) (answer, error) {
	if !c.creates() {
		return c.absent(), nil
	}
	now := &unstructured.Unstructured{}
	if isInstalled {
		if err := utiljson.Unmarshal(body, &now.Object); err != nil {
			return answer{}, fmt.Errorf("dry run: %s is not JSON: %w", c.request.URL.Path, err)
		}
	} else {
		a, err := c.tryCreation(c.plain(body), c.request.URL.Query().Get("fieldManager"))
		if err != nil || a.failed() {
			return a, err
		}
		now = a.object()
	}
	now.SetUID(uuid.NewUUID())
	now.SetGeneration(1)
	now.SetCreationTimestamp(metav1.Now())
	c.overlay.becomes(e, now)
	return objectAnswer(http.StatusCreated, now), nil
}

// plain is a body as it is created: an apply that creates says so by a version.
func (c call) plain(body []byte) []byte {
	o := map[string]any{}
	if json.Unmarshal(body, &o) != nil {
		return body
	}
	unstructured.RemoveNestedField(o, "metadata", "resourceVersion")
	unstructured.RemoveNestedField(o, "metadata", "uid")
	raw, err := json.Marshal(o)
	if err != nil {
		return body
	}
	return raw
}

// tryCreation asks the server whether an object could be created.
func (c call) tryCreation(body []byte, manager string) (answer, error) {
	q := url.Values{"dryRun": {metav1.DryRunAll}, "fieldManager": {manager}}
	return c.send(c.request.Context(), http.MethodPost, c.at.collection().path(), q, asJSON, body)
}

// delete tries to delete an object. It goes at once, unless a finalizer keeps it.
func (c call) delete(e *entry, body []byte) (answer, error) {
	current := e.now
	if !e.written {
		current = e.stored
	}
	if current == nil {
		return c.absent(), nil
	}
	options := metav1.DeleteOptions{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return answer{}, fmt.Errorf("dry run: delete %s: %w", c.request.URL.Path, err)
		}
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != current.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != current.GetResourceVersion() {
			return c.conflict("the object has changed"), nil
		}
		p.ResourceVersion = nil // it may be one of ours
	}
	if e.stored != nil {
		options.DryRun = []string{metav1.DryRunAll}
		raw, err := json.Marshal(options)
		if err != nil {
			return answer{}, err
		}
		a, err := c.send(c.request.Context(), http.MethodDelete, c.at.path(), nil, asJSON, raw)
		if err != nil || a.failed() {
			return a, err
		}
	}
	finalizers := current.GetFinalizers()
	if p := options.PropagationPolicy; p != nil && *p != metav1.DeletePropagationBackground {
		name := metav1.FinalizerDeleteDependents
		if *p == metav1.DeletePropagationOrphan {
			name = metav1.FinalizerOrphanDependents
		}
		if !slices.Contains(finalizers, name) {
			finalizers = append(finalizers, name)
		}
	}
	if len(finalizers) == 0 {
		c.overlay.becomes(e, nil)
		return answer{code: http.StatusOK, raw: []byte(`{"apiVersion":"v1","kind":"Status","status":"Success"}`)}, nil
	}
	if current.GetDeletionTimestamp() != nil && slices.Equal(finalizers, current.GetFinalizers()) {
		return objectAnswer(http.StatusOK, current), nil
	}
	now := current.DeepCopy()
	now.SetFinalizers(finalizers)
	if now.GetDeletionTimestamp() == nil {
		at := metav1.NewTime(time.Now().Truncate(time.Second))
		now.SetDeletionTimestamp(&at)
		now.SetGeneration(now.GetGeneration() + 1)
	}
	c.overlay.becomes(e, now)
	return objectAnswer(http.StatusOK, now), nil
}
