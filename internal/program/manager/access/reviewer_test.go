package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// apiServer knows the tokens that begin with "known", and permits users to get paths.
type apiServer struct {
	mu      sync.Mutex
	reviews int
	allowed map[string]string // path by user
	err     error
	pause   time.Duration
}

func (a *apiServer) ReviewToken(_ context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	<-time.After(a.pause)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reviews++
	if a.err != nil {
		return nil, a.err
	}
	if user, known := strings.CutPrefix(r.Spec.Token, "known-"); known {
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: user}}
	}
	return r, nil
}

func (a *apiServer) ReviewAccess(_ context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Status.Allowed = r.Spec.NonResourceAttributes.Verb == "get" && a.allowed[r.Spec.User] == r.Spec.NonResourceAttributes.Path
	return r, nil
}

func TestFilter(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "tokenreviews"}, "", errors.New("token known-prometheus"))
	cases := map[string]struct {
		reason, method, path, authorization string
		err                                 error
		status                              int
		body                                string
	}{
		"no token":               {reason: "nobody is anonymous", path: "/metrics", status: 401, body: "no bearer token"},
		"a password":             {reason: "only tokens are reviewed", path: "/metrics", authorization: "Basic a:b", status: 401, body: "no bearer token"},
		"an unknown token":       {reason: "the API server decides", path: "/metrics", authorization: "Bearer x", status: 401, body: "does not accept the token"},
		"a long token":           {reason: "it is not sent on", path: "/metrics", authorization: "Bearer " + strings.Repeat("x", maxToken+1), status: 401, body: "16 KiB"},
		"a user without a role":  {reason: "authenticated is not authorized", path: "/metrics", authorization: "Bearer known-jane", status: 403, body: `nonResourceURLs ["/metrics"]`},
		"a user with it":         {reason: "the role says so", path: "/metrics", authorization: "bearer known-prometheus", status: 200, body: "content"},
		"the user, another path": {reason: "each path is a permission", path: "/readyz", authorization: "Bearer known-prometheus", status: 403, body: "/readyz"},
		"the user, another verb": {reason: "each verb is a permission", method: "POST", path: "/metrics", authorization: "Bearer known-prometheus", status: 403, body: "is not allowed to post"},
		"a failed review":        {reason: "its text may quote a token", path: "/metrics", authorization: "Bearer known-prometheus", err: forbidden, status: 503, body: "cannot review the request: the TokenReview failed: Forbidden\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			reviewer := NewReviewer(&apiServer{allowed: map[string]string{"prometheus": "/metrics"}, err: tc.err}, time.Now)
			handler := Filter(reviewer, nil, logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "content") }))
			request := httptest.NewRequest(tc.method, tc.path, nil)
			request.Header.Set("Authorization", tc.authorization)
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, request)
			if response.Code != tc.status || !strings.Contains(response.Body.String(), tc.body) {
				t.Errorf("%s: %d: %s", tc.reason, response.Code, response.Body.String())
			}
		})
	}
}

func TestReviewsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{allowed: map[string]string{"prometheus": "/metrics"}, pause: time.Second}
		reviewer := NewReviewer(server, time.Now)
		expect := func(token string, status, reviews int) {
			t.Helper()
			before := server.reviews
			if got := reviewer.Decide(t.Context(), "10.0.0.1", token, "get", "/metrics"); got.Status != status {
				t.Errorf("%s: %d, want %d", token, got.Status, status)
			}
			if got := server.reviews - before; got != reviews {
				t.Errorf("%s: %d reviews, want %d", token, got, reviews)
			}
		}
		expect("known-prometheus", 200, 1)
		expect("known-prometheus", 200, 0)
		expect("other", 401, 1)
		expect("other", 401, 0)
		<-time.After(deniedTTL)
		expect("other", 401, 1)
		expect("known-prometheus", 200, 0)
		server.allowed = nil
		<-time.After(allowedTTL)
		expect("known-prometheus", 403, 1) // revoked
		server.allowed = map[string]string{"prometheus": "/metrics"}
		<-time.After(deniedTTL)
		var requests sync.WaitGroup
		before := server.reviews
		for range 10 {
			requests.Go(func() { reviewer.Decide(context.Background(), "10.0.0.1", "known-prometheus", "get", "/metrics") })
		}
		requests.Wait()
		if got := server.reviews - before; got != 1 {
			t.Errorf("%d reviews of concurrent requests", got)
		}
	})
}

// TestStrangersDoNotDisplaceOthers sends tokens that are made up.
func TestStrangersDoNotDisplaceOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{allowed: map[string]string{"prometheus": "/metrics"}}
		reviewer := NewReviewer(server, time.Now)
		if got := reviewer.Decide(t.Context(), "10.0.0.1", "known-prometheus", "get", "/metrics"); got.Status != http.StatusOK {
			t.Fatal(got)
		}
		refused, began := 0, time.Now()
		for minute := range 10 {
			for i := range 5000 {
				if reviewer.Decide(t.Context(), "10.0.0.1", fmt.Sprint(minute, i), "get", "/metrics").Status == http.StatusTooManyRequests {
					refused++
				}
			}
			<-time.After(allowedTTL)
			if got := reviewer.Decide(t.Context(), "10.0.0.1", "known-prometheus", "get", "/metrics"); got.Status != http.StatusOK {
				t.Fatalf("after %d minutes: %v", minute, got)
			}
		}
		if most := maxReviewBurst + maxReviews*int(time.Since(began)/time.Second); server.reviews > most || refused == 0 {
			t.Errorf("%d reviews, %d requests refused", server.reviews, refused)
		}
		if got := len(reviewer.cached.Keys()); got > maxCached {
			t.Errorf("%d decisions are cached", got)
		}
	})
}

// TestStrangersDoNotDelayANewToken uses up the budget of one address: a token from another one is
// reviewed at once.
func TestStrangersDoNotDelayANewToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{allowed: map[string]string{"prometheus": "/metrics"}}
		reviewer := NewReviewer(server, time.Now)
		for i := range 1000 {
			reviewer.Decide(t.Context(), "10.0.0.9", fmt.Sprint(i), "get", "/metrics")
		}
		if got := reviewer.Decide(t.Context(), "10.0.0.9", "known-prometheus", "get", "/metrics"); got.Status != http.StatusTooManyRequests {
			t.Errorf("from the same address: %v", got)
		}
		if got := reviewer.Decide(t.Context(), "10.0.0.1", "known-prometheus", "get", "/metrics"); got.Status != http.StatusOK {
			t.Errorf("from another address: %v", got)
		}
		<-time.After(10 * time.Second)
		before := server.reviews
		for i := range 10_000 {
			reviewer.Decide(t.Context(), fmt.Sprintf("fd00::%x", i), fmt.Sprint("more", i), "get", "/metrics")
		}
		if got := server.reviews - before; got > 2*maxAllReviews {
			t.Errorf("%d reviews at once for all addresses", got)
		}
	})
}
