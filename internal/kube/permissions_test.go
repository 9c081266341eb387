package kube_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// authorizer answers access reviews of a user who may get ConfigMaps while granted is true.
type authorizer struct {
	granted bool
	silent  bool // does not list what it grants
	// afterRules is called after each answer with rules.
	afterRules func()
	requests   int
}

func (a *authorizer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.requests++
	var status map[string]any
	if strings.HasSuffix(r.URL.Path, "/selfsubjectrulesreviews") {
		rules := []any{}
		if a.granted && !a.silent {
			rules = append(rules, map[string]any{"verbs": []string{"get"}, "apiGroups": []string{""}, "resources": []string{"configmaps"}})
		}
		status = map[string]any{"resourceRules": rules}
		if a.afterRules != nil {
			a.afterRules()
		}
	} else {
		status = map[string]any{"allowed": a.granted}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "Review", "status": status})
}

func (a *authorizer) client(t *testing.T) *kube.Client {
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return kube.NewClient(dynamic.NewForConfigOrDie(&rest.Config{Host: server.URL, QPS: -1}), resolved{})
}

var getConfigMaps = []rbac.Permission{{Verb: "get", Resource: "configmaps"}}

// TestAPermissionIsRevokedRightAfterItWasGranted grants a permission between the review of all rules and that of the
// permission, and revokes it before the next one of the rules, which are what they were before the grant.
func TestAPermissionIsRevokedRightAfterItWasGranted(t *testing.T) {
	a := &authorizer{}
	client := a.client(t)
	missing := func(since time.Time) bool {
		t.Helper()
		lacks, err := client.MissingPermissions(t.Context(), getConfigMaps, since)
		if err != nil {
			t.Fatal(err)
		}
		return len(lacks) > 0
	}
	if !missing(time.Now()) {
		t.Fatal("the permission is not missing before it is granted")
	}
	a.afterRules = func() { a.granted = true }
	if missing(time.Now()) {
		t.Fatal("the permission is missing although it was allowed")
	}
	a.granted, a.afterRules = false, nil
	changed, err := client.RefreshPermissions(t.Context(), false)
	if err != nil || !changed {
		t.Fatalf("nothing changes when the permission is revoked (error: %v)", err)
	}
	if !missing(time.Time{}) {
		t.Error("the permission is not missing after it was revoked")
	}
}

// TestAPermissionIsRevokedWhileItIsReviewed revokes the permission right after it was allowed.
func TestAPermissionIsRevokedWhileItIsReviewed(t *testing.T) {
	a := &authorizer{}
	rules := 0
	a.afterRules = func() {
		rules++
		a.granted = rules == 1 // revoked before the second answer is believed
	}
	a.silent = true
	lacks, err := a.client(t).MissingPermissions(t.Context(), getConfigMaps, time.Now())
	if err != nil || len(lacks) != 1 {
		t.Fatalf("%v are missing (error: %v), want the revoked one", lacks, err)
	}
}

// TestAnAuthorizerMayListNothing has an authorizer that does not list what it grants.
func TestAnAuthorizerMayListNothing(t *testing.T) {
	a := &authorizer{granted: true, silent: true}
	client := a.client(t)
	lacks, err := client.MissingPermissions(t.Context(), getConfigMaps, time.Now())
	if err != nil || len(lacks) > 0 {
		t.Fatalf("%v are missing, error: %v", lacks, err)
	}
	if a.requests > 4 {
		t.Errorf("%d requests, want two for the rules and two for the permission", a.requests)
	}
	if changed, err := client.RefreshPermissions(t.Context(), false); err != nil || changed {
		t.Errorf("the permissions changed: %v, error: %v", changed, err)
	}
}
