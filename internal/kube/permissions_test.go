package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// reviews is a transport that answers reviews of rules, each once its namespace is released.
type reviews struct {
	mu       sync.Mutex
	requests []string // namespaces
	release  map[string]chan struct{}
}

func (r *reviews) RoundTrip(q *http.Request) (*http.Response, error) {
	var review struct{ Spec struct{ Namespace string } }
	if err := json.NewDecoder(q.Body).Decode(&review); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.requests = append(r.requests, review.Spec.Namespace)
	release := r.release[review.Spec.Namespace]
	r.mu.Unlock()
	if release != nil {
		<-release
	}
	rules := `[{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]`
	if !strings.HasPrefix(review.Spec.Namespace, "team-") {
		rules = "[]" // none in all namespaces
	}
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: q,
		Body: io.NopCloser(strings.NewReader(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "status": {"resourceRules": ` + rules + `}}`)),
	}, nil
}

func (r *reviews) client() *kube.Client {
	return kube.NewClient(dynamic.NewForConfigOrDie(&rest.Config{Host: "http://nowhere.invalid", Transport: r, QPS: -1}), resolved{})
}

// of counts the requests for a namespace.
func (r *reviews) of(namespace string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, requested := range r.requests {
		if requested == namespace {
			n++
		}
	}
	return n
}

// in are enough permissions in a namespace for a review of its rules.
func in(namespace string) (out []rbac.Permission) {
	for _, verb := range []string{"get", "list", "watch", "create"} {
		out = append(out, rbac.Permission{Verb: verb, Resource: "configmaps", Namespace: namespace})
	}
	return out
}

func TestASlowReviewDelaysOnlyThoseOfItsNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		r := &reviews{release: map[string]chan struct{}{"team-a": slow}}
		client := r.client()
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() {
				if lacks, err := client.MissingPermissions(t.Context(), in("team-a"), time.Time{}); err != nil || len(lacks) > 0 {
					t.Error(lacks, err)
				}
			})
		}
		synctest.Wait()
		if lacks, err := client.MissingPermissions(t.Context(), in("team-b"), time.Time{}); err != nil || len(lacks) > 0 {
			t.Error(lacks, err)
		}
		client.PermissionsEpoch()
		close(slow)
		waiting.Wait()
		if n := r.of("team-a"); n != 1 {
			t.Errorf("%d requests for the slow namespace, want one for three callers", n)
		}
	})
}

func TestARequestInFlightIsTooOldForALaterReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		r := &reviews{release: map[string]chan struct{}{"team-a": slow}}
		client := r.client()
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() {
				if _, err := client.MissingPermissions(t.Context(), in("team-a"), time.Now()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			<-time.After(time.Second)
		}
		close(slow)
		waiting.Wait()
		if n := r.of("team-a"); n != 2 {
			t.Errorf("%d requests, want a second one for what changed during the first one", n)
		}
	})
}

func TestACallerNeedNotWaitForASlowReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		defer close(slow)
		client := (&reviews{release: map[string]chan struct{}{"team-a": slow}}).client()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := client.MissingPermissions(ctx, in("team-a"), time.Time{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestNamespacesThatNobodyRequestsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reviews{}
		client := r.client()
		changes := 0
		client.OnPermissionsChange(func() { changes++ })
		request := func(namespace string) {
			t.Helper()
			if _, err := client.MissingPermissions(t.Context(), in(namespace), time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		refresh := func() {
			t.Helper()
			if changed, err := client.RefreshPermissions(t.Context(), false); err != nil || changed {
				t.Fatal(changed, err)
			}
		}
		request("team-a")
		request("team-b")
		<-time.After(40 * time.Minute)
		request("team-b")
		refresh()
		if changes > 0 {
			t.Error("a change although all rules are the same")
		}
		<-time.After(40 * time.Minute)
		epoch := client.PermissionsEpoch()
		refresh()
		refresh()
		if a, b := r.of("team-a"), r.of("team-b"); a != 2 || b != 3 {
			t.Errorf("%d and %d requests, want two and three", a, b)
		}
		if changes != 1 || client.PermissionsEpoch() != epoch+1 {
			t.Error("who relies on the forgotten rules does not request them again")
		}
	})
}
