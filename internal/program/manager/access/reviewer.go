// Package access lets a client read an HTTP endpoint only if the cluster's RBAC allows it: the API
// server reviews the token of a request (TokenReview) and whether its user may get the path
// (SubjectAccessReview), as for the metrics of controller-runtime.
// See docs/design/0017-what-the-program-shows.md.
//
// A request comes in with its token; it is served, or refused with the reason. Reviewer decides
// and caches, Filter is the HTTP handler around the endpoint.
package access

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"
)

// Limits of reviews. A revoked permission is noticed after allowedTTL.
const (
	allowedTTL    = time.Minute      // how long an allowed token is not reviewed again
	deniedTTL     = 10 * time.Second // the same for a denied one
	reviewLimit   = 10 * time.Second // for the reviews of one request
	maxCached     = 1024             // tokens, with the paths that they were used for
	maxToken      = 16 << 10         // bytes of a token
	rememberedTTL = time.Hour        // how long a token counts as allowed before
)

// Reviews are the requests to the API server.
type Reviews interface {
	ReviewToken(context.Context, *authenticationv1.TokenReview) (*authenticationv1.TokenReview, error)
	ReviewAccess(context.Context, *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error)
}

// Decision is whether a request is served: Status is http.StatusOK, or that of the response, and
// Message says why not.
type Decision struct {
	Status  int
	Message string
}

// Reviewer decides who may read which path. It is safe for concurrent use.
type Reviewer struct {
	reviews Reviews
	now     func() time.Time
	key     []byte // of the hashes of tokens: no token is kept in memory
	cached  *cache.LRUExpireCache
	flights singleflight.Group
	budget  *Budget
}

// NewReviewer returns a reviewer.
func NewReviewer(reviews Reviews, now func() time.Time) *Reviewer {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never returns an error
	return &Reviewer{
		reviews: reviews, now: now, key: key, cached: cache.NewLRUExpireCacheWithClock(maxCached, clock(now)),
		budget: NewBudget(now),
	}
}

// review is a decision with its time.
type review struct {
	Decision
	at time.Time
}

// fresh reports whether the review still holds.
func (r review) fresh(now time.Time) bool {
	ttl := deniedTTL
	if r.Status == http.StatusOK {
		ttl = allowedTTL
	}
	return now.Sub(r.at) < ttl
}

// CheckToken says why a token need not be sent to the API server; nil if it may be one.
func CheckToken(token string) error {
	switch {
	case token == "":
		return errors.New("the request has no bearer token")
	case len(token) > maxToken:
		return fmt.Errorf("the token is longer than %d KiB", maxToken>>10)
	}
	return nil
}

// Decide decides whether the bearer of a token, who sends a request from an IP address, may use a verb
// on a path.
func (r *Reviewer) Decide(ctx context.Context, address, token, verb, path string) Decision {
	if err := CheckToken(token); err != nil {
		return Decision{http.StatusUnauthorized, err.Error()}
	}
	key := r.hash(token, verb, path)
	before, known := r.lookup(key)
	if known && before.fresh(r.now()) {
		return before.Decision
	}
	// Tokens of strangers have a budget for each address, which does not delay those who were allowed
	// before, and delays nobody with another address.
	if (!known || before.Status != http.StatusOK) && !r.budget.Allow(address) {
		return Decision{http.StatusTooManyRequests, fmt.Sprintf("too many requests with tokens that are not known: %d a second are reviewed for an address",
			maxReviews)}
	}
	result, _, _ := r.flights.Do(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewLimit) // others may wait for it
		defer cancel()
		return r.review(ctx, key, token, verb, path), nil
	})
	return result.(Decision)
}

// hash identifies a request without its token.
func (r *Reviewer) hash(token, verb, path string) string {
	h := hmac.New(sha256.New, r.key)
	fmt.Fprintf(h, "%q %q %q", token, verb, path)
	return string(h.Sum(nil))
}

func (r *Reviewer) lookup(key string) (review, bool) {
	value, ok := r.cached.Get(key)
	if !ok {
		return review{}, false
	}
	return value.(review), true
}

// review asks the API server. What it cannot decide is not cached.
func (r *Reviewer) review(ctx context.Context, key, token, verb, path string) Decision {
	decision, err := r.ask(ctx, token, verb, path)
	if err != nil {
		return Decision{http.StatusServiceUnavailable, "cannot review the request: " + err.Error()}
	}
	ttl := deniedTTL
	if decision.Status == http.StatusOK {
		ttl = rememberedTTL
	}
	r.cached.Add(key, review{decision, r.now()}, ttl)
	return decision
}

func (r *Reviewer) ask(ctx context.Context, token, verb, path string) (Decision, error) {
	identity, err := r.reviews.ReviewToken(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}})
	switch {
	case err != nil:
		return Decision{}, fmt.Errorf("the TokenReview failed: %s", reason(err)) // its text may quote the token
	case !identity.Status.Authenticated:
		return Decision{http.StatusUnauthorized, "the API server does not accept the token"}, nil
	}
	user := identity.Status.User
	result, err := r.reviews.ReviewAccess(ctx, accessReview(user, verb, path))
	switch {
	case err != nil:
		return Decision{}, fmt.Errorf("the SubjectAccessReview failed: %s", reason(err))
	case !result.Status.Allowed || result.Status.Denied:
		return Decision{http.StatusForbidden, fmt.Sprintf("user %q is not allowed to %s the path %s; a ClusterRole with nonResourceURLs [%q] and verbs [%q] permits it",
			user.Username, verb, path, path, verb)}, nil
	}
	return Decision{Status: http.StatusOK}, nil
}

// reason is the kind of a failure. The client is not authenticated, and gets no more.
func reason(err error) string {
	return cmp.Or(string(apierrors.ReasonForError(err)), "no response of the API server")
}

func accessReview(user authenticationv1.UserInfo, verb, path string) *authorizationv1.SubjectAccessReview {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range user.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	return &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
		},
	}
}
