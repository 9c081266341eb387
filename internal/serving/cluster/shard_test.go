package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// recorded is a reconciler, and the cache of its objects; it records what happens to them.
type recorded struct {
	objects map[object.Key]*unstructured.Unstructured
	did     []string
	err     error
}

func (r *recorded) GetCached(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool) {
	o, cached := r.objects[object.Key{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: name}]
	return o, cached
}

func (r *recorded) Forget(s watch.Subscriber) { r.did = append(r.did, "drop the watches of "+s.Name) }

func (r *recorded) Disown(key object.Key) { r.did = append(r.did, "disown "+key.Name) }

func (r *recorded) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	r.did = append(r.did, fmt.Sprintf("reconcile %s, write: %t", key.Name, kube.MayWrite(ctx)))
	if r.err != nil {
		return reconcile.Fail(r.err)
	}
	return reconcile.Done()
}

func TestAnInstallationReconcilesItsShard(t *testing.T) {
	for name, tc := range map[string]struct {
		namespaces                  []string
		labels                      string
		namespace                   string
		kind                        schema.GroupVersionKind // Thing by default
		set                         map[string]string       // labels of the object
		owner                       string                  // namespace of a Binding's owner
		gone, byName, follows, bare bool
		want                        string
	}{
		"an object in its namespace":               {namespaces: []string{"a"}, namespace: "a", want: "reconcile x, write: true"},
		"an object in another namespace":           {namespaces: []string{"a"}, namespace: "b", want: "disown x"},
		"an object of which nothing is remembered": {namespaces: []string{"a"}, namespace: "b", bare: true, want: "drop the watches of x"},
		"a cluster-scoped object":                  {namespaces: []string{"a"}, want: "disown x"},
		"a cluster-scoped definition":              {namespaces: []string{"a"}, follows: true, want: "reconcile x, write: false"},
		"a definition in the main installation":    {namespaces: []string{"!a"}, follows: true, want: "reconcile x, write: true"},
		"an object with the label":                 {labels: "shard=a", set: map[string]string{"shard": "a"}, want: "reconcile x, write: true"},
		"an object that lost the label":            {labels: "shard=a", want: "disown x"},
		"a definition without the label":           {labels: "shard=a", follows: true, want: "disown x"},
		"an object that is gone":                   {labels: "shard=a", gone: true, want: "reconcile x, write: true"},
		"an instance of a definition":              {labels: "shard=a", byName: true, want: "reconcile x, write: true"},
		"a Binding of a resource in its namespace": {namespaces: []string{"a"}, kind: bindingKind, owner: "a", want: "reconcile x, write: true"},
		"a Binding of a resource in another":       {namespaces: []string{"a"}, kind: bindingKind, owner: "b", want: "disown x"},
		"a Binding of a cluster-scoped resource":   {namespaces: []string{"!a"}, kind: bindingKind, want: "reconcile x, write: true"},
	} {
		selector, err := shard.Parse(tc.namespaces, tc.labels)
		if err != nil {
			t.Fatal(err)
		}
		kind := tc.kind
		if kind.Kind == "" {
			kind = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"}
		}
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kind)
		o.SetLabels(tc.set)
		if tc.owner != "" {
			o.Object["spec"] = map[string]any{"owner": map[string]any{"namespace": tc.owner}}
		}
		key := object.Key{Group: kind.Group, Kind: kind.Kind, Namespace: tc.namespace, Name: "x"}
		r := &recorded{objects: map[object.Key]*unstructured.Unstructured{key: o}}
		if tc.gone {
			r.objects = nil
		}
		of := shardReconciler{selector: selector, cache: r, kind: kind, next: r, follows: tc.follows, byLabels: !tc.byName}
		if !tc.bare {
			of.disowner = r
		}
		if out := of.Reconcile(t.Context(), key); out != reconcile.Done() {
			t.Errorf("%s: %+v", name, out)
		}
		if diff := cmp.Diff([]string{tc.want}, r.did); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAFollowerEndsAtItsFirstWrite(t *testing.T) {
	selector, err := shard.Parse([]string{"a"}, "")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for _, tc := range []struct {
		err  error
		want reconcile.Result
	}{
		{fmt.Errorf("write: %w", kube.ErrReadOnly), reconcile.Done()}, // the writer's event continues it
		{broken, reconcile.Fail(broken)},
	} {
		r := &recorded{err: tc.err}
		of := shardReconciler{selector: selector, cache: r, next: r, follows: true, byLabels: true}
		if out := of.Reconcile(t.Context(), object.Key{Name: "x"}); !errors.Is(out.Err, tc.want.Err) || (out.Err == nil) != (tc.want.Err == nil) {
			t.Errorf("after %v: %+v", tc.err, out)
		}
	}
}
