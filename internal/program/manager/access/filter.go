package access

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Filters is the FilterProvider of the metrics server: it makes the reviews with the program's
// own permissions.
func Filters(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	tokens, err := authenticationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	access, err := authorizationclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	reviewer := NewReviewer(clients{tokens, access}, time.Now)
	requests := telemetry.NewMetricsRequests()
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return Filter(reviewer, requests, log, next), nil
	}, nil
}

// clients make reviews on an API server.
type clients struct {
	tokens authenticationclient.TokenReviewsGetter
	access authorizationclient.SubjectAccessReviewsGetter
}

func (c clients) ReviewToken(ctx context.Context, r *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error) {
	return c.tokens.TokenReviews().Create(ctx, r, metav1.CreateOptions{})
}

func (c clients) ReviewAccess(ctx context.Context, r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	return c.access.SubjectAccessReviews().Create(ctx, r, metav1.CreateOptions{})
}

// Filter serves those requests that the reviewer allows.
func Filter(reviewer *Reviewer, requests *telemetry.MetricsRequests, log logr.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		decision := reviewer.Decide(r.Context(), Address(r), BearerToken(r), strings.ToLower(r.Method), r.URL.Path)
		requests.Observe(decision.Status)
		if decision.Status == http.StatusOK {
			next.ServeHTTP(w, r)
			return
		}
		if decision.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		log.V(1).Info("refused a request", "status", decision.Status, "reason", decision.Message)
		http.Error(w, decision.Message, decision.Status)
	})
}

// Address is the IP address that a request was sent from.
func Address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// BearerToken is the token of a request; empty if it has none.
func BearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
