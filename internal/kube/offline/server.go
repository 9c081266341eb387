package offline

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/crd"
)

// server answers what does not concern objects: discovery of its resources, schemas of Kubernetes' kinds, and reviews of
// permissions, which allow everything. It does not change once it is connected.
type server map[schema.GroupVersion][]metav1.APIResource

func newServer() server {
	s := server{}
	for _, k := range kinds() {
		s.serve(k.GroupVersionKind(), k.Plural, k.Namespaced, k.ShortNames)
	}
	return s
}

func (s server) config() *rest.Config {
	return &rest.Config{Host: "http://offline", Transport: s, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func (s server) serve(gvk schema.GroupVersionKind, plural string, namespaced bool, short []string) {
	if s.plural(gvk) != "" {
		return
	}
	s[gvk.GroupVersion()] = append(s[gvk.GroupVersion()], metav1.APIResource{
		Name: plural, SingularName: strings.ToLower(gvk.Kind), Kind: gvk.Kind, Namespaced: namespaced, ShortNames: short,
		Verbs: metav1.Verbs{"get", "list", "watch"},
	})
}

// plural is empty for a kind that is not served.
func (s server) plural(gvk schema.GroupVersionKind) string {
	for _, r := range s[gvk.GroupVersion()] {
		if r.Kind == gvk.Kind {
			return r.Name
		}
	}
	return ""
}

// serveDefined serves the kind of an object that is a CustomResourceDefinition.
func (s server) serveDefined(o *unstructured.Unstructured) {
	if o.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
		return
	}
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

// resourceOf returns the resource of an object, and serves its kind from then on.
func (s server) resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	gvk := o.GroupVersionKind()
	guessed, _ := meta.UnsafeGuessKindToResource(gvk)
	s.serve(gvk, guessed.Resource, o.GetNamespace() != "", nil)
	return gvk.GroupVersion().WithResource(s.plural(gvk))
}

// RoundTrip implements http.RoundTripper.
func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		review := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			return nil, err
		}
		review["status"] = reviewed
		return respond(r, http.StatusCreated, review)
	}
	document, err := openAPI(r.URL.Path)
	if err != nil {
		return nil, err
	}
	if document == nil {
		document = s.discover(r.URL.Path)
	}
	if document != nil {
		return respond(r, http.StatusOK, document)
	}
	missing := failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	missing.Details = &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse, Message: "404 page not found"}},
	}
	return respond(r, http.StatusNotFound, missing)
}

func failure(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code,
		Reason: reason, Message: message}
}

func respond(r *http.Request, code int, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw)),
	}, err
}

// It returns nil for another path.
func (s server) discover(path string) any {
	switch path {
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		return s.groups()
	}
	gv, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/"))
	if err != nil || s[gv] == nil || strings.HasPrefix(path, "/api/") != (gv.Group == "") {
		return nil
	}
	return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(),
		APIResources: s[gv]}
}

// The version that Kubernetes would prefer comes first.
func (s server) groups() metav1.APIGroupList {
	versions := map[string][]string{}
	for gv := range s {
		if gv.Group != "" {
			versions[gv.Group] = append(versions[gv.Group], gv.Version)
		}
	}
	out := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
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

// documents are the schemas of Kubernetes' kinds.
var documents = sync.OnceValues(builtin.Files)

// openAPI answers requests for the schemas of Kubernetes' kinds; nil for another path.
func openAPI(path string) (any, error) {
	const root = "/openapi/v3"
	rest, ok := strings.CutPrefix(path, root)
	if !ok {
		return nil, nil
	}
	files, err := documents()
	if err != nil {
		return nil, err
	}
	index := map[string]any{}
	for _, k := range kinds() {
		gv := schema.GroupVersion{Group: k.Group, Version: k.Version}
		of := "apis/" + gv.String()
		if gv.Group == "" {
			of = "api/" + gv.Version
		}
		if raw := files[builtin.FileOf(gv)]; rest == "/"+of && raw != nil {
			return json.RawMessage(raw), nil
		}
		index[of] = map[string]any{"serverRelativeURL": root + "/" + of}
	}
	if rest == "" {
		return map[string]any{"paths": index}, nil
	}
	return nil, nil
}

// reviewed is the status of every review.
var reviewed = map[string]any{
	"allowed":       true,
	"userInfo":      map[string]any{"username": "offline"},
	"resourceRules": []any{map[string]any{"verbs": []any{"*"}, "apiGroups": []any{"*"}, "resources": []any{"*"}}},
}
