package apirequest_test

import (
	"net/url"
	"testing"

	"github.com/espalier-dev/espalier/internal/object/apirequest"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		method, url string
		want        apirequest.Request
		writes      bool
	}{
		{"GET", "/api/v1/namespaces/shop/configmaps/a", apirequest.Request{Namespace: "shop", Resource: "configmaps", Name: "a", Verb: "get"}, false},
		{"GET", "/api/v1/configmaps?watch=true", apirequest.Request{Resource: "configmaps", Verb: "watch"}, false},
		{"GET", "/apis/apps/v1/deployments", apirequest.Request{Group: "apps", Resource: "deployments", Verb: "list"}, false},
		{"PUT", "/apis/example.com/v1/namespaces/shop/webs/a/status", apirequest.Request{Group: "example.com", Namespace: "shop", Resource: "webs", Name: "a", Subresource: "status", Verb: "update"}, true},
		{"PATCH", "/api/v1/namespaces/shop/configmaps/a?dryRun=All", apirequest.Request{Namespace: "shop", Resource: "configmaps", Name: "a", Verb: "patch", DryRun: true}, false},
		{"PUT", "/api/v1/namespaces/shop/finalize", apirequest.Request{Resource: "namespaces", Name: "shop", Subresource: "finalize", Verb: "update"}, true},
		{"GET", "/clusters/one/apis/apps/v1/namespaces/shop/deployments/a", apirequest.Request{Group: "apps", Namespace: "shop", Resource: "deployments", Name: "a", Verb: "get"}, false},
		{"DELETE", "/api/v1/namespaces/shop/configmaps", apirequest.Request{Namespace: "shop", Resource: "configmaps", Verb: "deletecollection"}, false},
		{"POST", "/api/v1/namespaces/shop/configmaps", apirequest.Request{Namespace: "shop", Resource: "configmaps", Verb: "create"}, false},
		{"GET", "/metrics", apirequest.Request{Verb: "get"}, false},
	} {
		u, err := url.Parse(tc.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := apirequest.Parse(tc.method, u); got != tc.want || got.Writes() != tc.writes {
			t.Errorf("%s %s is read as %+v, writes %t; want %+v, %t", tc.method, tc.url, got, got.Writes(), tc.want, tc.writes)
		}
	}
}
