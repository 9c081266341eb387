package protection

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

var (
	usageKind     = usage.Kinds[0]
	configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	appKind       = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "App"}
	usageKey      = object.Key{Group: usageKind.Group, Kind: "Usage", Namespace: "prod", Name: "u"}
	usedKey       = object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "used"}
	userKey       = object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "user"}
	subscriberKey = object.Key{Group: "example.org", Kind: "App", Namespace: "prod", Name: "subscriber"}
)

const (
	used = `
apiVersion: v1
kind: ConfigMap
metadata: {name: used, namespace: prod, uid: used-1, labels: {tier: data}}`
	user = `
apiVersion: v1
kind: ConfigMap
metadata: {name: user, namespace: prod, uid: user-1, labels: {tier: web}}`
	usageByUser = `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: u, namespace: prod, uid: usage-1, generation: 2}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}
  by: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: user}}`
	usageForReason = `
apiVersion: protection.crossplane.io/v1beta1
kind: Usage
metadata: {name: u, namespace: prod, uid: usage-1, generation: 2}
spec:
  of: {apiVersion: v1, kind: ConfigMap, resourceRef: {name: used}}
  reason: the ledger
  replayDeletion: true`
)

// world is a cluster with the controller of usages.
type world struct {
	*fakekube.Cluster
	r        *Reconciler
	enqueued []object.Key
	// revoked are users who may delete nothing.
	revoked map[string]bool
	// removeUsed removes the used object after its refused deletion is recorded.
	removeUsed bool
	// behind is the used object as the caches have it until it is read from the API server; nil if they are
	// not behind.
	behind *unstructured.Unstructured
}

// Refresh brings the caches up to date.
func (w *world) Refresh(_ context.Context, kind schema.GroupVersionKind, namespace, name string) (found bool, err error) {
	key := object.Key{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: name}
	w.behind = nil
	delete(w.Uncached, key)
	return w.Object(key) != nil, nil
}

// lease reads from caches that may be behind.
type lease struct {
	*fakekube.Lease
	world *world
}

func (l lease) Object(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, watch.State) {
	if o := l.world.behind; o != nil && kind == o.GroupVersionKind() && name == o.GetName() {
		return o, watch.State{Phase: watch.Synced}
	}
	return l.Lease.Object(kind, namespace, name)
}

// refusals answers the reviews of access itself.
type refusals struct {
	*kube.Client
	world *world
}

func (r refusals) MayDelete(_ context.Context, user authenticationv1.UserInfo, _ *unstructured.Unstructured) (bool, error) {
	return !r.world.revoked[user.Username], nil
}

// refuse records a deletion that was refused.
func (w *world) refuse(t *testing.T, key object.Key, user string) {
	t.Helper()
	err := RefusedDeletions{Cluster: w.Client()}.Record(t.Context(), w.Object(key), "Foreground", authenticationv1.UserInfo{Username: user})
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T, objects ...string) *world {
	t.Helper()
	w := &world{Cluster: fakekube.New(objects...)}
	w.Kinds[refusedKind.GroupKind()] = fakekube.Kind{ClusterScoped: true}
	w.Kinds[usageKind.GroupKind()] = fakekube.Kind{CRD: &apiextensionsv1.CustomResourceDefinition{}}
	client := w.Client()
	index := NewIndex(w, w, func(key object.Key) { w.enqueued = append(w.enqueued, key) })
	w.r = &Reconciler{
		Kind: usageKind, Index: index, Writer: client, Deleter: client, Refusals: RefusedDeletions{Cluster: refusals{client, w}}, Kinds: w, Cache: w, Events: w,
		Watch: func(s watch.Subscriber) Lease { return lease{w.Begin(s), w} },
		Now:   func() time.Time { return time.Unix(1000, 0) },
	}
	index.Watch(usageKind)
	w.refreshIndex()
	return w
}

// refreshIndex notifies the index of all usages.
func (w *world) refreshIndex() {
	for _, key := range w.Keys() {
		if key.Kind == usageKind.Kind {
			w.Notify(usageKind, key.Namespace, key.Name)
		}
	}
}

// reconcile is one reconcile of the usage, and returns what it wrote.
func (w *world) reconcile(t *testing.T) (reconcile.Result, []string) {
	t.Helper()
	w.Writes()
	out := w.r.Reconcile(context.Background(), usageKey)
	if !out.IsFinal() {
		t.Error("the reconcile ended without an outcome")
	}
	return out, w.Writes()
}

// ready is the usage's condition as "Status Reason: message".
func (w *world) ready() string {
	o := w.Object(usageKey)
	if o == nil {
		return "gone"
	}
	c, _ := condition.Read(o).Get("Ready")
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}
