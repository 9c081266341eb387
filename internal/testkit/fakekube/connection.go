package fakekube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/offline"
	"github.com/espalier-dev/espalier/internal/object"
)

// Config returns a connection to the cluster, for programs that make their own clients. There
// is no network in between, so a synctest bubble can hold such a program. It serves the
// kinds of Kubernetes, the kinds of CustomResourceDefinitions, which are established once they are
// stored, and the reviews of permissions: everything is allowed. An error of Before or After
// that is no status of the API server fails the connection.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{Host: "http://fakekube", Transport: connection{c}, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// reviews are the kinds of reviews by their resources.
var reviews = map[string]string{
	"selfsubjectaccessreviews": "SelfSubjectAccessReview", "selfsubjectreviews": "SelfSubjectReview",
	"selfsubjectrulesreviews": "SelfSubjectRulesReview", "subjectaccessreviews": "SubjectAccessReview",
}

// reviewed is the status of every review.
var reviewed = map[string]any{
	"allowed":       true,
	"userInfo":      map[string]any{"username": "controllers"},
	"resourceRules": []any{map[string]any{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}}},
}

// kindOf returns the kind that a resource serves.
func (c *Cluster) kindOf(gvr schema.GroupVersionResource) (gvk schema.GroupVersionKind, ok bool) {
	if kind, ok := reviews[gvr.Resource]; ok {
		return gvr.GroupVersion().WithKind(kind), true
	}
	for _, k := range builtin.Kinds() {
		if kind := k.GroupVersionKind(); kind.GroupVersion().WithResource(k.Plural) == gvr {
			return kind, true
		}
	}
	crd := c.Object(object.Key{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: gvr.GroupResource().String()})
	if crd == nil {
		return gvk, false
	}
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	return gvr.GroupVersion().WithKind(kind), true
}

// establish makes a CustomResourceDefinition's kind a served one.
func establish(o *obj) {
	o.Object["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"},
	}}
}

// connection is the transport of Config.
type connection struct{ *Cluster }

var paths = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// RoundTrip implements http.RoundTripper.
func (c connection) RoundTrip(r *http.Request) (*http.Response, error) {
	info, err := paths.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		_ = r.Body.Close() // it is in memory
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if !info.IsResourceRequest {
		return offline.Discovery().RoundTrip(r)
	}
	answer, stream, err := c.serve(r, info, body)
	code := http.StatusOK
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		failed := status.Status()
		failed.Kind, failed.APIVersion = "Status", "v1"
		answer, code = failed, int(failed.Code)
	} else if err != nil {
		return nil, err
	}
	if stream == nil {
		raw, err := json.Marshal(answer)
		if err != nil {
			return nil, err
		}
		stream = io.NopCloser(bytes.NewReader(raw))
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: stream, ContentLength: -1,
	}, nil
}

// serve carries out a request. It returns the answer, or the stream of a watch.
func (c connection) serve(r *http.Request, info *request.RequestInfo, body []byte) (answer any, stream io.ReadCloser, err error) {
	gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	gvk, ok := c.kindOf(gv.WithResource(info.Resource))
	if !ok {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name)
	}
	on := requests{cluster: c.Cluster, kind: gvk, resource: schema.GroupResource{Group: gv.Group, Resource: info.Resource}, namespace: info.Namespace}
	if info.Resource == "namespaces" {
		on.namespace = "" // the request's information has the object's own name
	}
	switch info.Verb {
	case "watch":
		stream, err = c.watch(r, on, info.Name)
	case "list":
		answer, err = on.list(r, info.Name)
	default:
		answer, err = c.request(r, on, info, body)
	}
	return answer, stream, err
}

func (r requests) list(request *http.Request, name string) (*unstructured.UnstructuredList, error) {
	q := request.URL.Query()
	found, err := r.List(request.Context(), metav1.ListOptions{LabelSelector: q.Get("labelSelector"), Continue: q.Get("continue")})
	if err != nil {
		return nil, err
	}
	found.SetGroupVersionKind(r.kind.GroupVersion().WithKind(r.kind.Kind + "List"))
	found.Items = slices.DeleteFunc(found.Items, func(o obj) bool { return name != "" && o.GetName() != name })
	return found, nil
}

// request carries out a request for one object.
func (c connection) request(r *http.Request, on requests, info *request.RequestInfo, body []byte) (*obj, error) {
	o := &obj{}
	if info.Verb == "create" || info.Verb == "update" {
		if err := o.UnmarshalJSON(body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	ctx, dryRun := r.Context(), r.URL.Query()["dryRun"]
	answer, err := o, error(nil)
	switch {
	case info.Verb == "get":
		answer, err = on.Get(ctx, info.Name, metav1.GetOptions{})
	case info.Verb == "create" && reviews[info.Resource] != "":
		answer, err = on.do("create", "", func(*obj) (*obj, error) { return o, unstructured.SetNestedField(o.Object, reviewed, "status") })
	case info.Verb == "create":
		answer, err = on.Create(ctx, o, metav1.CreateOptions{DryRun: dryRun})
	case info.Verb == "update" && info.Subresource == "status":
		answer, err = on.UpdateStatus(ctx, o, metav1.UpdateOptions{DryRun: dryRun})
	case info.Verb == "update":
		answer, err = on.Update(ctx, o, metav1.UpdateOptions{DryRun: dryRun})
	case info.Verb == "patch":
		answer, err = on.Patch(ctx, info.Name, types.PatchType(r.Header.Get("Content-Type")), body, metav1.PatchOptions{DryRun: dryRun})
	case info.Verb == "delete":
		return &obj{Object: map[string]any{"kind": "Status", "apiVersion": "v1", "status": metav1.StatusSuccess}}, on.delete(ctx, info.Name, body)
	default:
		err = apierrors.NewMethodNotSupported(on.resource, info.Verb)
	}
	if err == nil && on.kind.Kind == "CustomResourceDefinition" && info.Verb != "get" && len(dryRun) == 0 {
		c.Change(object.KeyOf(answer), establish)
	}
	return answer, err
}

func (r requests) delete(ctx context.Context, name string, body []byte) error {
	var options metav1.DeleteOptions
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	return r.Delete(ctx, name, options)
}

// event is a change of an object.
type event struct {
	Type   apiwatch.EventType `json:"type"`
	Object *obj               `json:"object"`
}

// events are the changes so far.
type events struct {
	all []event
	// more is closed at the next one; nil while nobody waits.
	more chan struct{}
}

// add records a change; before is nil for a new object, after for a deleted one. The lock of
// the cluster is held.
func (e *events) add(before, after *obj) {
	next := event{apiwatch.Modified, after}
	if before == nil {
		next.Type = apiwatch.Added
	} else if after == nil {
		next = event{apiwatch.Deleted, before}
	}
	e.all = append(e.all, event{next.Type, next.Object.DeepCopy()})
	if e.more != nil {
		close(e.more)
		e.more = nil
	}
}

// after returns the changes from the nth, and a channel that is closed at the next one.
func (c *Cluster) after(n int) ([]event, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events.more == nil {
		c.events.more = make(chan struct{})
	}
	return c.events.all[n:], c.events.more
}

// watch streams the changes of objects after a resource version. An object that does not match
// any more has no event.
func (c connection) watch(r *http.Request, on requests, name string) (io.ReadCloser, error) {
	q := r.URL.Query()
	if q.Get("sendInitialEvents") == "true" {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // clients list instead
	}
	selector, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	// The request takes effect at once: its stream is what follows the resource version.
	if _, err := on.do("watch", name, func(*obj) (*obj, error) { return nil, nil }); err != nil {
		return nil, err
	}
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	wanted := func(o *obj) bool {
		revision, _ := strconv.Atoi(o.GetResourceVersion())
		return revision > from && o.GroupVersionKind().GroupKind() == on.kind.GroupKind() && (on.namespace == "" || o.GetNamespace() == on.namespace) &&
			(name == "" || o.GetName() == name) && selector.Matches(labels.Set(o.GetLabels()))
	}
	ctx, cancel := context.WithCancel(r.Context())
	out, in := io.Pipe()
	go func() {
		defer in.Close()
		lines := json.NewEncoder(in)
		for n := 0; ; {
			found, more := c.after(n)
			n += len(found)
			for _, e := range found {
				if wanted(e.Object) && lines.Encode(e) != nil {
					return
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}()
	return stream{out, cancel}, nil
}

// stream is the body of a watch.
type stream struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close ends the watch.
func (s stream) Close() error {
	s.cancel()
	return s.ReadCloser.Close()
}
