package plan_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

func TestRecreation(t *testing.T) {
	const immutable = `Job.batch "x" is invalid: spec.template: field is immutable`
	recreate, anyway := plan.Recreation{Allowed: true}, plan.Recreation{Allowed: true, DataLoss: true}
	cases := map[string]struct {
		kind, annotation string
		said             plan.Recreation
		stays, external  bool
		rejected         string
		may              bool
		hint             string // what it contains; "" for none
	}{
		"It is not allowed: a hint says how":                            {kind: "Job", hint: "annotate it espalier.dev/recreate=true"},
		"It is not allowed, and the rejection isn't about immutability": {kind: "Job", rejected: `Job.batch "x" is invalid: spec.completions: must be greater than 0`},
		"The node allows it":                                            {kind: "Job", said: recreate, may: true},
		"The object allows it":                                          {kind: "Job", annotation: "true", may: true},
		"The annotation has another value":                              {kind: "Job", annotation: "yes", hint: "annotate it espalier.dev/recreate=true"},
		"The node of an object with data doesn't allow data loss":       {kind: "PersistentVolumeClaim", said: recreate, hint: "espalier.dev/recreate=allow-data-loss"},
		"An object with data doesn't allow data loss":                   {kind: "PersistentVolumeClaim", annotation: "true", hint: "espalier.dev/recreate=allow-data-loss"},
		"The node of an object with data allows data loss":              {kind: "PersistentVolumeClaim", said: anyway, may: true},
		"An object with data allows data loss":                          {kind: "PersistentVolumeClaim", annotation: "allow-data-loss", may: true},
		"An unknown kind may hold data":                                 {kind: "Ledger", said: recreate, hint: "it may hold data"},
		"A preserved object counts as one with data":                    {kind: "Job", said: recreate, stays: true, hint: "must be preserved"},
		"A preserved object allows data loss":                           {kind: "Job", said: anyway, stays: true, may: true},
		"An external object is never recreated":                         {kind: "Job", said: anyway, external: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			api := map[string]string{"Job": "batch/v1", "PersistentVolumeClaim": "v1", "Ledger": "x.example.com/v1"}[tc.kind]
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": api, "kind": tc.kind, "metadata": map[string]any{"name": "x"}}}
			if tc.annotation != "" {
				o.SetAnnotations(map[string]string{v1alpha1.RecreateAnnotation: tc.annotation})
			}
			if tc.rejected == "" {
				tc.rejected = immutable
			}
			step := plan.Step{Current: o, Recreate: tc.said, Preserved: tc.stays, External: tc.external}
			may, hint := step.MayRecreate(tc.rejected)
			if may != tc.may || !strings.Contains(hint, tc.hint) || (tc.hint == "") != (hint == "") {
				t.Errorf("got %t, %q", may, hint)
			}
		})
	}
	if may, hint := (plan.Step{Recreate: anyway}).MayRecreate(immutable); may || hint != "" {
		t.Errorf("what isn't there: got %t, %q", may, hint)
	}
}

func TestDeletable(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	child := func(name string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "y", "uid": "uid-" + name}}}
		change(o)
		return o
	}
	plain := child("plain", func(*unstructured.Unstructured) {})
	protected := child("protected", func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{v1alpha1.ProtectAnnotation: "the ledger"})
	})
	gone := metav1.NewTime(now)
	going := child("going", func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&gone) })
	instance := child("instance", func(*unstructured.Unstructured) {})
	ask, held, _ := plan.Deletable(plan.Remaining{Instance: instance, Children: []*unstructured.Unstructured{plain, protected, going}, Now: now})
	if len(ask) != 1 || ask[0] != plain {
		t.Errorf("asked to go: %v", ask)
	}
	if by := held[protected]; by == nil || !strings.Contains(by.Message, "protected: the ledger") {
		t.Errorf("the blocker of the protected object is %v", by)
	}
	if _, told := held[going]; !told {
		t.Error("what is going is asked again")
	}
}

func TestDeletableIsRepeatedForTheFirstThatCanBe(t *testing.T) {
	denied, pending := left("refused", layer(0)), left("accepted", layer(0))
	protected := left("protected", layer(0), annotated(v1alpha1.ProtectAnnotation, "data"))
	refused := plan.DeletionAttempts{}
	for range 20 {
		refused = refused.Refused(report.DeniedByWebhook, "no", denied, now)
	}
	accepted := plan.DeletionAttempts{}.Accepted(now)
	history := plan.DeletionHistory{Children: map[types.UID]plan.DeletionAttempts{"uid-refused": refused, "uid-accepted": accepted}}
	for name, tc := range map[string]struct {
		reason   string
		children []*unstructured.Unstructured
		want     time.Duration
	}{
		"A refused deletion":                    {"it is repeated with growing delay", []*unstructured.Unstructured{denied}, 30 * time.Second},
		"A refused and then an accepted one":    {"the accepted one is repeated earlier", []*unstructured.Unstructured{denied, pending}, 10 * time.Second},
		"An accepted and then a refused one":    {"the accepted one is repeated earlier", []*unstructured.Unstructured{pending, denied}, 10 * time.Second},
		"An accepted one and a protected child": {"an event shows the end of the protection", []*unstructured.Unstructured{pending, protected}, 10 * time.Second},
		"A protected child":                     {"an event shows the end of the protection", []*unstructured.Unstructured{protected}, 0},
	} {
		if _, _, got := plan.Deletable(plan.Remaining{Instance: instance(), Children: tc.children, History: history, Now: now}); got != tc.want {
			t.Errorf("%s: %s: after %s, not %s", name, tc.reason, got, tc.want)
		}
	}
}

func TestWhenADeletionIsRequestedAgain(t *testing.T) {
	child := left("a", layer(0))
	refused := func(reason report.Reason, ago time.Duration) plan.DeletionAttempts {
		return plan.DeletionAttempts{}.Refused(reason, "no", child, now.Add(-ago))
	}
	for name, tc := range map[string]struct {
		reason   string
		tried    plan.DeletionAttempts
		reported []report.Blocker
		request  bool
		blocked  report.Reason
		retry    time.Duration
	}{
		"Never requested":                         {reason: "nothing keeps it", request: true},
		"Denied":                                  {reason: "a user may have to act", tried: refused(report.DeniedByWebhook, 0), blocked: report.DeniedByWebhook, retry: 250 * time.Millisecond},
		"Denied, and the delay has passed":        {reason: "the webhook may allow it now", tried: refused(report.DeniedByWebhook, 250*time.Millisecond), request: true},
		"Out of reach for a moment":               {reason: "the next request may succeed", tried: refused(report.OutOfReach, 100*time.Millisecond), retry: 150 * time.Millisecond},
		"The webhook is unavailable for a moment": {reason: "the next request may succeed", tried: refused(report.WebhookUnavailable, 100*time.Millisecond), retry: 150 * time.Millisecond},
		"Out of reach for longer":                 {reason: "a user may have to act", tried: refused(report.OutOfReach, 200*time.Millisecond), blocked: report.OutOfReach, retry: 50 * time.Millisecond},
		"Out of reach, as the status says": {
			reason: "the status would alternate", tried: refused(report.OutOfReach, 0), reported: []report.Blocker{leafHold("a", report.OutOfReach)}, blocked: report.OutOfReach, retry: 250 * time.Millisecond,
		},
		"Accepted":                         {reason: "the cache is about to show it", tried: plan.DeletionAttempts{}.Accepted(now.Add(-9 * time.Second)), retry: time.Second},
		"Accepted long ago without effect": {reason: "the request may have been lost, and the next one may be", tried: plan.DeletionAttempts{}.Accepted(now.Add(-10 * time.Second)), request: true, retry: 10 * time.Second},
	} {
		deletable, blocked, retry := plan.Deletable(plan.Remaining{
			Instance: instance(), Children: []*unstructured.Unstructured{child}, Now: now, History: trials(tc.tried, "uid-a"), Reported: report.Status{Pruning: tc.reported},
		})
		var by report.Reason
		if b := blocked[child]; b != nil {
			by = b.Reason
		}
		if len(deletable) > 0 != tc.request || by != tc.blocked || retry != tc.retry {
			t.Errorf("%s: %s: requested %d, blocked by %q, again after %s", name, tc.reason, len(deletable), by, retry)
		}
	}
}
