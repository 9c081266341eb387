package instance

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// newNamespaced is a fixture of a definition in the namespace platform.
func newNamespaced(t *testing.T, wanted ...plan.Node) *fixture {
	f := newFixture(t, wanted...)
	f.Definition.Namespace = "platform"
	return f
}

// in is a node that wants its object in another namespace.
func in(namespace string, n plan.Node) plan.Node {
	n.Object = n.Object.DeepCopy()
	n.Object.SetNamespace(namespace)
	return n
}

func forbidden(namespaces ...string) map[string]watch.State {
	out := map[string]watch.State{}
	for _, namespace := range namespaces {
		out["ConfigMap in "+namespace] = watch.State{Phase: watch.Unavailable, Reason: watch.Forbidden, Message: `list configmaps is forbidden in the namespace "` + namespace + `"`}
	}
	return out
}

// wantWatched compares what the last reconcile watches of children.
func (f *fixture) wantWatched(want ...string) {
	f.t.Helper()
	got := slices.Clone(f.watched)
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		f.t.Errorf("watched (-want +got):\n%s", diff)
	}
}

func TestChildrenAreLookedForWhereTheyCanBe(t *testing.T) {
	cases := map[string]struct {
		reason     string
		definition string
		nodes      []plan.Node
		want       []string
	}{
		"OfAClusterWideDefinition": {
			reason: "one watch of the kind serves all instances",
			nodes:  []plan.Node{configMap("a"), in("team", configMap("b"))}, want: []string{"ConfigMap"},
		},
		"InTheNamespaceOfTheInstance": {
			reason:     "the account may have permissions there only",
			definition: "platform", nodes: []plan.Node{configMap("a")}, want: []string{"ConfigMap in prod"},
		},
		"WhereObjectsAreDesired": {
			reason:     "an object may be there already",
			definition: "platform", nodes: []plan.Node{configMap("a"), in("team", configMap("b"))}, want: []string{"ConfigMap in prod", "ConfigMap in team"},
		},
		"OfAKindWithoutNamespaces": {
			reason:     "its watch is that of the kind",
			definition: "platform", nodes: []plan.Node{{ID: "a", Kind: plan.NamespaceKind, Object: named(plan.NamespaceKind, "", "a")}}, want: []string{"Namespace"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.reason)
			f := newFixture(t, tc.nodes...)
			f.Definition.Namespace = tc.definition
			f.reconcile()
			f.reconcile()
			f.wantCalls()
			f.wantWatched(tc.want...)
		})
	}
}

func TestNamespacesAreWatchedUntilTheirChildrenAreGone(t *testing.T) {
	f := newNamespaced(t, in("team", configMap("a")))
	f.reconcile()
	f.nodes.wanted = []plan.Node{in("next", configMap("b"))}
	f.unsynced = forbidden("next")
	f.reconcile()
	f.wantCalls("status Web shop")
	f.wantCondition("ResourcesReady", `in the namespace "next"; 'espalier rbac webs.example.org --namespace platform --instance-namespace prod' prints`)
	f.wantWatched("ConfigMap in next", "ConfigMap in prod", "ConfigMap in team")
	f.unsynced = nil
	f.reconcile()
	if !slices.Contains(f.calls, "create ConfigMap b") || !slices.Contains(f.calls, "delete ConfigMap a") {
		t.Errorf("it does not move: %q", f.calls)
	}
	f.reconcile()
	f.reconcile()
	f.wantCalls()
	f.wantWatched("ConfigMap in next", "ConfigMap in prod")
	if got := f.shop().GetAnnotations()[v1alpha1.ApplySetNamespacesAnnotation]; got != "next" {
		t.Errorf("recorded: %q", got)
	}
}

// TestUnreadableNamespacesAreNotEmpty deletes an instance with a child in a namespace that cannot be
// read, after a restart.
func TestUnreadableNamespacesAreNotEmpty(t *testing.T) {
	f := newNamespaced(t, configMap("a"), in("team", configMap("b")))
	f.reconcile()
	f.reconcile()
	f.memories = memories{}
	f.unsynced = forbidden("team")
	f.delete()
	f.reconcile()
	f.reconcile()
	f.reconcile()
	if got := strings.Join(f.blockers(), "\n"); !strings.Contains(got, `in the namespace "team"`) {
		t.Errorf("blockers: %s", got)
	}
	if f.shop() == nil {
		t.Fatal("the instance is gone")
	}
	f.unsynced = nil
	for range 3 {
		f.reconcile()
	}
	if f.shop() != nil || len(f.objects) > 0 {
		t.Errorf("left: %v", f.objects)
	}
}

// TestAModifiedInventoryLosesNoNamespace has another writer remove the namespaces from the inventory.
func TestAModifiedInventoryLosesNoNamespace(t *testing.T) {
	modified := func(t *testing.T) *fixture {
		f := newNamespaced(t, configMap("a"), in("team", configMap("b")))
		f.reconcile()
		f.reconcile()
		f.nodes.wanted = f.nodes.wanted[:1]
		f.annotate(shop, v1alpha1.ApplySetNamespacesAnnotation, "")
		return f
	}
	gone := func(f *fixture) bool {
		return f.objects[object.Key{Kind: "ConfigMap", Namespace: "team", Name: "b"}] == nil
	}
	t.Run("while this process has read it", func(t *testing.T) {
		f := modified(t)
		f.unsynced = forbidden("all")
		f.reconcile()
		if !gone(f) {
			t.Errorf("the child that is not desired any more is not pruned: %q", f.calls)
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		f := modified(t)
		f.memories = memories{}
		f.unsynced = forbidden("all")
		f.reconcile()
		f.wantCalls("status Web shop")
		f.wantCondition("Ready", "another writer has modified the inventory")
		if got := f.shop().GetAnnotations()[v1alpha1.ApplySetNamespacesAnnotation]; got != "" {
			t.Errorf("the inventory was signed: %q", got)
		}
		f.unsynced = nil
		f.reconcile()
		f.reconcile()
		if !gone(f) {
			t.Errorf("with permission in all namespaces it is not pruned: %q", f.calls)
		}
	})
	t.Run("while it is deleted after a restart", func(t *testing.T) {
		f := modified(t)
		f.memories = memories{}
		f.unsynced = forbidden("all")
		f.delete()
		f.reconcile()
		f.reconcile()
		if f.shop() == nil || gone(f) {
			t.Error("it is gone, or its child")
		}
	})
	t.Run("if the inventory of another time is restored", func(t *testing.T) {
		f := newNamespaced(t, configMap("a"))
		f.reconcile()
		before := f.shop().GetAnnotations()
		f.nodes.wanted = append(f.nodes.wanted, in("team", configMap("b")))
		f.reconcile()
		f.reconcile()
		f.change(shop, func(o *unstructured.Unstructured) { o.SetAnnotations(before) })
		f.delete()
		for range 4 {
			f.reconcile()
		}
		if !gone(f) {
			t.Errorf("the child is left behind: %q", f.calls)
		}
	})
}

// controllers are the controllers' own permissions, with namespaces that they read.
type controllers struct {
	fakeCluster
	namespaces map[string]bool // terminating
}

func (c controllers) Get(_ context.Context, _ schema.GroupVersionKind, _, name string) (*unstructured.Unstructured, error) {
	terminating, exists := c.namespaces[name]
	if !exists {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}
	o := named(plan.NamespaceKind, "", name)
	if terminating {
		o.SetDeletionTimestamp(&metav1.Time{Time: now})
	}
	return o, nil
}

// powerless is an account whose roles were deleted.
type powerless struct{ fakeCluster }

var errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "webs"}, "shop", nil)

func (powerless) RemoveFinalizers(context.Context, *unstructured.Unstructured, []string, string) (*unstructured.Unstructured, error) {
	return nil, errForbidden
}

func (powerless) WasOrphaned(context.Context, *unstructured.Unstructured) (bool, error) {
	return false, errForbidden
}

func (powerless) WriteStatus(context.Context, *unstructured.Unstructured, map[string]any, string) (*unstructured.Unstructured, error) {
	return nil, errForbidden
}

// TestInstancesGoWithTheirNamespace deletes an instance whose account has lost its permissions.
func TestInstancesGoWithTheirNamespace(t *testing.T) {
	cases := map[string]struct {
		reason     string
		namespaces map[string]bool
		gone       bool
	}{
		"ItsNamespaceIsBeingDeleted": {"the roles are gone with it, and so are the children", map[string]bool{"prod": true, "team": false}, true},
		"ANamespaceIsGone":           {"nothing is in it, but the account may not remove the finalizer", map[string]bool{"prod": false}, false},
		"OnlyTheRolesAreGone":        {"the children exist", map[string]bool{"prod": false, "team": false}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newNamespaced(t, configMap("a"))
			f.reconcile()
			f.reconcile()
			f.Controllers = controllers{fakeCluster{f.fake}, tc.namespaces}
			f.Cluster = powerless{fakeCluster{f.fake}}
			delete(f.objects, keyOf("a"))
			f.unsynced = forbidden("prod")
			f.delete()
			for range 3 {
				f.reconcile()
			}
			if got := f.shop() == nil; got != tc.gone {
				t.Errorf("%s: gone is %v, want %v; %q", tc.reason, got, tc.gone, f.calls)
			}
		})
	}
}

func TestNothingIsInANamespaceThatIsGone(t *testing.T) {
	f := newNamespaced(t, configMap("a"), in("team", configMap("b")))
	f.reconcile()
	f.reconcile()
	f.Controllers = controllers{fakeCluster{f.fake}, map[string]bool{"prod": false}}
	delete(f.objects, object.Key{Kind: "ConfigMap", Namespace: "team", Name: "b"})
	f.unsynced = forbidden("team")
	f.delete()
	for range 4 {
		f.reconcile()
	}
	if f.shop() != nil {
		t.Errorf("the instance waits for children in a namespace that is gone: %q", f.blockers())
	}
}
