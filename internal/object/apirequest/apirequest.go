// Package apirequest reads what the URL of a request to the API server tells.
//
// Pure: it decides from values alone.
package apirequest

import (
	"net/url"
	"strings"
)

// Request is what the URL and the method of a request tell. Resource is empty if the URL is of no resource.
type Request struct {
	Group, Namespace, Resource, Name, Subresource string
	// Verb is as in a Role; for a request that concerns no resource the method in lower case.
	Verb   string
	DryRun bool
}

// Parse reads a request: /api/VERSION/… or /apis/GROUP/VERSION/…, then namespaces/NAMESPACE/ if the resource
// is namespaced, RESOURCE, NAME and SUBRESOURCE. A server may serve the API below a path of its own.
func Parse(method string, u *url.URL) Request {
	query := u.Query()
	out := Request{Verb: strings.ToLower(method), DryRun: query.Has("dryRun")}
	parts := resourcePath(u.Path, &out.Group)
	if len(parts) == 0 {
		return out
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		out.Namespace, parts = parts[1], parts[2:]
	}
	at := func(i int) string {
		if i < len(parts) {
			return parts[i]
		}
		return ""
	}
	out.Resource, out.Name, out.Subresource = at(0), at(1), at(2)
	out.Verb = verbOf(method, query, out.Name != "")
	return out
}

// It is nil if the path is of no resource.
func resourcePath(path string, group *string) []string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		switch {
		case part == "api" && len(parts) > i+2:
			return parts[i+2:]
		case part == "apis" && len(parts) > i+3:
			*group = parts[i+1]
			return parts[i+3:]
		}
	}
	return nil
}

func verbOf(method string, query url.Values, named bool) string {
	switch {
	case method == "GET" && query.Get("watch") == "true":
		return "watch"
	case method == "GET" && !named:
		return "list"
	case method == "DELETE" && !named:
		return "deletecollection"
	case method == "POST":
		return "create"
	case method == "PUT":
		return "update"
	}
	return strings.ToLower(method)
}

// Writes reports whether the request may change one object that it names.
func (r Request) Writes() bool {
	return r.Name != "" && !r.DryRun && (r.Verb == "update" || r.Verb == "patch" || r.Verb == "delete")
}
