package suite

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
)

// Aggregate fills in the rules of ClusterRoles with an aggregation rule, which no controller of the
// tests' API server does.
func Aggregate(t *testing.T, config *rest.Config) {
	t.Helper()
	if err := aggregate(t.Context(), kubernetes.NewForConfigOrDie(config).RbacV1().ClusterRoles()); err != nil {
		t.Fatal(err)
	}
}

func aggregate(ctx context.Context, roles rbacclient.ClusterRoleInterface) error {
	all, err := roles.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		into := &all.Items[i]
		if into.AggregationRule == nil {
			continue
		}
		before := into.Rules
		into.Rules = []rbacv1.PolicyRule{}
		for _, s := range into.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&s)
			if err != nil {
				return err
			}
			for _, from := range all.Items {
				if from.Name != into.Name && selector.Matches(labels.Set(from.Labels)) {
					into.Rules = append(into.Rules, from.Rules...)
				}
			}
		}
		if equality.Semantic.DeepEqual(before, into.Rules) {
			continue
		}
		if _, err := roles.Update(ctx, into, metav1.UpdateOptions{FieldManager: "clusterrole-aggregation-controller"}); err != nil {
			return err
		}
	}
	return nil
}
