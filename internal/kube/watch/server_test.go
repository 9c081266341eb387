package watch

import (
	"context"
	"strconv"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	rbac       = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
)

// TestServerAWatchResumesWhenItsKindReturns deletes and creates a kind with two subscribers, which get
// events of its objects each time, with and without a call of KindChanged.
func TestServerAWatchResumesWhenItsKindReturns(t *testing.T) {
	for name, tell := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			l := onServer(t, "")
			kind := l.kind("v1")
			changed := func(c KindChange) {
				if tell {
					l.KindChanged(kind.GroupKind(), c)
				}
			}
			for _, sub := range []string{"one", "two"} {
				l.want(sub, Child(kind, l.namespace, "x"), Child(configMap, l.namespace, "x"))
			}
			lives := [][]string{{"v1"}, {"v1beta1", "v1"}, {"v1", "v2"}}
			for _, versions := range lives {
				l.awaitState(t, kind, Managed(), Unavailable, WaitingForKind)
				if _, ok := l.Get(kind, l.namespace, "x"); ok {
					t.Error("an object outlived its kind")
				}
				l.install(t, versions...)
				changed(KindAdded)
				l.awaitState(t, kind, Managed(), Synced, "")
				l.wakeups.take()
				l.apply(t, l.vpcs(), made(kind, "a/x", 0, partOf, "o"))
				l.wakeups.awaitBoth(t, "a new object", change("x", Added, kind))
				l.apply(t, l.vpcs(), made(kind, "a/x", 0, partOf, "o", "changed", "yes"))
				l.wakeups.awaitBoth(t, "a changed object", change("x", Updated, kind))
				l.uninstall(t)
				changed(KindDeleted)
				l.wakeups.awaitBoth(t, "an object that goes with its kind", change("x", Deleted, kind))
			}
			if got := l.State(configMap, Managed()); got.Phase != Synced || got.Generation != 1 {
				t.Errorf("the neighbour kind is %+v", got)
			}
		})
	}
}

func TestServerAForbiddenKind(t *testing.T) {
	l := onServer(t, "limited-user")
	l.install(t, "v1")
	kind := l.kind("v1")
	l.grant(t, "", "configmaps")
	l.want("i", Child(kind, l.namespace, "x"), Child(configMap, l.namespace, "x"))
	l.awaitState(t, configMap, Managed(), Synced, "")
	state := l.awaitState(t, kind, Managed(), Unavailable, Forbidden)
	t.Log(state.Message)

	l.apply(t, configMaps, made(configMap, "a/x", 0, partOf, "other"))
	l.wakeups.await(t, "an event of the kind beside it", change("x", Added, configMap))

	l.wakeups.take()
	l.grant(t, l.group, "vpcs")
	l.KindChanged(kind.GroupKind(), KindAdded)
	l.wakeups.await(t, "the role", change("", KindState, kind))
	l.awaitState(t, kind, Managed(), Synced, "")
}

// TestServerAnObjectIsReadWithThePermissionsOfItsWatch refreshes objects as a user who may list and watch their kind, and
// must not get them: roles grant the controllers no more for instances that a service account reconciles.
func TestServerAnObjectIsReadWithThePermissionsOfItsWatch(t *testing.T) {
	l := onServer(t, "limited-user")
	l.install(t, "v1")
	kind := l.kind("v1")
	l.apply(t, l.vpcs(), made(kind, l.namespace+"/x", 0, partOf, "other"))
	if _, err := l.Refresh(t.Context(), kind, l.namespace, "x"); !apierrors.IsForbidden(err) {
		t.Errorf("without a role: %v", err)
	}
	l.grant(t, l.group, "vpcs")
	for name, want := range map[string]bool{"x": true, "absent": false} {
		if found, err := l.Refresh(t.Context(), kind, l.namespace, name); err != nil || found != want {
			t.Errorf("%s is found: %v, %v", name, found, err)
		}
	}
}

// TestServerUnusedWatchesAreClosed adds and removes kinds and subscribers, and then reads the count of
// watches from the API server.
func TestServerUnusedWatchesAreClosed(t *testing.T) {
	l := onServer(t, "")
	before := l.openWatches(t, "configmaps")
	app, _ := labels.Parse("app=db")
	for i := range 50 {
		sub := strconv.Itoa(i)
		l.want(sub, ChildrenOf(configMap, "o"), Object(configMap, l.namespace, sub), Matching(configMap, l.namespace, app))
	}
	// The children, the selection, eight single objects, and the namespace for the others.
	l.poll(t, "11 watches", func(context.Context) bool { return l.openWatches(t, "configmaps") == before+11 })
	kindWatch := l.WatchKind(configMap, ignoreEvents)
	for i := range 50 {
		l.Forget(subscriberOf(strconv.Itoa(i)))
	}
	kindWatch.Stop()
	l.poll(t, "no watch of ours", func(context.Context) bool {
		return l.openWatches(t, "configmaps") == before && len(l.Stats()) == 0
	})
}

func TestServerOnlySelectedObjectsAreCached(t *testing.T) {
	l := onServer(t, "")
	for name, set := range map[string][]string{
		"managed": {partOf, "o"}, "single": {"app", "cache"}, "labelled": {"app", "db"}, "other": {"app", "web"},
	} {
		l.apply(t, configMaps, made(configMap, "a/"+name, 0, set...))
	}
	app, _ := labels.Parse("app=db")
	l.want("i", ChildrenOf(configMap, "o"), Object(configMap, l.namespace, "single"), Matching(configMap, l.namespace, app))
	for _, s := range []Selection{Managed(), One(l.namespace, "single"), Labelled(l.namespace, app)} {
		l.awaitState(t, configMap, s, Synced, "")
	}
	for name, want := range map[string]bool{"managed": true, "single": true, "labelled": true, "other": false} {
		o, ok := l.Get(configMap, l.namespace, name)
		if ok != want {
			t.Errorf("%s is held: %t, want %t", name, ok, want)
		}
		if ok && len(o.GetManagedFields()) != 1 {
			t.Errorf("%s has the managed fields %v", name, o.GetManagedFields())
		}
	}
	if got := l.Select(configMap, l.namespace, app); len(got) != 1 {
		t.Errorf("selected %d objects, want 1", len(got))
	}
}

// TestServerWakeUpsForOwnWritesNameThem writes and deletes as the owner of children does. The watch may be faster
// than the answer, or slower than the next write: the queue, which knows the writes, drops such wake-ups.
func TestServerWakeUpsForOwnWritesNameThem(t *testing.T) {
	l := onServer(t, "")
	before := l.openWatches(t, "configmaps")
	owner := l.namespace // other tests have objects, too
	l.want("writer", ChildrenOf(configMap, owner))
	l.awaitState(t, configMap, Managed(), Synced, "")
	l.wakeups.take()
	child := l.admin.Resource(configMaps).Namespace(l.namespace)
	own := map[Write]bool{}
	for i := range 200 {
		o := l.apply(t, configMaps, made(configMap, "a/x", 0, partOf, owner, "n", strconv.Itoa(i)))
		l.Record(o, subscriberOf("writer"))
		own[Write{uidOf(o), revisionOf(o)}] = true
		if i%10 == 0 {
			must(t, child.Delete(t.Context(), "x", metav1.DeleteOptions{}))
			l.RecordGone(configMap, l.namespace, "x", uidOf(o), subscriberOf("writer"))
			own[Write{uidOf(o), Gone}] = true
			continue
		}
		if got := l.Owned(configMap, owner); got[0].GetResourceVersion() != o.GetResourceVersion() {
			t.Fatalf("after writing %s we read %s", o.GetResourceVersion(), got[0].GetResourceVersion())
		}
	}
	// Somebody's write is the mark behind which no echo can come any more.
	l.apply(t, configMaps, made(configMap, "a/mark", 0, partOf, owner))
	for {
		switch next := l.wakeups.await(t, "the mark", anything); {
		case next.Object.Name == "mark":
			l.Forget(subscriberOf("writer"))
			l.poll(t, "no watch of ours", func(context.Context) bool { return l.openWatches(t, "configmaps") == before })
			return
		case !own[next.Write]:
			t.Errorf("an own write of %s wakes the writer as %+v", next.Object.Name, next.Write)
		}
	}
}

// grant lets the hub's user list and watch a resource, and waits until it may.
func (l *live) grant(t *testing.T, group, resource string) {
	t.Helper()
	name := "watch-" + resource + "-" + l.namespace
	role := &rbacv1.ClusterRole{
		TypeMeta: metav1.TypeMeta{APIVersion: rbac.String(), Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list", "watch"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbac.String(), Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbac.Group, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbac.Group, Name: "limited-user"}},
	}
	for of, o := range map[string]any{"clusterroles": role, "clusterrolebindings": binding} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		must(t, err)
		objects := l.admin.Resource(rbac.WithResource(of))
		_, err = objects.Create(t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() { must(t, objects.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	}
	l.poll(t, "the role to apply", func(ctx context.Context) bool {
		_, err := l.env.Client.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).
			List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil
	})
}
