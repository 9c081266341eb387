package dryrun

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

type requestInfo struct {
	resource        schema.GroupVersionResource
	namespace, name string
	subresource     string
}

// It returns false for the path of no resource, such as a path of discovery.
func parseRequestInfo(path string) (t requestInfo, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		t.resource.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.resource.Group, t.resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return t, false
	}
	isOfNamespace := len(parts) >= 3 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize"
	if isOfNamespace {
		t.namespace, parts = parts[1], parts[2:]
	}
	t.resource.Resource = parts[0]
	if len(parts) > 1 {
		t.name = parts[1]
	}
	if len(parts) > 2 {
		t.subresource = strings.Join(parts[2:], "/")
	}
	return t, true
}

type key struct {
	group, resource, namespace, name string
}

func (t requestInfo) key() key {
	return key{t.resource.Group, t.resource.Resource, t.namespace, t.name}
}

func (t requestInfo) collection() requestInfo {
	t.name, t.subresource = "", ""
	return t
}

func (t requestInfo) path() string {
	var b strings.Builder
	if t.resource.Group == "" {
		b.WriteString("/api/" + t.resource.Version)
	} else {
		b.WriteString("/apis/" + t.resource.Group + "/" + t.resource.Version)
	}
	if t.namespace != "" {
		b.WriteString("/namespaces/" + t.namespace)
	}
	b.WriteString("/" + t.resource.Resource)
	for _, part := range []string{t.name, t.subresource} {
		if part != "" {
			b.WriteString("/" + part)
		}
	}
	return b.String()
}

// A review is sent as a creation and stores nothing.
func (t requestInfo) isReview(method string) bool {
	return method == http.MethodPost &&
		(t.resource.Group == "authorization.k8s.io" || t.resource.Group == "authentication.k8s.io")
}
