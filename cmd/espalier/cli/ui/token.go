package ui

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// ErrRefused says that the API server does not accept a token.
var ErrRefused = errors.New("the API server does not accept the token; it might have expired")

// tokenReviewLimit is for the request that says whose a token is.
const tokenReviewLimit = 10 * time.Second

// programPath is the path of metrics. Watches and queues name the same kinds, namespaces and accounts, so who may read those may read these.
const programPath = "/metrics"

// TokenLogin returns a function that begins a session with nothing but a viewer's token: neither its reads nor its
// reviews use any identity that the configuration has. The lists of all viewers have maxObjects objects at most in memory.
// The watches and queues of the program are shown to those who may read metrics.
func TokenLogin(config *rest.Config, maxObjects int, program Program) func(context.Context, string) (*Session, error) {
	shared := &held{max: int64(maxObjects)}
	return func(ctx context.Context, token string) (*Session, error) {
		asViewer := viewerConfig(config, token)
		reviews, err := authenticationclient.NewForConfig(asViewer)
		if err != nil {
			return nil, fmt.Errorf("connect to the API server: %w", err)
		}
		access, err := authorizationclient.NewForConfig(asViewer)
		if err != nil {
			return nil, fmt.Errorf("connect to the API server: %w", err)
		}
		user, err := whoHas(ctx, reviews)
		if err != nil {
			return nil, err
		}
		l := &link{}
		watched, err := reader.New(l.observed(asViewer))
		if err != nil {
			return nil, err
		}
		cluster := &viewer{Cluster: watched, program: ifAllowed(access, program), held: shared, link: l}
		check := func(ctx context.Context) error {
			now, err := whoHas(ctx, reviews)
			if err == nil && now != user {
				return ErrRefused
			}
			return err
		}
		return &Session{User: user, Cluster: cluster, Check: check}, nil
	}
}

// viewerConfig is a configuration for the same API server, with a token in place of any other identity.
func viewerConfig(config *rest.Config, token string) *rest.Config {
	out := rest.AnonymousClientConfig(config)
	out.BearerToken = token
	out.RateLimiter, out.WarningHandler, out.WarningHandlerWithContext = nil, rest.NoWarnings{}, nil // the log is not the viewer's
	out.QPS, out.Burst = -1, -1                                                                      // the API server's priority and fairness limits the requests of each user
	return out
}

// anonymous is the user of requests without an identity.
const anonymous = "system:anonymous"

// whoHas returns whose the token of a client is.
func whoHas(ctx context.Context, client authenticationclient.SelfSubjectReviewsGetter) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenReviewLimit)
	defer cancel()
	review, err := client.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return "", ErrRefused
	case apierrors.IsForbidden(err):
		return "", errors.New("you are not allowed to create SelfSubjectReviews, which the ClusterRole system:basic-user permits")
	case err != nil:
		return "", fmt.Errorf("cannot review the token: %s", reasonOf(err)) // the text may quote the token
	case review.Status.UserInfo.Username == "" || review.Status.UserInfo.Username == anonymous:
		return "", ErrRefused
	}
	return review.Status.UserInfo.Username, nil
}

// ifAllowed shows the watches and queues of the program to viewers who may read its metrics.
func ifAllowed(client authorizationclient.SelfSubjectAccessReviewsGetter, program Program) Program {
	return func(ctx context.Context) ([]page.Watch, []page.Queue, error) {
		review, err := client.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: programPath, Verb: "get"}},
		}, metav1.CreateOptions{})
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("cannot review whether you are allowed to read the watches: %s", reasonOf(err))
		case !review.Status.Allowed || review.Status.Denied:
			return nil, nil, fmt.Errorf("you are not allowed to read the watches and queues of the controllers; a ClusterRole with nonResourceURLs [%q] and verbs [get] permits it", programPath)
		}
		return program(ctx)
	}
}
