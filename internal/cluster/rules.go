package cluster

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

	"github.com/espalier-dev/espalier/internal/rights"
)

var rulesReviews = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectrulesreviews"}

// nowhere is no namespace that anybody has: what is allowed in it is allowed in all.
const nowhere = "espalier-dev--nowhere"

// rules are what whom the client acts for is allowed in all namespaces, as was last told.
type rules struct {
	mu      sync.Mutex
	at      time.Time
	granted []rbacv1.PolicyRule
}

// Lacks says which of some needs, in all namespaces, nobody has granted to whom the
// client acts for, as it was told not before the given time. It is one request at most
// where nothing is lacking, and otherwise one more for each that seems to be: not every
// authorizer lists what it grants.
func (c *Client) Lacks(ctx context.Context, needs []rights.Need, since time.Time) ([]rights.Need, error) {
	granted, err := c.granted(ctx, since)
	if err != nil {
		return nil, err
	}
	var out []rights.Need
	for _, n := range rights.Missing(granted, needs) {
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

func (c *Client) granted(ctx context.Context, since time.Time) (granted []rbacv1.PolicyRule, err error) {
	c.rules.mu.Lock() // for as long as the request takes: who comes meanwhile wants its answer too
	defer c.rules.mu.Unlock()
	if !c.rules.at.IsZero() && !c.rules.at.Before(since) {
		return c.rules.granted, nil
	}
	at := time.Now()
	answer, err := c.ask(ctx, rulesReviews, "SelfSubjectRulesReview", map[string]any{"namespace": nowhere})
	if err != nil {
		return nil, err
	}
	var told struct {
		Status struct {
			ResourceRules []rbacv1.PolicyRule `json:"resourceRules"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &told); err != nil {
		return nil, fmt.Errorf("decode what is allowed: %w", err)
	}
	c.rules.at, c.rules.granted = at, told.Status.ResourceRules
	return c.rules.granted, nil
}

// allowed asks about one need.
func (c *Client) allowed(ctx context.Context, n rights.Need) (bool, error) {
	resource, sub, _ := strings.Cut(n.Resource, "/")
	return c.review(ctx, map[string]any{
		"verb": n.Verb, "group": n.Group, "version": "*", "resource": resource, "subresource": sub, "name": n.Name,
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
	review := &unstructured.Unstructured{Object: map[string]any{"apiVersion": about.GroupVersion().String(), "kind": kind, "spec": spec}}
	answer, err := c.dynamic.Resource(about).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask what is allowed: %w", err)
	}
	return answer, nil
}
