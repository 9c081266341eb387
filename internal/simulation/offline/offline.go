// Package offline is an empty cluster in memory, for simulations without an API server. It has the kinds of
// Kubernetes, those of CustomResourceDefinitions that are created in it, and no controllers and webhooks:
// objects of Kubernetes' own kinds get no defaults.
// See docs/design/0016-the-controllers-without-effect.md.
package offline

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/builtin"
	"github.com/espalier-dev/espalier/internal/kube/builtin/admission"
	"github.com/espalier-dev/espalier/internal/kube/dryrun"
)

// New returns an overlay over an empty cluster, and a connection through it. All that is written is in the
// overlay.
func New() (*dryrun.Overlay, *rest.Config) {
	overlay := dryrun.New()
	for _, k := range kinds() {
		overlay.AddKind(schema.GroupResource{Group: k.Group, Resource: k.Plural}, k.Kind, func(version string) dryrun.Admission {
			a, err := admission.New(schema.GroupVersionKind{Group: k.Group, Version: version, Kind: k.Kind})
			if err != nil {
				return nil // it has no such version
			}
			return a
		})
	}
	config := &rest.Config{Host: "http://offline", Transport: server{}, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	return overlay, overlay.Wrap(config)
}

// kinds are those of Kubernetes without aggregated API servers: there are none.
func kinds() []builtin.Kind {
	var out []builtin.Kind
	for _, k := range builtin.Kinds() {
		if k.Group != "apiregistration.k8s.io" {
			out = append(out, k)
		}
	}
	return out
}

// server answers what does not concern objects: discovery, and reviews of permissions, which allow everything.
type server struct{}

// RoundTrip implements http.RoundTripper.
func (server) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := http.StatusNotFound, any(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
		Message: "the server could not find the requested resource",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse, Message: "404 page not found"}}},
	})
	document, err := openAPI(r.URL.Path)
	if err != nil {
		return nil, err
	}
	switch list := resourcesOf(r.URL.Path); {
	case document != nil:
		code, body = http.StatusOK, document
	case r.Method == http.MethodPost:
		review := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			return nil, err
		}
		review["status"] = reviewed
		code, body = http.StatusCreated, review
	case list != nil:
		code, body = http.StatusOK, list
	}
	raw, err := json.Marshal(body)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)), ContentLength: int64(len(raw)),
	}, err
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

// resourcesOf answers discovery of one version of a group of Kubernetes; nil for another path.
func resourcesOf(path string) *metav1.APIResourceList {
	gv, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/"))
	if err != nil || strings.HasPrefix(path, "/api/") != (gv.Group == "") {
		return nil
	}
	out := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for _, k := range kinds() {
		if k.Group == gv.Group && k.Version == gv.Version {
			out.APIResources = append(out.APIResources, metav1.APIResource{Name: k.Plural, Kind: k.Kind, Namespaced: k.Namespaced})
		}
	}
	if len(out.APIResources) == 0 {
		return nil
	}
	return out
}
