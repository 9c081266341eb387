package main

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

const (
	// limited is the user that the controllers impersonate in this scenario.
	limited = "bench-limited"
	// sealedInstances is the number of instances with children that the controllers may not create.
	sealedInstances = 100
)

// measureForbidden measures how a status value propagates while many other instances have children
// of a kind that the controllers may neither read nor write.
func measureForbidden(ctx context.Context, b *bench) (err error) {
	if err := b.restrict(ctx); err != nil {
		return err
	}
	if err := b.stopEngine(); err != nil {
		return err
	}
	b.user = limited
	defer func() {
		b.user = ""
		err = errors.Join(err, b.stopEngine(), b.startEngine(ctx))
	}()
	if err := b.startEngine(ctx); err != nil {
		return err
	}
	sealed, err := b.watch(ctx, ours("sealeds"))
	if err != nil {
		return err
	}
	defer sealed.stop()
	for i := range sealedInstances {
		if _, err := b.resource(ours("sealeds")).Create(ctx, instance("Sealed", numberedName("sealed", i)), metav1.CreateOptions{FieldManager: manager}); err != nil {
			return err
		}
	}
	if _, err := sealed.awaitAll(ctx, sealedInstances, isForbidden); err != nil {
		return err
	}
	return b.measureNestMeanwhile(ctx)
}

// measureNestMeanwhile measures a nest while the other instances wait.
func (b *bench) measureNestMeanwhile(ctx context.Context) error {
	n, err := b.nest(ctx, "Top", "tops")
	if err != nil {
		return err
	}
	defer n.seen.stop()
	if err := n.warmUp(ctx); err != nil {
		return err
	}
	const name = "meanwhile"
	if err := n.create(ctx, name); err != nil {
		return err
	}
	if _, err := n.writeValue(ctx, name, "first", isReady(1)); err != nil {
		return err
	}
	took, err := n.measurePropagation(ctx, name)
	if err != nil {
		return err
	}
	b.add(row{Work: "3 nested instances, while another kind is forbidden: from a changed value until the outermost status has it, p50", Unit: "ms",
		Value: milliseconds(median(took)), Samples: inMilliseconds(took), Budget: 50,
		Detail: fmt.Sprintf("%d instances wait for that kind; p99 %.0f ms", sealedInstances, milliseconds(quantile(took, 0.99)))})
	_, err = n.delete(ctx, name)
	return err
}

func isForbidden(_ watch.EventType, o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["reason"] == "Forbidden" {
			return true
		}
	}
	return false
}

// restrict grants the limited user all permissions that the controllers need, except for Secrets other
// than the signing key.
func (b *bench) restrict(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(b.plane.Config())
	if err != nil {
		return err
	}
	all := []string{"*"}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: limited},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{group, "kro.run", "internal.kro.run", "espalier.dev", "apiextensions.crossplane.io", "pkg.crossplane.io", "protection.crossplane.io",
				"apiextensions.k8s.io", "apiregistration.k8s.io", "admissionregistration.k8s.io", "authorization.k8s.io", "authentication.k8s.io",
				"events.k8s.io"}, Resources: all, Verbs: all},
			{APIGroups: []string{""}, Resources: []string{"configmaps", "namespaces", "events"}, Verbs: all},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{v1alpha1.SigningKeySecret}, Verbs: []string{"get"}},
			{NonResourceURLs: all, Verbs: all},
		},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: limited},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: limited},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: limited}},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return err
}
