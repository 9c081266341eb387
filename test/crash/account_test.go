package crash

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

// watchesWithoutEvents leaves questions of what is allowed without an answer, while it is to.
type watchesWithoutEvents struct {
	next http.RoundTripper
	on   *atomic.Bool
}

func (m watchesWithoutEvents) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.on.Load() && strings.HasSuffix(r.URL.Path, "/selfsubjectrulesreviews") {
		return nil, errors.New("nobody answers")
	}
	return m.next.RoundTrip(r)
}

// TestPermissionsAreReviewedAgain creates a definition while access reviews fail.
func TestPermissionsAreReviewedAgain(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group := testkit.Group(t)
	var on atomic.Bool
	on.Store(true)
	deaf := rest.CopyConfig(config)
	deaf.Wrap(func(next http.RoundTripper) http.RoundTripper { return watchesWithoutEvents{next, &on} })
	defer steps.Run(t, deaf)()
	w.Apply(t, boxDefinition(group, "one", ""))
	says := func(want string) {
		t.Helper()
		w.Await(t, suite.RGD, "", group, func(o *unstructured.Unstructured) error {
			if got := testkit.ConditionStatus(o, "PermissionsGranted") + " " + testkit.ConditionReason(o, "PermissionsGranted"); got != want {
				return errors.New("PermissionsGranted is " + got)
			}
			return nil
		})
	}
	says("Unknown ReviewFailed")
	on.Store(false)
	says("True Granted")
}

// role grants a service account the permissions for the boxes of a group and their ConfigMaps.
func role(group, ns, verbs string) string {
	return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules:
  - {apiGroups: [%[1]s], resources: ["*"], verbs: ["*"]}
  - {apiGroups: [""], resources: [configmaps], verbs: [%[3]s]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: ServiceAccount, namespace: %[2]s, name: builder}]
`, group, ns, verbs)
}

// TestAnInvalidServiceAccountGrantsNoPermissionsAfterARestart names a service account, then an
// invalid one, empties the status, and restarts the controllers: they use the former account, and
// not their own permissions.
func TestAnInvalidServiceAccountGrantsNoPermissionsAfterARestart(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	box := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Box"}
	put := func(a string) {
		w.Apply(t, fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Box\nmetadata: {name: x, namespace: %s}\nspec: {a: %s}\n", group, ns, a))
	}
	w.Apply(t, role(group, ns, `"*"`))
	w.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: builder, namespace: %s}\n", ns))
	stop := steps.Run(t, config)
	w.Apply(t, boxDefinition(group, "one", fmt.Sprintf("serviceAccount: {namespace: %s, name: builder}", ns)))
	w.AwaitReady(t, suite.RGD, "", group)
	put("one")
	w.AwaitReady(t, box, ns, "x")
	w.Apply(t, boxDefinition(group, "one", `serviceAccount: {namespace: "", name: builder}`))
	w.Await(t, suite.RGD, "", group, func(o *unstructured.Unstructured) error {
		if text := testkit.ConditionMessage(o, "GraphAccepted"); !strings.Contains(text, "spec.serviceAccount") {
			return errors.New("GraphAccepted says " + text)
		}
		return nil
	})
	stop()
	w.SetStatus(t, suite.RGD, "", group, map[string]any{})

	w.Apply(t, role(group, ns, `get, list, watch`))
	as := rest.CopyConfig(config)
	as.Impersonate.UserName = "system:serviceaccount:" + ns + ":builder"
	testkit.Poll(t, "the API server forbids", func() bool {
		_, err := testkit.NewCluster(t, as).Resource(t, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, ns).Create(t.Context(),
			&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "probe"}}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err)
	})
	stop = steps.Run(t, config)
	defer func() { stop() }()
	w.Delete(t, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, ns, "x")
	w.Await(t, box, ns, "x", func(o *unstructured.Unstructured) error {
		if text := testkit.ConditionMessage(o, "Ready"); !strings.Contains(text, "forbidden") || !strings.Contains(text, "builder") {
			return errors.New("it says " + text)
		}
		return nil
	})
	w.Apply(t, role(group, ns, `"*"`))
	w.AwaitReady(t, box, ns, "x")
	w.Delete(t, box, ns, "x")
	w.AwaitGone(t, box, ns, "x")
	w.Delete(t, suite.RGD, "", group)
	w.AwaitGone(t, suite.RGD, "", group)
}

// TestARestartDoesNotChangeTheStatusOfADefinitionWithAServiceAccount restarts the controllers. The definition is reconciled before
// they have read its service account.
func TestARestartDoesNotChangeTheStatusOfADefinitionWithAServiceAccount(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	group, ns := testkit.Group(t), testkit.Namespace(t, config)
	box := schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "Box"}
	isComposed := func(name string) {
		t.Helper()
		w.Apply(t, fmt.Sprintf("apiVersion: %s/v1alpha1\nkind: Box\nmetadata: {name: %s, namespace: %s}\nspec: {a: one}\n", group, name, ns))
		w.AwaitReady(t, box, ns, name)
	}
	w.Apply(t, role(group, ns, `"*"`))
	w.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: builder, namespace: %s}\n", ns))
	stop := steps.Run(t, config)
	w.Apply(t, boxDefinition(group, "one", fmt.Sprintf("serviceAccount: {namespace: %s, name: builder}", ns)))
	w.AwaitReady(t, suite.RGD, "", group)
	isComposed("before")
	stop()

	recorded, writes := recordWrites(config)
	defer steps.Run(t, recorded)()
	isComposed("after")
	for _, line := range writes() {
		if strings.Contains(line, "/resourcegraphdefinitions/"+group+"/status") {
			t.Error("the restart wrote:", line)
		}
	}
}
