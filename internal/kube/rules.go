package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

var rulesReviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectrulesreviews"}

// nowhere is no namespace that anybody has: what is allowed in it is allowed in all.
const nowhere = "espalier-dev--nowhere"

// rules are what whom the client acts for is allowed in all namespaces, as was last told.
type rules struct {
	mu      sync.Mutex
	at      time.Time
	granted []rbacv1.PolicyRule
	digest  string
	epoch   int64
	changed func()
	user    string
}

// OnChange has a function called, from any goroutine, whenever the API server lists other
// rights than before. It is to be set before the client is used.
func (c *Client) OnChange(changed func()) { c.rules.changed = changed }

// Epoch grows whenever what is allowed may have changed, as far as that is known here.
func (c *Client) Epoch() int64 {
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	return c.rules.epoch
}

// Lacks says which of some needs nobody has granted to whom the
// client acts for, as it was told not before the given time. It is one request at most
// where nothing is lacking, and otherwise one more for each that seems to be: not every
// authorizer lists what it grants.
func (c *Client) Lacks(ctx context.Context, needs []rbac.Need, since time.Time) ([]rbac.Need, error) {
	if len(needs) == 0 {
		return nil, nil
	}
	granted, err := c.granted(ctx, since)
	if err != nil {
		return nil, err
	}
	var out []rbac.Need
	for _, n := range rbac.Missing(granted, needs) {
		allowed, err := c.allowed(ctx, n)
		if err != nil {
			return nil, err
		}
		if !allowed {
			out = append(out, n)
		}
	}
	return out, nil
}

// Refresh asks anew what is allowed, if anybody has asked before, and reports whether that
// may be something else than what was known. Doubt says that something was forbidden that
// is not known to be: not every authorizer lists what it grants, so that each right has to
// be asked for then, whatever the answer is.
func (c *Client) Refresh(ctx context.Context, doubt bool) (changed bool, err error) {
	c.rules.mu.Lock()
	asked, before := !c.rules.at.IsZero(), c.rules.epoch
	c.rules.mu.Unlock()
	if !asked {
		return false, nil
	}
	if _, err := c.granted(ctx, time.Now()); err != nil {
		return false, err
	}
	c.rules.mu.Lock()
	changed = c.rules.epoch != before
	if doubt && !changed {
		c.rules.epoch++
	}
	c.rules.mu.Unlock()
	if doubt && !changed {
		c.tellChange()
	}
	return changed, nil
}

func (c *Client) tellChange() {
	if c.rules.changed != nil {
		c.rules.changed()
	}
}

func (c *Client) granted(ctx context.Context, since time.Time) ([]rbacv1.PolicyRule, error) {
	granted, changed, err := c.grantedSince(ctx, since)
	if changed {
		c.tellChange()
	}
	return granted, err
}

func (c *Client) grantedSince(ctx context.Context, since time.Time) (granted []rbacv1.PolicyRule, changed bool, err error) {
	c.rules.mu.Lock() // for as long as the request takes: who comes meanwhile wants its answer too
	defer c.rules.mu.Unlock()
	if !c.rules.at.IsZero() && !c.rules.at.Before(since) {
		return c.rules.granted, false, nil
	}
	at := time.Now()
	answer, err := c.ask(ctx, rulesReviews, "SelfSubjectRulesReview", map[string]any{"namespace": nowhere})
	if err != nil {
		return nil, false, err
	}
	var told struct {
		Status struct {
			ResourceRules []rbacv1.PolicyRule `json:"resourceRules"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &told); err != nil {
		return nil, false, fmt.Errorf("decode what is allowed: %w", err)
	}
	digest, known := rbac.Digest(told.Status.ResourceRules), !c.rules.at.IsZero()
	if changed = known && digest != c.rules.digest; changed {
		c.rules.epoch++
	}
	c.rules.at, c.rules.granted, c.rules.digest = at, told.Status.ResourceRules, digest
	return c.rules.granted, changed, nil
}

// allowed asks about one need.
func (c *Client) allowed(ctx context.Context, n rbac.Need) (bool, error) {
	resource, sub, _ := strings.Cut(n.Resource, "/")
	return c.review(ctx, map[string]any{
		"verb": n.Verb, "group": n.Group, "version": "*", "resource": resource, "subresource": sub, "name": n.Name, "namespace": n.Namespace,
	})
}

// review asks whether whom the client acts for is allowed something.
func (c *Client) review(ctx context.Context, attributes map[string]any) (bool, error) {
	answer, err := c.ask(ctx, accessReviews, "SelfSubjectAccessReview", map[string]any{"resourceAttributes": attributes})
	if err != nil {
		return false, err
	}
	allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, nil
}

func (c *Client) ask(ctx context.Context, about schema.GroupVersionResource, kind string, spec map[string]any) (*unstructured.Unstructured, error) {
	review := &unstructured.Unstructured{Object: map[string]any{"apiVersion": about.GroupVersion().String(), "kind": kind}}
	if spec != nil {
		review.Object["spec"] = spec
	}
	answer, err := c.dynamic.Resource(about).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask what is allowed: %w", err)
	}
	return answer, nil
}

var selfReviews = schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "selfsubjectreviews"}

// User is whom the client acts as, by the name that the API server knows; empty while the API
// server doesn't say.
func (c *Client) User(ctx context.Context) string {
	c.rules.mu.Lock()
	defer c.rules.mu.Unlock()
	if c.rules.user != "" {
		return c.rules.user
	}
	answer, err := c.ask(ctx, selfReviews, "SelfSubjectReview", nil)
	if err != nil {
		return ""
	}
	c.rules.user, _, _ = unstructured.NestedString(answer.Object, "status", "userInfo", "username")
	return c.rules.user
}
