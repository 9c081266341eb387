package watches

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// rights are all permissions of the controllers but to list and watch the barred kind.
const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-controllers}
rules:
  - {apiGroups: [kro.run, internal.kro.run, espalier.dev, apiextensions.crossplane.io, pkg.crossplane.io, protection.crossplane.io, $GROUP, leaf.$GROUP, apiextensions.k8s.io, apiregistration.k8s.io, rbac.authorization.k8s.io, ""], resources: ["*"], verbs: ["*"]}
  - {apiGroups: [barred.$GROUP], resources: ["*"], verbs: [get, create, patch, delete]}
  - {nonResourceURLs: ["*"], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-controllers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-controllers}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: $ID-user}]
`

// lacking are the missing permissions.
const lacking = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-lacking}
rules: [{apiGroups: [barred.$GROUP], resources: [eksclusters], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-lacking}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-lacking}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: $ID-user}]
`

var barredKind = suite.CRDText("barred.$GROUP", "v1", "EksCluster", "{type: object, x-kubernetes-preserve-unknown-fields: true}")

// mixed has a child of a kind that the controllers may not list, and another.
var mixed = suite.Graph("Mixed", "spec: {value: string | default=one}", `
    - id: cluster
      template: {apiVersion: barred.$GROUP/v1, kind: EksCluster, metadata: {name: "${schema.metadata.name}"}, spec: {a: b}}
    - id: note
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-mixed"}, data: {value: "${schema.spec.value}"}}
`)

// TestAForbiddenKindBlocksNoOtherKind gives the controllers all permissions but to list and watch one
// kind, changes instances of other kinds meanwhile, and then grants the missing permissions.
func TestAForbiddenKindBlocksNoOtherKind(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &lifecycle{client, testkit.Group(t), testkit.Namespace(t, config)}
	ctx := t.Context()
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	grant := func(yaml string) {
		t.Helper()
		for _, o := range testkit.Parse(t, p.expand(yaml)) {
			resource := map[string]string{"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}[o.GetKind()]
			_, err := client.Resource(rbac.WithResource(resource)).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test"})
			noError(t, "grant", err)
		}
	}
	grant(rights)
	config.Impersonate.UserName = p.expand("$ID-user")
	c := run(t, config)
	t.Cleanup(func() { p.clear(t) })

	noError(t, "instances of another kind", p.create(ctx, t, "a"))
	noError(t, "a kind", p.apply(ctx, t, client.Resource(crds), barredKind))
	noError(t, "a definition", p.apply(ctx, t, client.Resource(definitions), mixed))
	noError(t, "a definition", await(ctx, client.Resource(definitions), p.expand("$ID-mixed"), testkit.IsReady))
	mixes := client.Resource(schema.GroupVersionResource{Group: p.group, Version: "v1alpha1", Resource: "mixeds"}).Namespace(p.ns)
	for i := range 20 {
		noError(t, "an instance", p.apply(ctx, t, mixes, fmt.Sprintf("apiVersion: $GROUP/v1alpha1\nkind: Mixed\nmetadata: {name: m%d, namespace: $NS}\n", i)))
	}
	for i := range 20 {
		name := fmt.Sprint("m", i)
		noError(t, "the allowed node", await(ctx, p.notes(), name+"-mixed", exists))
		noError(t, "the missing permission", await(ctx, mixes, name, reason("Forbidden", "list eksclusters.barred."+p.group)))
	}
	for i := range 5 {
		noError(t, "a change of an instance of another kind", p.setStatus(ctx, "a", fmt.Sprint("beside-", i)))
	}
	// The controllers retry on the event of a role.
	noError(t, "roles are watched", c.await(ctx, c.watchesRoles))
	grant(lacking)
	for i := range 20 {
		noError(t, "ready with the role", await(ctx, mixes, fmt.Sprint("m", i), testkit.IsReady))
	}
}

// watchesRoles checks that the controllers watch roles.
func (c *controllers) watchesRoles() error {
	watched := slices.ContainsFunc(c.Hub.Stats(), func(s watch.KindStats) bool {
		return s.Kind.Group == "rbac.authorization.k8s.io" && s.Subscribers > 0
	})
	if !watched {
		return errors.New("the controllers do not watch roles")
	}
	return nil
}
