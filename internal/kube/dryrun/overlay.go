package dryrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// firstRevision is greater than any resource version of an API server. Planned objects have resource versions from here
// on, so caches take them for newer than what is stored.
const firstRevision = uint64(1) << 62

// Overlay records the changes that a program would make. It is safe for concurrent use.
type Overlay struct {
	revision atomic.Uint64 // the last one assigned
	stored   atomic.Uint64 // the last one seen of the server
	pending  atomic.Int64  // requests in flight, without watches
	requests atomic.Uint64 // all requests, without watches

	types      fieldTypes
	converters converters

	mu      sync.Mutex
	entries map[key]*entry
	// plannedKinds are keyed by group and resource.
	plannedKinds map[schema.GroupResource]*plannedKind
	watches      map[*overlayWatch]bool
}

// New returns an overlay without changes.
func New() *Overlay {
	o := &Overlay{entries: map[key]*entry{}, plannedKinds: map[schema.GroupResource]*plannedKind{}, watches: map[*overlayWatch]bool{}}
	o.revision.Store(firstRevision)
	return o
}

// Wrap returns a copy of a configuration with connections that read and write through the overlay.
func (o *Overlay) Wrap(config *rest.Config) *rest.Config {
	wrapped := rest.CopyConfig(config)
	wrapped.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{o, next} })
	return wrapped
}

// RequestCounts returns the number of requests in flight and of all requests, without
// watches. Events of planned objects that a watch has not read yet count as requests in flight.
func (o *Overlay) RequestCounts() (pending int, made uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	pending = int(o.pending.Load())
	for w := range o.watches {
		pending += w.events.length()
	}
	return pending, o.requests.Load()
}

// transport sends writes as dry runs.
type transport struct {
	overlay *Overlay
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	at, isResource := parseRequestInfo(r.URL.Path)
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	isWatch := isRead && isTrue(r.URL.Query().Get("watch"))
	if !isWatch {
		t.overlay.pending.Add(1)
		t.overlay.requests.Add(1)
		defer t.overlay.pending.Add(-1)
	}
	c := call{transport: t, request: r, info: at}
	switch {
	case !isResource && isRead, isResource && at.isReview(r.Method):
		return t.next.RoundTrip(r)
	case !isResource:
		return nil, fmt.Errorf("dry run: %s %s is not sent, because the API server cannot dry-run it", r.Method, r.URL.Path)
	case isWatch:
		return c.watch()
	case isRead && at.name == "":
		return c.list()
	case isRead && at.subresource == "":
		return c.get()
	case isRead:
		return t.next.RoundTrip(r)
	}
	return c.write()
}

func isTrue(text string) bool {
	value, err := strconv.ParseBool(text)
	return err == nil && value
}

type call struct {
	transport
	request *http.Request
	info    requestInfo
}

// send sends a request with the caller's identity, for JSON, and reads the whole answer.
func (c call) send(ctx context.Context, method, path string, query url.Values, contentType string, body []byte) (answer, error) {
	r := c.request.Clone(ctx)
	r.Method = method
	r.URL.Path, r.URL.RawPath, r.URL.RawQuery = path, "", query.Encode()
	r.Header.Set("Accept", "application/json")
	r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	r.Header.Del("Content-Type")
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", contentType)
	}
	response, err := c.next.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	raw, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // it has been read to its end
	return answer{code: response.StatusCode, header: response.Header, raw: raw}, err
}

// read reads an object or a schema for the overlay itself, with the program's own permissions: an impersonated user may
// be allowed to write an object that it is not allowed to read.
func (c call) read(path string) (answer, error) {
	r := c.request.Clone(c.request.Context())
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			r.Header.Del(name)
		}
	}
	c.request = r
	return c.send(r.Context(), http.MethodGet, path, nil, "", nil)
}

// answer is a response of the API server, or of the overlay in its place.
type answer struct {
	code   int
	header http.Header
	raw    []byte
}

func (a answer) failed() bool { return a.code >= http.StatusBadRequest }

func (a answer) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if a.failed() || o.UnmarshalJSON(a.raw) != nil || o.GetKind() == "Status" {
		return nil
	}
	return o
}

func (a answer) response(r *http.Request) *http.Response {
	header := http.Header{}
	for name, values := range a.header {
		if name == "Warning" || name == "Retry-After" || strings.HasPrefix(name, "X-Kubernetes") {
			header[name] = values
		}
	}
	header.Set("Content-Type", "application/json")
	return &http.Response{
		Status: strconv.Itoa(a.code) + " " + http.StatusText(a.code), StatusCode: a.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: r,
		Body: io.NopCloser(bytes.NewReader(a.raw)), ContentLength: int64(len(a.raw)),
	}
}

func objectAnswer(code int, o *unstructured.Unstructured) answer {
	raw, err := o.MarshalJSON()
	if err != nil {
		return failureAnswer(http.StatusInternalServerError, metav1.StatusReasonInternalError, "dry run: "+err.Error(), nil)
	}
	return answer{code: code, raw: raw}
}

func failureAnswer(code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) answer {
	raw, _ := json.Marshal(metav1.Status{ // a Status can be encoded
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: details,
	})
	return answer{code: int(code), raw: raw}
}

func (c call) details() *metav1.StatusDetails {
	return &metav1.StatusDetails{Name: c.info.name, Group: c.info.resource.Group, Kind: c.info.resource.Resource}
}

func (c call) notFound() answer {
	return failureAnswer(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", c.info.resource.GroupResource(), c.info.name),
		c.details())
}

func (c call) badRequest(err error) answer {
	return failureAnswer(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), nil)
}

func (c call) conflict(why string) answer {
	return failureAnswer(http.StatusConflict, metav1.StatusReasonConflict, fmt.Sprintf("%s %q: %s", c.info.resource.GroupResource(), c.info.name, why),
		c.details())
}

// Resource versions of the overlay are replaced by the server's.
func (c call) query() url.Values {
	q := c.request.URL.Query()
	if n, err := strconv.ParseUint(q.Get("resourceVersion"), 10, 64); err == nil && n >= firstRevision/2 { // or a little before
		q.Set("resourceVersion", strconv.FormatUint(c.overlay.stored.Load(), 10))
	}
	return q
}

func (o *Overlay) observeRevision(revision string) {
	n, err := strconv.ParseUint(revision, 10, 64)
	if err != nil || n >= firstRevision {
		return
	}
	for {
		last := o.stored.Load()
		if n <= last || o.stored.CompareAndSwap(last, n) {
			return
		}
	}
}

func (o *Overlay) entry(k key) *entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, ok := o.entries[k]
	if !ok {
		e = &entry{key: k}
		o.entries[k] = e
	}
	return e
}

// Store adds an object as it is, without admission and with its own resource version. It replaces an earlier state of the
// object. Call it before the first request.
func (o *Overlay) Store(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	e := o.entry(key{resource.Group, resource.Resource, object.GetNamespace(), object.GetName()})
	e.resource, e.planned, e.written = resource, object, true
	e.seen.now, e.seen.written = object, true
}

// changed reports whether the object would be changed.
func (o *Overlay) lookup(k key) (now *unstructured.Unstructured, changed bool) {
	o.mu.Lock()
	e := o.entries[k]
	o.mu.Unlock()
	if e == nil {
		return nil, false
	}
	return e.snapshot()
}

// Objects that would be deleted are nil.
func (o *Overlay) changedOf(at requestInfo) map[key]*unstructured.Unstructured {
	o.mu.Lock()
	var keys []key
	var entries []*entry
	for k, e := range o.entries {
		if k.group == at.resource.Group && k.resource == at.resource.Resource && (at.namespace == "" || k.namespace == at.namespace) {
			keys, entries = append(keys, k), append(entries, e)
		}
	}
	o.mu.Unlock()
	out := map[key]*unstructured.Unstructured{}
	for i, e := range entries {
		if now, changed := e.snapshot(); changed {
			out[keys[i]] = now
		}
	}
	return out
}

// Change is the change that an object would undergo.
type Change struct {
	// Resource is the resource of its kind.
	Resource schema.GroupVersionResource
	// Before is nil for an object that would be created, and After for one that would be
	// deleted.
	Before, After *unstructured.Unstructured
	// Deletion reports that its deletion would be requested, and was not before.
	Deletion bool
	// Order sorts the changes by the first write to their objects.
	Order uint64
}

// Changes returns the objects that would be changed, sorted by resource and name.
func (o *Overlay) Changes() []Change {
	o.mu.Lock()
	var keys []key
	for k := range o.entries {
		keys = append(keys, k)
	}
	o.mu.Unlock()
	slices.SortFunc(keys, func(a, b key) int {
		return slices.Compare([]string{a.group, a.resource, a.namespace, a.name}, []string{b.group, b.resource, b.namespace, b.name})
	})
	var out []Change
	for _, k := range keys {
		if change, ok := o.entry(k).change(o.converted); ok {
			out = append(out, change)
		}
	}
	return out
}
