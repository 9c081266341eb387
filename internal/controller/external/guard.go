package external

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
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
	Cluster *cluster.Client
	Hub     *watch.Hub
	Events  telemetry.Recorder
}

// Reconcile puts the finalizer on a configuration, and takes it off again once it is
// deleted and nobody uses it.
func (g *Guard) Reconcile(ctx context.Context, key object.Key) outcome.Outcome {
	subscriber := watch.Subscriber{Key: key}
	o, ok := g.Hub.Served(g.Config, key.Namespace, key.Name)
	if !ok {
		g.Hub.Forget(subscriber)
		return outcome.Done()
	}
	kept := slices.Contains(o.GetFinalizers(), resource.ConfigFinalizer)
	switch {
	case o.GetDeletionTimestamp() == nil && !kept:
		_, err := g.Hub.Write(o, subscriber, func() (*unstructured.Unstructured, error) {
			return g.Cluster.SetFinalizers(ctx, o, append(slices.Clone(o.GetFinalizers()), resource.ConfigFinalizer), Manager)
		})
		return settled(key, err)
	case o.GetDeletionTimestamp() == nil || !kept:
		return outcome.Done()
	}
	lease := g.Hub.Begin(subscriber)
	defer lease.Commit()
	users, known := g.users(lease, key)
	switch {
	case len(users) > 0:
		return g.tell(ctx, o, subscriber, users)
	case !known:
		return outcome.Done() // the watch wakes it
	}
	_, err := g.Hub.Write(o, subscriber, func() (*unstructured.Unstructured, error) {
		return g.Cluster.RemoveFinalizers(ctx, o, []string{resource.ConfigFinalizer}, Manager)
	})
	return settled(key, err)
}

func settled(key object.Key, err error) outcome.Outcome {
	if err != nil && !cluster.IsGone(err) {
		return outcome.Fail(fmt.Errorf("see to %s: %w", key, err))
	}
	return outcome.Done()
}

// users names those who use a configuration, and whether these are all.
func (g *Guard) users(lease *watch.Lease, key object.Key) (users []string, known bool) {
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

// tell says who keeps a configuration that is being deleted, once for each number of
// them.
func (g *Guard) tell(ctx context.Context, o *unstructured.Unstructured, subscriber watch.Subscriber, users []string) outcome.Outcome {
	text := "it isn't deleted while it is used, by " + users[0]
	if len(users) > 1 {
		text += fmt.Sprintf(" and %d more", len(users)-1)
	}
	said, _, _ := unstructured.NestedString(o.Object, "status", "message")
	if said == text {
		return outcome.Done()
	}
	_, err := g.Hub.Write(o, subscriber, func() (*unstructured.Unstructured, error) {
		return g.Cluster.WriteStatus(ctx, o, map[string]any{"users": int64(len(users)), "message": text}, Manager)
	})
	if err == nil && said == "" {
		g.Events.Event(o, telemetry.Warning, "InUse", text)
	}
	return settled(subscriber.Key, err)
}
