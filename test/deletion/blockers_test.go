package deletion

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestEachBlockerIsReportedOnEveryLayer deletes the top of a nest while the deletion of its lowest
// object is blocked, waits until each layer reports why, removes the blocker, and waits until
// everything is deleted.
func TestEachBlockerIsReportedOnEveryLayer(t *testing.T) {
	cases := map[string]struct {
		reason report.Reason
		words  []string
		// about is the blocking object; the leaf by default.
		about string
		// block blocks the deletion; clear unblocks it.
		block func(t *testing.T, s suite.Suite) (clear func())
		// rights are the manifest of the permissions of the controllers; by default they have all.
		rights string
	}{
		"a finalizer, with its field manager": {
			reason: report.HeldByFinalizer, words: []string{"example.com/guard", "somebody"},
			block: func(t *testing.T, s suite.Suite) func() {
				setFinalizers(t, s, leaf(s), "x-leaf", "example.com/guard")
				return func() { setFinalizers(t, s, leaf(s), "x-leaf") }
			},
		},
		"a webhook that refuses": {
			reason: report.DeniedByWebhook, words: []string{"not today", "guard.example.com"},
			block: func(t *testing.T, s suite.Suite) func() {
				return refuseDeletions(t, s, webhook(t, "not today"))
			},
		},
		"an admission policy that refuses": {
			reason: report.DeniedByWebhook, words: []string{"not on a Friday"},
			block: denyByPolicy,
		},
		"a webhook that does not respond": {
			reason: report.WebhookUnavailable, words: []string{"guard.example.com", "ValidatingWebhookConfiguration ", "-guard"},
			block: func(t *testing.T, s suite.Suite) func() {
				return refuseDeletions(t, s, map[string]any{"url": "https://127.0.0.1:1/refuse"})
			},
		},
		"a missing permission": {
			reason: report.Forbidden, words: []string{"cannot delete", "espalier-test"}, rights: withoutDelete,
			block: func(t *testing.T, s suite.Suite) func() { return func() { s.Apply(t, granted) } },
		},
		"protection": {
			reason: report.Protected, words: []string{"holds the ledger", "espalier.dev/protect"},
			block: func(t *testing.T, s suite.Suite) func() {
				annotate(t, s, leaf(s), "x-leaf", "espalier.dev/protect", "holds the ledger")
				return func() { annotate(t, s, leaf(s), "x-leaf", "espalier.dev/protect", nil) }
			},
		},
		"an external resource": {
			reason: report.ExternalDeletion, words: []string{"DependencyViolation"},
			block: func(t *testing.T, s suite.Suite) func() {
				setFinalizers(t, s, leaf(s), "x-leaf", "finalizer.managedresource.crossplane.io")
				s.SetStatus(t, leaf(s), s.NS, "x-leaf", map[string]any{"conditions": []any{
					map[string]any{"type": "Synced", "status": "False", "reason": "ReconcileError", "message": "delete failed: DependencyViolation"},
				}})
				return func() { setFinalizers(t, s, leaf(s), "x-leaf") }
			},
		},
		"a kind that is not served": {
			reason: report.KindUnavailable, about: "objects of kind Leaf", words: []string{"Leaf"},
			block: func(t *testing.T, s suite.Suite) func() {
				setServed(t, s, false)
				return func() { setServed(t, s, true) }
			},
		},
	}
	for dialect, nest := range nests {
		for name, tc := range cases {
			t.Run(dialect+"/"+name, func(t *testing.T) {
				s := suite.New(t)
				s.Apply(t, cmp.Or(tc.rights, granted))
				nest.build(t, s)
				clear := tc.block(t, s)
				about := cmp.Or(tc.about, "Leaf "+s.NS+"/x-leaf")
				s.Delete(t, s.Kind(nest.top().kind), s.NS, "x")
				nest.awaitEveryLayer(t, s, nest.blocked(about, tc.reason, tc.words...))
				for i, l := range nest.layers {
					o := l.only(t, s)
					if d := report.ReadDeletion(o); i > 0 && (d == nil || d.Blockers[0].Reason != report.ChildBlocked) {
						t.Errorf("the deletion of %s is not blocked by its child: %+v", l.kind, d)
					}
					s.AwaitEventOn(t, o, "DeletionBlocked", tc.words[0])
				}
				clear()
				nest.awaitGone(t, s)
			})
		}
	}
}

// awaitEveryLayer waits until the instances of all layers pass the check.
func (n layered) awaitEveryLayer(t *testing.T, s suite.Suite, check func(*unstructured.Unstructured) error) {
	t.Helper()
	var (
		mu   sync.Mutex
		wait sync.WaitGroup
		errs []error
	)
	for _, l := range n.layers {
		of := l.client(t, s)
		wait.Go(func() {
			err := testkit.AwaitList(t.Context(), of, metav1.ListOptions{}, func(objects map[string]*unstructured.Unstructured) error {
				for _, o := range objects {
					return check(o)
				}
				return check(nil)
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", l.kind, err))
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

const withoutDelete = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-lacking}
rules:
  - {apiGroups: [$GROUP], resources: ["*"], verbs: ["*"]}
  - {apiGroups: [leaf.$GROUP], resources: ["*"], verbs: [get, list, watch, create, patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-lacking}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-lacking}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: espalier-test}]
`

// setServed changes whether the leaf's only version is served.
func setServed(t *testing.T, s suite.Suite, served bool) {
	t.Helper()
	body := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/served","value":%t}]`, served)
	if _, err := s.Resource(t, suite.CRD, "").Patch(t.Context(), s.Expand("leafs.leaf.$GROUP"), types.JSONPatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
