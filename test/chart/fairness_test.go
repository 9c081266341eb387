package chart

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// classified records by which FlowSchema the API server classified the last request.
type classified struct {
	next http.RoundTripper
	mu   sync.Mutex
	uid  string
}

func (c *classified) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(r)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.uid = answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID")
	}
	return answer, err
}

// TestRequestsAreClassified makes requests as the accounts of the controllers. The API server says in
// its answers, also in those that refuse, which FlowSchema applies.
func TestRequestsAreClassified(t *testing.T) {
	config := testkit.Server(t)
	cluster, release, team := testkit.NewCluster(t, config), testkit.Namespace(t, config), testkit.Namespace(t, config)
	uids := map[string]string{}
	for _, o := range renderIn(t, release, "providers.aws.enabled=true", "rbac.impersonate[0].namespace="+team, "rbac.impersonate[0].names={espalier}",
		"priorityAndFairness.serviceAccounts[0].namespace="+team, "priorityAndFairness.serviceAccounts[0].names={shop}") {
		if o.GetKind() != "FlowSchema" && o.GetKind() != "PriorityLevelConfiguration" {
			continue
		}
		created, err := cluster.TryApply(t, o)
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Delete(t, o.GroupVersionKind(), "", o.GetName())
		if o.GetKind() == "FlowSchema" {
			uids[o.GetName()] = string(created.GetUID())
		}
	}
	account := func(namespace, name string) string { return "system:serviceaccount:" + namespace + ":" + name }
	const ours, lease = "espalier", "espalier-leader-election"
	objects := func(namespace string) string { return "/api/v1/namespaces/" + namespace + "/configmaps" }
	leases := func(namespace string) string {
		return "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases/espalier.espalier.dev"
	}
	cases := map[string]struct{ user, path, want string }{
		"The controllers":                       {account(release, "espalier-controllers"), objects(team), ours},
		"A watch of all namespaces":             {account(release, "espalier-controllers"), "/api/v1/configmaps", ours},
		"Discovery":                             {account(release, "espalier-controllers"), "/apis", ours},
		"A provider":                            {account(release, "espalier-provider-aws"), objects(team), ours},
		"An impersonated account":               {account(team, "espalier"), objects(team), ours},
		"Another impersonated account":          {account(team, "shop"), objects(team), ours},
		"The lease of the controllers":          {account(release, "espalier-controllers"), leases(release), lease},
		"The lease of a provider":               {account(release, "espalier-provider-aws"), leases(release), lease},
		"A lease elsewhere":                     {account(release, "espalier-controllers"), leases(team), ours},
		"A lease of a tenant":                   {account(team, "espalier"), leases(release), ours},
		"An account that nobody impersonates":   {account(team, "default"), objects(team), ""},
		"Another account in the same namespace": {account(release, "default"), objects(release), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			as := rest.CopyConfig(config)
			as.Impersonate.UserName = tc.user
			answers := &classified{}
			as.Wrap(func(next http.RoundTripper) http.RoundTripper {
				answers.next = next
				return answers
			})
			client, err := kubernetes.NewForConfig(as)
			if err != nil {
				t.Fatal(err)
			}
			testkit.Poll(t, fmt.Sprintf("the answer names the FlowSchema %q", tc.want), func() bool {
				_ = client.RESTClient().Get().AbsPath(tc.path).Do(context.WithoutCancel(t.Context())).Error() // most are forbidden
				answers.mu.Lock()
				defer answers.mu.Unlock()
				if tc.want == "" {
					return answers.uid != "" && answers.uid != uids[ours] && answers.uid != uids[lease]
				}
				return answers.uid == uids[tc.want]
			})
		})
	}
}

// TestNoFlowSchemaWithoutTheValue checks that the value switches them off, and that the numbers reach the level.
func TestNoFlowSchemaWithoutTheValue(t *testing.T) {
	isFlowControl := func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group == "flowcontrol.apiserver.k8s.io"
	}
	if all := render(t, "priorityAndFairness.enabled=false"); slices.ContainsFunc(all, isFlowControl) {
		t.Error("there are objects of flow control")
	}
	all := render(t, "priorityAndFairness.borrowingLimitPercent=0", "priorityAndFairness.nominalConcurrencyShares=7", "priorityAndFairness.lendablePercent=20")
	limited, _, _ := unstructured.NestedMap(find(t, all, "PriorityLevelConfiguration", "espalier").Object, "spec", "limited")
	for field, want := range map[string]any{"borrowingLimitPercent": int64(0), "nominalConcurrencyShares": int64(7), "lendablePercent": int64(20)} {
		if limited[field] != want {
			t.Errorf("%s is %v, want %v", field, limited[field], want)
		}
	}
	limited, _, _ = unstructured.NestedMap(find(t, render(t), "PriorityLevelConfiguration", "espalier").Object, "spec", "limited")
	if got, set := limited["borrowingLimitPercent"]; set {
		t.Errorf("by default the controllers borrow %v percent at most", got)
	}
}
