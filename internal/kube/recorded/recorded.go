// Package recorded answers requests for a cluster from a record of its objects, without the cluster. It
// reads only: discovery, objects and lists. A watch shows no events, and writes are refused.
// See docs/design/0016-the-controllers-without-effect.md.
package recorded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

const revision = "1"

// Open returns a connection to the record. Of several states of an object the last counts. A kind is served
// if Kubernetes has it, if the record has its CustomResourceDefinition, or if it has an object of it.
func Open(objects []*unstructured.Unstructured) *rest.Config {
	s := &server{resources: map[schema.GroupVersion][]metav1.APIResource{}, objects: map[schema.GroupResource]map[string]*unstructured.Unstructured{}}
	for _, k := range builtin.Kinds() {
		s.serve(k.GroupVersionKind(), k.Plural, k.Namespaced, k.ShortNames)
	}
	for _, o := range objects {
		if o.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
			s.serveDefined(o)
		}
	}
	for _, o := range objects {
		s.add(o)
	}
	return &rest.Config{Host: "http://recorded", Transport: s, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// server answers requests. It does not change once it is made.
type server struct {
	resources map[schema.GroupVersion][]metav1.APIResource
	// objects are by resource, and by namespace/name. They are served in each version of their kind, with
	// the fields that they have.
	objects map[schema.GroupResource]map[string]*unstructured.Unstructured
}

func (s *server) serve(gvk schema.GroupVersionKind, plural string, namespaced bool, short []string) {
	if _, known := s.resourceOf(gvk); known {
		return
	}
	s.resources[gvk.GroupVersion()] = append(s.resources[gvk.GroupVersion()], metav1.APIResource{
		Name: plural, SingularName: strings.ToLower(gvk.Kind), Kind: gvk.Kind, Namespaced: namespaced, ShortNames: short, Verbs: metav1.Verbs{"get", "list", "watch"},
	})
}

func (s *server) serveDefined(o *unstructured.Unstructured) {
	c, err := crd.Decode(o)
	if err != nil {
		return
	}
	for _, v := range c.Spec.Versions {
		if v.Served {
			s.serve(crd.GroupKind(c).WithVersion(v.Name), c.Spec.Names.Plural, c.Spec.Scope == "Namespaced", c.Spec.Names.ShortNames)
		}
	}
}

func (s *server) resourceOf(gvk schema.GroupVersionKind) (metav1.APIResource, bool) {
	all := s.resources[gvk.GroupVersion()]
	i := slices.IndexFunc(all, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind })
	if i < 0 {
		return metav1.APIResource{}, false
	}
	return all[i], true
}

func (s *server) add(o *unstructured.Unstructured) {
	gvk := o.GroupVersionKind()
	resource, known := s.resourceOf(gvk)
	if !known {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		s.serve(gvk, plural.Resource, o.GetNamespace() != "", nil)
		resource, _ = s.resourceOf(gvk)
	}
	gvr := schema.GroupResource{Group: gvk.Group, Resource: resource.Name}
	if s.objects[gvr] == nil {
		s.objects[gvr] = map[string]*unstructured.Unstructured{}
	}
	s.objects[gvr][o.GetNamespace()+"/"+o.GetName()] = o
}

var paths = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	info, err := paths.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	code, body := http.StatusOK, any(nil)
	switch {
	case r.Method != http.MethodGet:
		code, body = failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "this is a record of a cluster, which cannot be changed")
	case !info.IsResourceRequest:
		if body = s.discover(r.URL.Path); body == nil {
			code, body = failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		}
	case info.Verb == "watch":
		return respond(r, code, &silence{done: r.Context().Done()}), nil
	default:
		code, body = s.read(r, info)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return respond(r, code, io.NopCloser(bytes.NewReader(raw))), nil
}

func respond(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1,
	}
}

// silence is the stream of a watch: it has nothing until the request ends.
type silence struct{ done <-chan struct{} }

// Read implements io.Reader.
func (s *silence) Read([]byte) (int, error) {
	<-s.done
	return 0, io.EOF
}

// Close implements io.Closer.
func (s *silence) Close() error { return nil }

func failure(code int32, reason metav1.StatusReason, message string) (int, any) {
	return int(code), metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code,
		Reason: reason, Message: message}
}

// It returns nil for another path.
func (s *server) discover(path string) any {
	switch path {
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		return s.groups()
	}
	gv, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/"))
	if err != nil || s.resources[gv] == nil || strings.HasPrefix(path, "/api/") != (gv.Group == "") {
		return nil
	}
	return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: s.resources[gv]}
}

// The version that Kubernetes would prefer comes first.
func (s *server) groups() metav1.APIGroupList {
	versions := map[string][]string{}
	for gv := range s.resources {
		if gv.Group != "" {
			versions[gv.Group] = append(versions[gv.Group], gv.Version)
		}
	}
	out := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	names := make([]string, 0, len(versions))
	for name := range versions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		slices.SortFunc(versions[name], func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
		g := metav1.APIGroup{Name: name}
		for _, v := range versions[name] {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
		}
		g.PreferredVersion = g.Versions[0]
		out.Groups = append(out.Groups, g)
	}
	return out
}

func (s *server) read(r *http.Request, info *request.RequestInfo) (int, any) {
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	all := s.resources[gvr.GroupVersion()]
	i := slices.IndexFunc(all, func(a metav1.APIResource) bool { return a.Name == info.Resource })
	if i < 0 {
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}
	namespace := info.Namespace
	if !all[i].Namespaced {
		namespace = ""
	}
	if info.Verb == "get" {
		if o := s.objects[gvr.GroupResource()][namespace+"/"+info.Name]; o != nil {
			return http.StatusOK, inVersion(o, gvr)
		}
		return failure(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", gvr.GroupResource(), info.Name))
	}
	q := r.URL.Query()
	byLabels, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	byFields, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	items := []any{}
	for _, o := range s.sorted(gvr.GroupResource()) {
		if (namespace == "" || o.GetNamespace() == namespace) && byLabels.Matches(labels.Set(o.GetLabels())) &&
			byFields.Matches(selectable(o)) {
			items = append(items, inVersion(o, gvr))
		}
	}
	return http.StatusOK, map[string]any{"apiVersion": gvr.GroupVersion().String(), "kind": all[i].Kind + "List",
		"metadata": map[string]any{"resourceVersion": revision}, "items": items}
}

// selectable are the fields that lists can be restricted by: the fields of all objects, and the reason of an event.
func selectable(o *unstructured.Unstructured) fields.Set {
	reason, _, _ := unstructured.NestedString(o.Object, "reason")
	return fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace(), "reason": reason}
}

func inVersion(o *unstructured.Unstructured, gvr schema.GroupVersionResource) map[string]any {
	out := maps.Clone(o.Object)
	out["apiVersion"] = gvr.GroupVersion().String()
	return out
}

func (s *server) sorted(gvr schema.GroupResource) []*unstructured.Unstructured {
	keys := make([]string, 0, len(s.objects[gvr]))
	for key := range s.objects[gvr] {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	out := make([]*unstructured.Unstructured, len(keys))
	for i, key := range keys {
		out[i] = s.objects[gvr][key]
	}
	return out
}
