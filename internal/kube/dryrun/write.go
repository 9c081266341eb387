package dryrun

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/espalier-dev/espalier/internal/kube"
)

const asJSON = "application/json"

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
	if c.request.Method == http.MethodPost && c.info.name == "" {
		name, err := nameOf(body)
		if err != nil {
			return nil, fmt.Errorf("dry run: create %s: %w", c.info.resource.Resource, err)
		}
		c.info.name = name
	}
	if c.info.name == "" || c.info.subresource != "" && c.info.subresource != "status" {
		return nil, fmt.Errorf("dry run: %s %s is not sent, because the API server cannot dry-run it", c.request.Method, c.request.URL.Path)
	}
	if c.request.Method == http.MethodPost && c.request.URL.Query().Has("dryRun") {
		a, err := c.tryDryRun(body)
		if err != nil {
			return nil, err
		}
		return a.response(c.request), nil
	}
	c.learnConverter()
	e := c.overlay.entry(c.info.key())
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resource = c.info.resource
	before := e.planned
	a, err := c.tryWrite(e, body)
	if err != nil {
		return nil, err
	}
	if e.planned != before {
		if err := c.recordKind(e); err != nil {
			return nil, err
		}
	}
	return a.response(c.request), nil
}

// tryDryRun answers the dry run of a creation by the program itself, which plans nothing.
func (c call) tryDryRun(body []byte) (answer, error) {
	if c.overlay.plannedKind(c.info.resource) == nil {
		if c.inNewNamespace() {
			return c.tryElsewhere(c.request.Method, c.query(), c.request.Header.Get("Content-Type"), body)
		}
		return c.send(c.request.Context(), c.request.Method, c.request.URL.Path, c.query(), c.request.Header.Get("Content-Type"), body)
	}
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(body, &o.Object); err != nil {
		return answer{}, fmt.Errorf("dry run: %s is not JSON: %w", c.request.URL.Path, err)
	}
	created, failed, err := c.createInstalled(o)
	if err != nil || failed != nil {
		return valueOf(failed), err
	}
	return objectAnswer(http.StatusCreated, created), nil
}

func nameOf(body []byte) (string, error) {
	var o struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(body, &o); err != nil {
		return "", err
	}
	if o.Metadata.Name == "" {
		return "", fmt.Errorf("metadata.name is empty")
	}
	return o.Metadata.Name, nil
}

// The entry's lock is held.
func (c call) tryWrite(e *entry, body []byte) (answer, error) {
	isInstalled := c.overlay.installedKind(c.info.resource) != nil
	switch {
	case e.written && e.planned == nil && !c.isCreation():
		return c.notFound(), nil
	case e.written && e.planned == nil, isInstalled && e.planned == nil:
		return c.create(e, body, isInstalled)
	case !e.written:
		return c.tryFirstWrite(e, body)
	case c.request.Method == http.MethodDelete:
		return c.delete(e, body)
	case c.request.Method == http.MethodPost:
		return failureAnswer(http.StatusConflict, metav1.StatusReasonAlreadyExists,
			fmt.Sprintf("%s %q already exists", c.info.resource.GroupResource(), c.info.name), c.details()), nil
	}
	return c.tryFurtherWrite(e, body)
}

func (c call) isCreation() bool {
	return c.request.Method == http.MethodPost || c.request.Method == http.MethodPatch && c.isApply()
}

func (c call) isApply() bool {
	return types.PatchType(c.request.Header.Get("Content-Type")) == types.ApplyYAMLPatchType
}

func (c call) dryRunQuery() url.Values {
	q := c.query()
	q.Set("dryRun", metav1.DryRunAll)
	return q
}

// The server's answer is the planned object.
func (c call) tryFirstWrite(e *entry, body []byte) (answer, error) {
	at := c.info
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
	if e.stored != nil && !c.overlay.servedAsStored(c.info) {
		e.planned = e.stored.DeepCopy()
		a, err := c.tryFurtherWrite(e, body)
		if !e.written {
			e.planned = nil
		}
		return a, err
	}
	var a answer
	if contentType := c.request.Header.Get("Content-Type"); c.isCreation() && c.inNewNamespace() {
		a, err = c.tryElsewhere(c.request.Method, c.dryRunQuery(), contentType, body)
	} else {
		a, err = c.send(c.request.Context(), c.request.Method, c.request.URL.Path, c.dryRunQuery(), contentType, body)
	}
	if err != nil || a.failed() {
		return a, err
	}
	now := a.object()
	if now == nil {
		return answer{}, fmt.Errorf("dry run: %s %s: the answer is not an object", c.request.Method, c.request.URL.Path)
	}
	if e.stored != nil && isSame(e.stored, now) {
		return a, nil // it would change nothing
	}
	e.hasStatus = c.info.subresource == "status"
	c.accept(e, now)
	return objectAnswer(a.code, now), nil
}

// An object that is being deleted disappears with its last finalizer.
func (c call) accept(e *entry, now *unstructured.Unstructured) {
	if now.GetDeletionTimestamp() != nil && len(now.GetFinalizers()) == 0 {
		c.overlay.setPlanned(e, nil)
		return
	}
	c.overlay.setPlanned(e, now)
}

// create recreates an object that would have been deleted, or creates one of a kind that
// would be installed, which the server cannot dry-run.
func (c call) create(e *entry, body []byte, isInstalled bool) (answer, error) {
	if !c.isCreation() {
		return c.notFound(), nil
	}
	now := &unstructured.Unstructured{}
	if isInstalled {
		if err := utiljson.Unmarshal(body, &now.Object); err != nil {
			return answer{}, fmt.Errorf("dry run: %s is not JSON: %w", c.request.URL.Path, err)
		}
		created, failed, err := c.createInstalled(now)
		if err != nil || failed != nil {
			return valueOf(failed), err
		}
		now = created
	} else {
		a, err := c.tryCreation(e, c.withoutPreconditions(body), c.request.URL.Query().Get("fieldManager"))
		if err != nil || a.failed() {
			return a, err
		}
		now = a.object()
	}
	now.SetUID(uuid.NewUUID())
	now.SetGeneration(1)
	now.SetCreationTimestamp(metav1.Now())
	c.overlay.setPlanned(e, now)
	return objectAnswer(http.StatusCreated, now), nil
}

// The result is the object as it would be stored, or the failure of the write.
func (c call) createInstalled(o *unstructured.Unstructured) (*unstructured.Unstructured, *answer, error) {
	fm, err := c.overlay.types.manager(c, o, c.info.subresource)
	if err != nil {
		return nil, nil, err
	}
	q := c.request.URL.Query()
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(o.GroupVersionKind())
	var failed *answer
	if c.request.Method == http.MethodPatch {
		if o, failed = fm.apply(empty, o, q.Get("fieldManager"), isTrue(q.Get("force"))); failed != nil {
			return nil, failed, nil
		}
		o, failed = c.admit(o, nil)
		return o, failed, nil
	}
	if o, failed = c.admit(o, nil); failed != nil {
		return nil, failed, nil
	}
	return fm.update(empty, o, q.Get("fieldManager")), nil, nil
}

func (c call) withoutPreconditions(body []byte) []byte {
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

// The server still has the object that a recreated one replaces, so the latter is tried with another name.
func (c call) tryCreation(e *entry, body []byte, manager string) (answer, error) {
	q := url.Values{"dryRun": {metav1.DryRunAll}, "fieldManager": {manager}}
	if e.stored == nil && c.inNewNamespace() {
		return c.tryElsewhere(http.MethodPost, q, asJSON, body)
	}
	if e.stored == nil {
		return c.send(c.request.Context(), http.MethodPost, c.info.collection().path(), q, asJSON, body)
	}
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(body, &o.Object); err != nil {
		return answer{}, fmt.Errorf("dry run: %s is not JSON: %w", c.request.URL.Path, err)
	}
	o.SetName(kube.DryRunName(c.info.name))
	raw, err := o.MarshalJSON()
	if err != nil {
		return answer{}, err
	}
	a, err := c.send(c.request.Context(), http.MethodPost, c.info.collection().path(), q, asJSON, raw)
	if created := a.object(); err == nil && created != nil {
		created.SetName(c.info.name)
		return objectAnswer(a.code, created), nil
	}
	return a, err
}

// inNewNamespace reports whether the namespace of the request exists only in the overlay.
func (c call) inNewNamespace() bool {
	if c.info.namespace == "" {
		return false
	}
	of := key{resource: "namespaces", name: c.info.namespace}
	if now, changed := c.overlay.lookup(of); !changed || now == nil {
		return false
	}
	e := c.overlay.entry(of)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stored == nil
}

// tryElsewhere dry-runs the creation of an object in another namespace, with another name: the server does not have the object's own
// namespace yet, and would refuse it.
func (c call) tryElsewhere(method string, q url.Values, contentType string, body []byte) (answer, error) {
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(body, &o.Object); err != nil {
		return answer{}, fmt.Errorf("dry run: %s is not JSON: %w", c.request.URL.Path, err)
	}
	at := c.info.collection()
	at.namespace = metav1.NamespaceDefault
	o.SetNamespace(at.namespace)
	o.SetName(kube.DryRunName(c.info.name))
	if method == http.MethodPatch {
		at.name = o.GetName()
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return answer{}, err
	}
	a, err := c.send(c.request.Context(), method, at.path(), q, contentType, raw)
	if created := a.object(); err == nil && created != nil {
		created.SetName(c.info.name)
		created.SetNamespace(c.info.namespace)
		return objectAnswer(a.code, created), nil
	}
	return a, err
}

// The object disappears at once unless it has finalizers.
func (c call) delete(e *entry, body []byte) (answer, error) {
	current := e.planned
	if !e.written {
		current = e.stored
	}
	if current == nil {
		return c.notFound(), nil
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
		p.ResourceVersion = nil // it may be one that the overlay assigned
	}
	if e.stored != nil && !e.isReplaced() {
		options.DryRun = []string{metav1.DryRunAll}
		raw, err := json.Marshal(options)
		if err != nil {
			return answer{}, err
		}
		a, err := c.send(c.request.Context(), http.MethodDelete, c.info.path(), nil, asJSON, raw)
		if err != nil || a.failed() {
			return a, err
		}
	}
	// No finalizers of the garbage collector are added: it would remove them after it has dealt with the dependents.
	if len(current.GetFinalizers()) == 0 {
		c.overlay.setPlanned(e, nil)
		return answer{code: http.StatusOK, raw: []byte(`{"apiVersion":"v1","kind":"Status","status":"Success"}`)}, nil
	}
	if current.GetDeletionTimestamp() != nil {
		return objectAnswer(http.StatusOK, current), nil
	}
	now := current.DeepCopy()
	if now.GetDeletionTimestamp() == nil {
		at := metav1.NewTime(time.Now().Truncate(time.Second))
		now.SetDeletionTimestamp(&at)
		now.SetGeneration(now.GetGeneration() + 1)
	}
	c.overlay.setPlanned(e, now)
	return objectAnswer(http.StatusOK, now), nil
}
