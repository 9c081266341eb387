package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

var rulesReviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectrulesreviews"}

// unusedNamespace is a namespace that no cluster has: what is allowed in it is allowed in
// all.
const unusedNamespace = "espalier-dev--nowhere"

// permissions is safe for concurrent use.
type permissions struct {
	flights singleflight.Group // requests in flight
	mu      sync.Mutex
	// granted maps namespaces to rules; those that apply in all namespaces have none.
	granted  map[string]grantedRules
	epoch    int64
	onChange func()
	user     string
}

type grantedRules struct {
	fetchedAt   time.Time
	requestedAt time.Time // by a caller of MissingPermissions, at the latest
	rules       []rbacv1.PolicyRule
	digest      string
}

// rulesTTL is how long the rules of a namespace are read again although nobody requests them.
const rulesTTL = time.Hour

// OnPermissionsChange sets a function that is called, from any goroutine, whenever the API
// server returns other rules than before. It must be set before the client is used.
func (c *Client) OnPermissionsChange(changed func()) { c.permissions.onChange = changed }

// PermissionsEpoch returns a number that grows whenever the permissions may have changed.
func (c *Client) PermissionsEpoch() int64 {
	c.permissions.mu.Lock()
	defer c.permissions.mu.Unlock()
	return c.permissions.epoch
}

// MissingPermissions returns the required permissions that the client's user lacks, by rules that were read at since or
// later. It makes at most one request if nothing is missing, and one more for each permission that seems to be: not
// every authorizer lists what it grants. Permissions in one namespace may cost one more for that namespace. If a
// permission in all namespaces is allowed that the rules lack, both are read again.
func (c *Client) MissingPermissions(ctx context.Context, required []rbac.Permission, since time.Time) ([]rbac.Permission, error) {
	if len(required) == 0 {
		return nil, nil
	}
	granted, err := c.grantedRules(ctx, "", since)
	if err != nil {
		return nil, err
	}
	var out, unlisted []rbac.Permission
	for _, scope := range rbac.Scopes(rbac.Missing(granted, required)) {
		seem := scope.Permissions
		if scope.Namespace != "" && len(seem) > maxSingleReviews {
			if granted, err = c.grantedRules(ctx, scope.Namespace, since); err != nil {
				return nil, err
			}
			seem = rbac.Missing(granted, seem)
		}
		for _, p := range seem {
			allowed, err := c.isAllowed(ctx, p)
			if err != nil {
				return nil, err
			}
			switch {
			case !allowed:
				out = append(out, p)
			case scope.Namespace == "":
				unlisted = append(unlisted, p)
			}
		}
	}
	revoked, err := c.confirmUnlisted(ctx, unlisted)
	return rbac.Distinct(append(out, revoked...)), err
}

// confirmUnlisted reads the rules again if permissions are allowed that they lack, and returns those that are not
// allowed any more. Either the authorizer does not list them, or they were granted after the rules were read: without
// the new rules their revocation would not change what is known, and not be noticed.
func (c *Client) confirmUnlisted(ctx context.Context, permissions []rbac.Permission) (revoked []rbac.Permission, err error) {
	if len(permissions) == 0 {
		return nil, nil
	}
	granted, err := c.grantedRules(ctx, "", time.Now())
	if err != nil {
		return nil, err
	}
	for _, p := range rbac.Missing(granted, permissions) {
		allowed, err := c.isAllowed(ctx, p)
		if err != nil {
			return nil, err
		}
		if !allowed {
			revoked = append(revoked, p)
		}
	}
	return revoked, nil
}

// maxSingleReviews is up to how many permissions in one namespace are reviewed one by one, as the
// three to impersonate an account are. More are looked for among the rules of the namespace.
const maxSingleReviews = 3

// RefreshPermissions reads the rules again, if they were read before, and reports whether they changed. Doubt reports
// that a request was forbidden although no permission is known to be missing: not every authorizer lists what it
// grants, so the epoch then grows in any case and each permission is checked again. The epoch also grows when rules are
// forgotten that nobody has requested for a while: callers that still rely on them request them again.
func (c *Client) RefreshPermissions(ctx context.Context, doubt bool) (changed bool, err error) {
	now := time.Now()
	c.permissions.mu.Lock()
	forgotten := c.permissions.forget(now)
	namespaces, before := slices.Sorted(maps.Keys(c.permissions.granted)), c.permissions.epoch
	c.permissions.mu.Unlock()
	if len(namespaces) == 0 {
		return false, nil
	}
	for _, namespace := range namespaces {
		if _, err = c.readRules(ctx, namespace, now); err != nil {
			break
		}
	}
	c.permissions.mu.Lock()
	changed = c.permissions.epoch != before
	check := !changed && (forgotten || doubt && err == nil)
	if check {
		c.permissions.epoch++
	}
	c.permissions.mu.Unlock()
	if check {
		c.notifyPermissionsChange()
	}
	return changed && err == nil, err
}

// It reports whether there were any.
func (p *permissions) forget(now time.Time) bool {
	before := len(p.granted)
	maps.DeleteFunc(p.granted, func(namespace string, rules grantedRules) bool {
		return namespace != "" && now.Sub(rules.requestedAt) > rulesTTL
	})
	return len(p.granted) < before
}

func (c *Client) notifyPermissionsChange() {
	if c.permissions.onChange != nil {
		c.permissions.onChange()
	}
}

func (c *Client) grantedRules(ctx context.Context, namespace string, since time.Time) ([]rbacv1.PolicyRule, error) {
	c.permissions.mu.Lock()
	found, known := c.permissions.granted[namespace]
	if known {
		found.requestedAt = time.Now()
		c.permissions.granted[namespace] = found
	}
	c.permissions.mu.Unlock()
	if known && !found.fetchedAt.Before(since) {
		return found.rules, nil
	}
	return c.readRules(ctx, namespace, since)
}

// There is one request at a time. A request in flight that is older than since does not suffice; the one after it does.
func (c *Client) readRules(ctx context.Context, namespace string, since time.Time) ([]rbacv1.PolicyRule, error) {
	var found grantedRules
	for range 2 {
		var err error
		found, err = doShared(ctx, &c.permissions.flights, "rules/"+namespace, func() (grantedRules, error) {
			return c.fetchRules(context.WithoutCancel(ctx), namespace, since)
		})
		if err != nil {
			return nil, err
		}
		if !found.fetchedAt.Before(since) {
			break
		}
	}
	return found.rules, nil
}

// Rules that were read at since or later are not read again.
func (c *Client) fetchRules(ctx context.Context, namespace string, since time.Time) (grantedRules, error) {
	c.permissions.mu.Lock()
	known, ok := c.permissions.granted[namespace]
	c.permissions.mu.Unlock()
	if ok && !known.fetchedAt.Before(since) {
		return known, nil
	}
	at := time.Now()
	answer, err := c.createReview(ctx, rulesReviews, "SelfSubjectRulesReview", map[string]any{"namespace": cmp.Or(namespace, unusedNamespace)})
	if err != nil {
		return grantedRules{}, err
	}
	var review struct {
		Status struct {
			ResourceRules []rbacv1.PolicyRule `json:"resourceRules"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &review); err != nil {
		return grantedRules{}, fmt.Errorf("decode SelfSubjectRulesReview: %w", err)
	}
	fetched := grantedRules{fetchedAt: at, requestedAt: at, rules: review.Status.ResourceRules, digest: rbac.Digest(review.Status.ResourceRules)}
	if c.permissions.store(namespace, fetched) {
		c.notifyPermissionsChange()
	}
	return fetched, nil
}

// It reports whether the rules have changed.
func (p *permissions) store(namespace string, fetched grantedRules) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.granted[namespace]
	if known {
		fetched.requestedAt = before.requestedAt
	}
	if changed = known && fetched.digest != before.digest; changed {
		p.epoch++
	}
	if p.granted == nil {
		p.granted = map[string]grantedRules{}
	}
	p.granted[namespace] = fetched
	return changed
}

func (c *Client) isAllowed(ctx context.Context, n rbac.Permission) (bool, error) {
	resource, sub, _ := strings.Cut(n.Resource, "/")
	return c.reviewAccess(ctx, map[string]any{
		"verb": n.Verb, "group": n.Group, "version": "*", "resource": resource, "subresource": sub, "name": n.Name, "namespace": n.Namespace,
	})
}

func (c *Client) reviewAccess(ctx context.Context, attributes map[string]any) (bool, error) {
	answer, err := c.createReview(ctx, accessReviews, "SelfSubjectAccessReview", map[string]any{"resourceAttributes": attributes})
	if err != nil {
		return false, err
	}
	allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, nil
}

var userReviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}

// MayDelete reports whether a user may delete an object.
func (c *Client) MayDelete(ctx context.Context, user authenticationv1.UserInfo, o *unstructured.Unstructured) (bool, error) {
	r, err := c.kinds.Resolve(ctx, o.GroupVersionKind())
	if err != nil {
		return false, err
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extraOf(user),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "delete", Group: r.GVR.Group, Version: r.GVR.Version, Resource: r.GVR.Resource, Namespace: o.GetNamespace(), Name: o.GetName(),
		},
	})
	if err != nil {
		return false, fmt.Errorf("encode SubjectAccessReview: %w", err)
	}
	answer, err := c.createReview(ctx, userReviews, "SubjectAccessReview", spec)
	if err != nil {
		return false, err
	}
	allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, nil
}

func extraOf(user authenticationv1.UserInfo) map[string]authorizationv1.ExtraValue {
	var out map[string]authorizationv1.ExtraValue
	for key, values := range user.Extra {
		if out == nil {
			out = map[string]authorizationv1.ExtraValue{}
		}
		out[key] = authorizationv1.ExtraValue(values)
	}
	return out
}

func (c *Client) createReview(ctx context.Context, gvr schema.GroupVersionResource, kind string, spec map[string]any) (*unstructured.Unstructured, error) {
	review := &unstructured.Unstructured{Object: map[string]any{"apiVersion": gvr.GroupVersion().String(), "kind": kind}}
	if spec != nil {
		review.Object["spec"] = spec
	}
	answer, err := c.dynamic.Resource(gvr).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", kind, err)
	}
	return answer, nil
}

var selfReviews = schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "selfsubjectreviews"}

// Username returns the name of the user that the client acts as, as the API server knows
// it; empty until the API server returns it.
func (c *Client) Username(ctx context.Context) string {
	c.permissions.mu.Lock()
	known := c.permissions.user
	c.permissions.mu.Unlock()
	if known != "" {
		return known
	}
	name, err := doShared(ctx, &c.permissions.flights, "user", func() (string, error) {
		answer, err := c.createReview(context.WithoutCancel(ctx), selfReviews, "SelfSubjectReview", nil)
		if err != nil {
			return "", err
		}
		name, _, err := unstructured.NestedString(answer.Object, "status", "userInfo", "username")
		return name, err
	})
	if err != nil {
		return ""
	}
	c.permissions.mu.Lock()
	defer c.permissions.mu.Unlock()
	c.permissions.user = name
	return name
}
