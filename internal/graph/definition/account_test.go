package definition

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

func TestSpecifiedAccount(t *testing.T) {
	in := func(namespace string) object.Definition {
		return object.Definition{Name: "d", Namespace: namespace}
	}
	cases := map[string]struct {
		owner   object.Definition
		named   any
		want    v1alpha1.ServiceAccount
		problem string
	}{
		"None":                 {in(""), nil, v1alpha1.ServiceAccount{}, ""},
		"In a namespace, none": {in("a"), nil, v1alpha1.ServiceAccount{Namespace: "a", Name: "espalier"}, ""},
		"One of any namespace": {in(""), map[string]any{"namespace": "a", "name": "x"}, v1alpha1.ServiceAccount{Namespace: "a", Name: "x"}, ""},
		"One without a namespace in a cluster-scoped definition": {in(""), map[string]any{"name": "x"}, v1alpha1.ServiceAccount{}, "namespace is required"},
		"One that is a string":                {in(""), "x", v1alpha1.ServiceAccount{}, "must be an object with a namespace and a name"},
		"One without a name":                  {in(""), map[string]any{"namespace": "a"}, v1alpha1.ServiceAccount{}, "name is required"},
		"One that is no name":                 {in(""), map[string]any{"namespace": "a", "name": "../x"}, v1alpha1.ServiceAccount{}, `name cannot be "../x"`},
		"One in what is no namespace":         {in(""), map[string]any{"namespace": "a/b", "name": "x"}, v1alpha1.ServiceAccount{}, `namespace cannot be "a/b"`},
		"In a namespace, one of that":         {in("a"), map[string]any{"namespace": "a", "name": "x"}, v1alpha1.ServiceAccount{Namespace: "a", Name: "x"}, ""},
		"In a namespace, that is the default": {in("a"), map[string]any{"name": "x"}, v1alpha1.ServiceAccount{Namespace: "a", Name: "x"}, ""},
		"In a namespace, none of another":     {in("a"), map[string]any{"namespace": "b", "name": "x"}, v1alpha1.ServiceAccount{}, "can only use service accounts of that namespace"},
	}
	for name, tc := range cases {
		got, problem := accountRules{owner: tc.owner}.specified(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"serviceAccount": tc.named, "schema": "nonsense"}}})
		if got != tc.want || (problem == "") != (tc.problem == "") || !strings.Contains(problem, tc.problem) {
			t.Errorf("%s: %+v, %q", name, got, problem)
		}
	}
}

func TestServiceAccountsCanBeRequired(t *testing.T) {
	none := &unstructured.Unstructured{}
	if _, problem := (accountRules{required: true}).specified(none); !strings.Contains(problem, "--require-service-account") {
		t.Errorf("got %q", problem)
	}
	if named, problem := (accountRules{owner: object.Definition{Namespace: "a"}, required: true}).specified(none); named.Name == "" || problem != "" {
		t.Errorf("got %+v, %q", named, problem)
	}
}

// TestOneUserNeedsNoAccount lets a ResourceGroup have the controllers' permissions where nobody gets more by that.
func TestOneUserNeedsNoAccount(t *testing.T) {
	owner := object.Definition{Namespace: "a"}
	for rules, want := range map[accountRules]string{
		{owner: owner}:                                "espalier",
		{owner: owner, oneUser: true}:                 "",
		{owner: owner, oneUser: true, required: true}: "espalier",
	} {
		if named, problem := rules.specified(&unstructured.Unstructured{}); named.Name != want || problem != "" {
			t.Errorf("%+v: %+v, %q", rules, named, problem)
		}
		if _, problem := rules.recorded("controllers"); (problem == "") != (want == "") {
			t.Errorf("%+v: a revision that the controllers reconciled: %q", rules, problem)
		}
	}
}

func TestRecordedAccount(t *testing.T) {
	const builder = "system:serviceaccount:a:builder"
	named := v1alpha1.ServiceAccount{Namespace: "a", Name: "builder"}
	cases := map[string]struct {
		namespace string
		required  bool
		account   string
		want      v1alpha1.ServiceAccount
		problem   string
	}{
		"A service account": {"", false, builder, named, ""},
		"The controllers":   {"", false, "controllers", v1alpha1.ServiceAccount{}, ""},
		"The controllers, where service accounts are required":   {"", true, "controllers", v1alpha1.ServiceAccount{}, "service accounts are required"},
		"The controllers, for a definition in a namespace":       {"a", false, "controllers", v1alpha1.ServiceAccount{}, "no definition in a namespace"},
		"A service account of the definition's namespace":        {"a", true, builder, named, ""},
		"A service account of another namespace":                 {"b", false, builder, v1alpha1.ServiceAccount{}, "its service account is in namespace a"},
		"A user that is not a service account":                   {"", false, "system:admin", v1alpha1.ServiceAccount{}, "is not a service account"},
		"A group of service accounts, which is not one of these": {"", false, "system:serviceaccounts", v1alpha1.ServiceAccount{}, "is not a service account"},
	}
	for name, tc := range cases {
		got, problem := accountRules{owner: object.Definition{Namespace: tc.namespace}, required: tc.required}.recorded(tc.account)
		if got != tc.want || (problem == "") != (tc.problem == "") || !strings.Contains(problem, tc.problem) {
			t.Errorf("%s: %+v, %q", name, got, problem)
		}
	}
}

func TestReviewsBackOff(t *testing.T) {
	var l reviewBackoff
	now := time.Unix(0, 0)
	ask := func(after time.Duration, still bool, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got := l.next(still, now); got != want {
			t.Errorf("after %s: %s, not %s", after, got, want)
		}
	}
	ask(0, true, time.Second)
	ask(time.Second, true, 2*time.Second)
	ask(2*time.Second, true, 4*time.Second)
	ask(time.Second, true, time.Second) // a review for another reason starts over
	for range 20 {
		now = l.due
		l.next(true, now)
	}
	now = l.due
	ask(0, true, slowestAsk)
	ask(0, false, 0)
	ask(time.Hour, true, time.Second)
}

func TestWhoWaitsForRightsWaitsForNothingElseLess(t *testing.T) {
	cases := map[string]struct {
		patience time.Duration
		absent   bool
		out      reconcile.Result
		want     reconcile.Result
	}{
		"Nothing is lacking":               {0, false, reconcile.RequeueAfter(time.Second), reconcile.RequeueAfter(time.Second)},
		"There is nothing else to do":      {time.Minute, false, reconcile.Done(), reconcile.RequeueAfter(time.Minute)},
		"A rollout looks again before":     {time.Minute, false, reconcile.RequeueAfter(time.Second), reconcile.RequeueAfter(time.Second)},
		"A rollout looks again afterwards": {time.Second, false, reconcile.RequeueAfter(time.Minute), reconcile.RequeueAfter(time.Second)},
		"Another API server may have it":   {0, true, reconcile.Done(), reconcile.RequeueAfter(kube.BuiltInCacheTTL)},
		"That may be sooner granted":       {time.Second, true, reconcile.Done(), reconcile.RequeueAfter(time.Second)},
	}
	for name, tc := range cases {
		v := session{review: review{requeueAfter: tc.patience}, kindAbsent: tc.absent}
		if got := v.requeue(tc.out); got != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	failed := errors.New("no")
	if got := (&session{review: review{requeueAfter: time.Second}}).requeue(reconcile.Fail(failed)); !errors.Is(got.Err, failed) {
		t.Errorf("a failure isn't repeated as failures are: %+v", got)
	}
}

// TestAnAnnotationNamesNoAccount reads a status from the annotation of a restored definition: users
// who may only annotate a definition must not choose its service account.
func TestAnAnnotationNamesNoAccount(t *testing.T) {
	raw := &unstructured.Unstructured{Object: map[string]any{}}
	raw.SetAnnotations(map[string]string{v1alpha1.ServedAnnotation: `{"servingRevision":2,"lastIssuedRevision":3,"serviceAccount":{"namespace":"kube-system","name":"admin"}}`})
	for _, without := range []map[string]any{nil, {}, {"observedGeneration": int64(-1)}} {
		raw.Object["status"] = without
		if got := statusOf(raw); got.ServiceAccount != nil || got.ServingRevision != 2 || got.LastIssuedRevision != 3 {
			t.Errorf("with the status %v: got %+v", without, got)
		}
	}
}

// TestAnAccountThatALimitRefusesToReadIsPending: it must not count as existing.
func TestAnAccountThatALimitRefusesToReadIsPending(t *testing.T) {
	hub := watch.New(watch.Config{Quota: watch.NewQuota(watch.Limits{PerSubscriber: 1}), Enqueue: func(watch.Subscriber, watch.Cause) {}})
	v := &session{lease: hub.BeginWithinQuota(watch.Subscriber{})}
	v.lease.Watch(watch.Object(serviceAccountKind, "team", "other"))
	account := Account{User: "system:serviceaccount:team:builder", Named: v1alpha1.ServiceAccount{Namespace: "team", Name: "builder"}}
	if missing, pending := v.missingAccounts(map[int64]*Account{1: &account}); len(missing) > 0 || pending == nil || pending.Reason != watch.LimitExceeded {
		t.Errorf("missing %v, pending %v", missing, pending)
	}
}
