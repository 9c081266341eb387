package managed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Guard keeps the provider configurations of one kind from being deleted as long as managed
// resources refer to them: without its configuration, the external resource of a managed
// resource cannot be deleted.
type Guard struct {
	Config schema.GroupVersionKind
	// Default reports whether a managed resource that names no kind of configuration means
	// this one.
	Default bool
	// UserKinds returns the kinds of managed resources that refer to configurations.
	UserKinds func() []schema.GroupVersionKind
	Configs   writer.Cluster
	Cache     Cache
	Watch     func(watch.Subscriber) Lease
	Events    telemetry.Recorder
}

// Reconcile adds the finalizer to a configuration, and removes it once the configuration is
// being deleted and no managed resource refers to it.
func (g *Guard) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	subscriber := watch.Subscriber{Key: key}
	o, ok := g.Cache.GetCached(g.Config, key.Namespace, key.Name)
	if !ok {
		g.Cache.Forget(subscriber)
		return reconcile.Done()
	}
	config := &writer.Object{Unstructured: o}
	if o.GetDeletionTimestamp() == nil {
		return g.writer().AddFinalizers(ctx, config, resource.ConfigFinalizer).OrDone()
	}
	if !slices.Contains(o.GetFinalizers(), resource.ConfigFinalizer) {
		return reconcile.Done()
	}
	lease := g.Watch(subscriber)
	users, known := g.findUsers(lease, key)
	if len(users) > 0 || !known {
		defer lease.Commit()
		if len(users) == 0 {
			return reconcile.Done() // the watch enqueues it once it is synced
		}
		return g.reportUsers(ctx, config, users)
	}
	lease.Discard()
	out := g.writer().RemoveFinalizers(ctx, config, resource.ConfigFinalizer)
	if !out.IsFinal() {
		g.Cache.Forget(subscriber) // no event says that it is gone, if it is
	}
	return out.OrDone()
}

func (g *Guard) writer() writer.Writer {
	return writer.Writer{Cluster: g.Configs, Caches: g.Cache, Events: g.Events, Manager: FieldManager, StatusManager: FieldManager}
}

// known reports whether all kinds could be read.
func (g *Guard) findUsers(lease Lease, key object.Key) (users []string, known bool) {
	known = true
	for _, kind := range g.UserKinds() {
		all, state := lease.Matching(kind, key.Namespace, labels.Everything())
		known = known && state.Phase == watch.Synced
		for _, o := range all {
			if g.refersTo(o, key.Name) {
				users = append(users, kind.Kind+" "+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
			}
		}
	}
	slices.Sort(users)
	return users, known
}

func (g *Guard) refersTo(o *unstructured.Unstructured, config string) bool {
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "providerConfigRef", "kind")
	name, _, _ := unstructured.NestedString(o.Object, "spec", "providerConfigRef", "name")
	return cmp.Or(name, "default") == config && (kind == g.Config.Kind || (kind == "" && g.Default))
}

// maxListedUsers is how many managed resources a message lists.
const maxListedUsers = 10

// It says how the deletion of the configuration goes on. That the users are no longer allowed to use it is no reason to
// delete it: without it, their external resources cannot be deleted.
func inUseMessage(users []string) string {
	listed := users[:min(len(users), maxListedUsers)]
	text := "the configuration is not deleted while it is used by " + strings.Join(listed, ", ")
	if more := len(users) - len(listed); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ". Delete them, including those in namespaces that are no longer allowed to use it: their external resources are deleted with them, or left with spec.deletionPolicy Orphan. " +
		"Or have them refer to another configuration, in spec.providerConfigRef"
}

func (g *Guard) reportUsers(ctx context.Context, config *writer.Object, users []string) reconcile.Result {
	text := inUseMessage(users)
	before, _, _ := unstructured.NestedString(config.Object, "status", "message")
	wrote, out := g.writer().WriteStatus(ctx, config, map[string]any{"users": int64(len(users)), "message": text})
	if wrote && before == "" {
		g.Events.Event(config.Unstructured, telemetry.Warning, "InUse", text)
	}
	return out.OrDone()
}
