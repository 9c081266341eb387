package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

var (
	now           = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	claimKind     = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	webKind       = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Web"}
	shop          = object.Key{Group: "example.org", Kind: "Web", Namespace: "prod", Name: "shop"}
	definition    = object.Definition{Name: "webs.example.org", UID: "d", Dialect: object.GraphDialect}
)

// fixture is the reconciler of Webs, with the Web prod/shop.
type fixture struct {
	*fake
	*Reconciler
	t     *testing.T
	nodes *nodes
	now   time.Time
}

func newFixture(t *testing.T, wanted ...plan.Node) *fixture {
	f := &fixture{t: t, fake: &fake{objects: map[object.Key]*unstructured.Unstructured{}, fail: map[string]error{}, why: kube.ReasonDeniedByWebhook}, nodes: &nodes{wanted: wanted}, now: now}
	f.Reconciler = &Reconciler{
		Kind: webKind, Definition: definition, Dialect: Graphs{}, Version: "v1", Keys: signing.Keys(),
		Cluster: fakeCluster{f.fake}, Children: fakeCache{f.fake}, Instances: fakeCache{f.fake}, Kinds: fakeKinds{f.fake},
		Lease:  func(watch.Subscriber) Lease { return fakeCache{f.fake} },
		Events: f.fake, Usages: fakeUsages{f.fake}, Now: func() time.Time { return f.now },
		EnqueueDefinition: func() { f.calls = append(f.calls, "wake the definition") },
	}
	f.SetComposer(f.nodes)
	web := named(webKind, "prod", "shop")
	web.SetUID("i")
	web.SetGeneration(1)
	f.put(web)
	return f
}

// newReconciled is a fixture whose Web has been reconciled until nothing changes.
func newReconciled(t *testing.T, wanted ...plan.Node) *fixture {
	t.Helper()
	f := newFixture(t, wanted...)
	f.reconcile()
	f.reconcile()
	f.wantCalls()
	return f
}

// reconcile runs one reconcile; calls and events are those of this one.
func (f *fixture) reconcile() reconcile.Result {
	f.calls, f.events = nil, nil
	return f.Reconcile(context.Background(), shop)
}

// delete has the Web be deleted by a user, and after a first reconcile.
func (f *fixture) delete() {
	f.change(shop, func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&metav1.Time{Time: f.now}) })
}

// change makes another manager change an object.
func (f *fixture) change(key object.Key, change func(*unstructured.Unstructured)) {
	o := f.objects[key].DeepCopy()
	change(o)
	f.put(o)
}

// syncing has the cache of a kind not have caught up since now.
func (f *fixture) syncing(kind string) {
	f.unsynced = map[string]watch.State{kind: {Phase: watch.Syncing, Since: f.now}}
}

func (f *fixture) pass(d time.Duration) { f.now = f.now.Add(d) }

func (f *fixture) shop() *unstructured.Unstructured { return f.objects[shop] }

func (f *fixture) wantCalls(want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.calls); diff != "" {
		f.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func (f *fixture) wantEvent(want string) {
	f.t.Helper()
	if !slices.ContainsFunc(f.events, func(e string) bool { return strings.Contains(e, want) }) {
		f.t.Errorf("no event %q among %q", want, f.events)
	}
}

func (f *fixture) wantCondition(kind, want string) {
	f.t.Helper()
	c, _ := condition.Read(f.shop()).Get(kind)
	if got := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message); !strings.Contains(got, want) {
		f.t.Errorf("condition %s: got %q, want %q", kind, got, want)
	}
}

// blockers are what the status says to hold up the deletion.
func (f *fixture) blockers() []string {
	var out []string
	if d := report.ReadDeletion(f.shop()); d != nil {
		for _, b := range d.Blockers {
			out = append(out, fmt.Sprintf("%s %s: %s", b.Object.Name, b.Reason, b.Message))
		}
	}
	return out
}

// nodes is a Composer with a configurable answer.
type nodes struct {
	wanted []plan.Node
	// adjust changes what is desired.
	adjust   func(*plan.Desired, plan.Facts)
	err      error
	untyped  map[string]bool
	written  []schema.GroupVersionKind
	defaults inventory.Defaults
	unready  map[string]bool
}

func (n *nodes) Compose(_ context.Context, facts plan.Facts) (plan.Desired, error) {
	desired := plan.Desired{Status: map[string]any{}}
	ready := map[string]bool{}
	for _, node := range n.wanted {
		if node.Object != nil {
			node.Observed = facts.Object(node.ID, node.Kind, node.Object.GetNamespace(), node.Object.GetName())
		}
		node.Ready = node.Observed != nil && !n.unready[node.ID]
		if n.unready[node.ID] {
			node.Unready = plan.Problem{Reason: plan.NotReady, Message: "it is starting"}
		}
		ready[node.ID] = node.Ready
		for _, below := range node.DependsOn {
			if !ready[below] {
				node.Waits = append(node.Waits, plan.Wait{Node: node.ID, Reason: plan.WaitingForReadiness, On: below})
			}
		}
		desired.Nodes = append(desired.Nodes, node)
	}
	if n.adjust != nil {
		n.adjust(&desired, facts)
	}
	return desired, n.err
}

func (n *nodes) ChildKinds() []schema.GroupVersionKind {
	if n.written != nil {
		return n.written
	}
	var out []schema.GroupVersionKind
	for _, node := range n.wanted {
		if !slices.Contains(out, node.Kind) {
			out = append(out, node.Kind)
		}
	}
	return out
}
func (n *nodes) Depth() int                                      { return len(n.wanted) + 1 }
func (n *nodes) StatusFields() report.FieldSet                   { return wholeRoom }
func (n *nodes) Defaults() inventory.Defaults                    { return n.defaults }
func (n *nodes) SchemaUnknown(kind schema.GroupVersionKind) bool { return n.untyped[kind.Kind] }

// wholeRoom has room for all that the engine says.
var wholeRoom = func() report.FieldSet {
	room := report.AllFields
	room.Skipped = true
	return room
}()

// conflicting is a client of an API server that answers each write with a conflict, and each
// read with the object. What it makes of that is the error of the package kube.
func conflicting(live *unstructured.Unstructured) *kube.Client {
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		code, body := http.StatusOK, any(live.Object)
		if r.Method != http.MethodGet {
			code, body = http.StatusConflict, apierrors.NewConflict(schema.GroupResource{}, live.GetName(), fmt.Errorf("no")).ErrStatus
		}
		raw, err := json.Marshal(body)
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)), Request: r}, err
	})
	client, err := dynamic.NewForConfigAndClient(&rest.Config{Host: "http://nowhere"}, &http.Client{Transport: transport})
	if err != nil {
		panic(err)
	}
	return kube.NewClient(client, fakeKinds{&fake{}})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// taken is the error of a creation whose name another object has.
func taken(live *unstructured.Unstructured) error {
	_, err := conflicting(live).Create(context.Background(), named(live.GroupVersionKind(), live.GetNamespace(), live.GetName()), "m")
	return err
}

// refusedByWebhook is the error of an update that a webhook answers with a conflict.
func refusedByWebhook(live *unstructured.Unstructured) error {
	_, err := conflicting(live).Update(context.Background(), live, live.GetUID(), "m")
	return err
}
