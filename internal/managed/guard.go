package managed

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Guard keeps the configurations of one kind as long as managed resources name them:
// without its configuration nobody can delete what a managed resource stands for.
type Guard struct {
	Config schema.GroupVersionKind
	// Default says that a managed resource means this kind if it says none.
	Default bool
	// Users are the kinds of the managed resources.
	Users   []schema.GroupVersionKind
	Configs Configs
	Cache   Cache
	Watch   func(watch.Subscriber) Lease
	Events  telemetry.Recorder
}

// Reconcile puts the finalizer on a configuration, and takes it off again once it is
// deleted and nobody uses it.
func (g *Guard) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	subscriber := watch.Subscriber{Key: key}
	o, ok := g.Cache.Served(g.Config, key.Namespace, key.Name)
	if !ok {
		g.Cache.Forget(subscriber)
		return reconcile.Done()
	}
	kept := slices.Contains(o.GetFinalizers(), resource.ConfigFinalizer)
	switch {
	case o.GetDeletionTimestamp() == nil && !kept:
		_, err := g.Cache.Write(o, subscriber, func() (*unstructured.Unstructured, error) {
			return g.Configs.SetFinalizers(ctx, o, append(slices.Clone(o.GetFinalizers()), resource.ConfigFinalizer), Manager)
		})
		return settled(key, err)
	case o.GetDeletionTimestamp() == nil || !kept:
		return reconcile.Done()
	}
	lease := g.Watch(subscriber)
	defer lease.Commit()
	users, known := g.users(lease, key)
	switch {
	case len(users) > 0:
		return g.reportUsers(ctx, o, subscriber, users)
	case !known:
		return reconcile.Done() // the watch wakes it
	}
	_, err := g.Cache.Write(o, subscriber, func() (*unstructured.Unstructured, error) {
		return g.Configs.RemoveFinalizers(ctx, o, []string{resource.ConfigFinalizer}, Manager)
	})
	return settled(key, err)
}

func settled(key object.Key, err error) reconcile.Result {
	if err != nil && !kube.IsGone(err) {
		return reconcile.Fail(fmt.Errorf("see to %s: %w", key, err))
	}
	return reconcile.Done()
}

// users names those who use a configuration, and whether these are all.
func (g *Guard) users(lease Lease, key object.Key) (users []string, known bool) {
	known = true
	for _, kind := range g.Users {
		all, state := lease.Matching(kind, key.Namespace, labels.Everything())
		known = known && state.Phase == watch.Synced
		for _, o := range all {
			if g.names(o, key.Name) {
				users = append(users, fmt.Sprintf("%s %s/%s", kind.Kind, o.GetNamespace(), o.GetName()))
			}
		}
	}
	return users, known
}

// names says whether a managed resource names a configuration of this kind.
func (g *Guard) names(o *unstructured.Unstructured, config string) bool {
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "providerConfigRef", "kind")
	name, _, _ := unstructured.NestedString(o.Object, "spec", "providerConfigRef", "name")
	return cmp.Or(name, "default") == config && (kind == g.Config.Kind || (kind == "" && g.Default))
}

// reportUsers says who keeps a configuration that is being deleted, once for each number of
// them.
func (g *Guard) reportUsers(ctx context.Context, o *unstructured.Unstructured, subscriber watch.Subscriber, users []string) reconcile.Result {
	text := "it isn't deleted while it is used, by " + users[0]
	if len(users) > 1 {
		text += fmt.Sprintf(" and %d more", len(users)-1)
	}
	said, _, _ := unstructured.NestedString(o.Object, "status", "message")
	if said == text {
		return reconcile.Done()
	}
	_, err := g.Cache.Write(o, subscriber, func() (*unstructured.Unstructured, error) {
		return g.Configs.WriteStatus(ctx, o, map[string]any{"users": int64(len(users)), "message": text}, Manager)
	})
	if err == nil && said == "" {
		g.Events.Event(o, telemetry.Warning, "InUse", text)
	}
	return settled(subscriber.Key, err)
}
