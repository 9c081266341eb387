package suite

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// AwaitAggregated waits until all ClusterRoles with an aggregation rule have the rules of the ClusterRoles that it
// selects. The controllers of the tests' API server fill them in.
func AwaitAggregated(t *testing.T, config *rest.Config) {
	t.Helper()
	roles := kubernetes.NewForConfigOrDie(config).RbacV1().ClusterRoles()
	testkit.Poll(t, "the rules of ClusterRoles are aggregated", func() bool {
		all, err := roles.List(t.Context(), metav1.ListOptions{})
		if err == nil {
			err = notAggregated(all.Items)
		}
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
}

// notAggregated is an error with the first ClusterRole that lacks a rule of another one that it selects.
func notAggregated(all []rbacv1.ClusterRole) error {
	for _, into := range all {
		if into.AggregationRule == nil {
			continue
		}
		for _, s := range into.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&s)
			if err != nil {
				return err
			}
			for _, from := range all {
				if from.Name != into.Name && selector.Matches(labels.Set(from.Labels)) && !hasRules(into, from.Rules) {
					return fmt.Errorf("ClusterRole %s does not have the rules of %s yet", into.Name, from.Name)
				}
			}
		}
	}
	return nil
}

func hasRules(role rbacv1.ClusterRole, rules []rbacv1.PolicyRule) bool {
	for _, want := range rules {
		found := false
		for _, has := range role.Rules {
			found = found || equality.Semantic.DeepEqual(has, want)
		}
		if !found {
			return false
		}
	}
	return true
}
