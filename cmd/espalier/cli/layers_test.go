package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
)

var mapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// layers is a kind whose instances a test makes, and whose controller it plays:
// objects with the labels, finalizers and status that an engine would write.
type layers struct {
	*testkit.Cluster
	kind            schema.GroupVersionKind
	namespace, file string
}

const layersKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: layers.%[1]s}
spec:
  group: %[1]s
  names: {kind: Layer, plural: layers, singular: layer}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func newLayers(t *testing.T) *layers {
	t.Helper()
	config := testkit.Server(t)
	l := &layers{
		Cluster: testkit.NewCluster(t, config), namespace: testkit.Namespace(t, config), file: testkit.Kubeconfig(t, config),
		kind: schema.GroupVersionKind{Group: testkit.Group(t), Version: "v1", Kind: "Layer"},
	}
	l.Apply(t, fmt.Sprintf(layersKind, l.kind.Group))
	of := l.Resource(t, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "")
	t.Cleanup(func() {
		if err := of.Delete(context.Background(), "layers."+l.kind.Group, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	l.Resource(t, l.kind, l.namespace) // once it is served
	return l
}

// call runs a call about a layer.
func (l *layers) call(t *testing.T, verb, name string, more ...string) (code int, stdout, stderr string) {
	t.Helper()
	return call(t.Context(), l.args(verb, name, more...)...)
}

func (l *layers) args(verb, name string, more ...string) []string {
	return append([]string{verb, "layer." + l.kind.Group, name, "-n", l.namespace, "--kubeconfig", l.file}, more...)
}

// make makes an object, in the layer that it is part of, if in one. It has the
// finalizer until the test takes it off, and does so at the end.
func (l *layers) make(t *testing.T, kind schema.GroupVersionKind, name, partOf, finalizer string) {
	t.Helper()
	labels := []string{"kro.run/node-id: the-" + name}
	if kind == l.kind {
		labels = append(labels, "applyset.kubernetes.io/id: "+name+"-"+l.namespace)
	}
	if partOf != "" {
		labels = append(labels, "applyset.kubernetes.io/part-of: "+partOf+"-"+l.namespace)
	}
	l.Apply(t, fmt.Sprintf(`
apiVersion: %s
kind: %s
metadata:
  name: %s
  namespace: %s
  finalizers: [%s]
  labels: {%s}
  annotations: {applyset.kubernetes.io/contains-group-kinds: "ConfigMap,Layer.%s"}
`, kind.GroupVersion(), kind.Kind, name, l.namespace, finalizer, strings.Join(labels, ", "), l.kind.Group))
	of := l.Resource(t, kind, l.namespace)
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), testkit.Timeout)
		defer stop()
		_, err := of.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// layer makes an instance, as its controller keeps it.
func (l *layers) layer(t *testing.T, name, partOf string) {
	t.Helper()
	l.make(t, l.kind, name, partOf, "kro.run/finalizer")
}

// tell writes how far a layer's deletion is, as its controller would.
func (l *layers) tell(t *testing.T, name string, removed, total int64, blockers ...report.Blocker) {
	t.Helper()
	said := report.Status{Deletion: &report.Deletion{
		StartedAt: report.At(time.Now()), Policy: report.Background, Removed: removed, Total: total, Remaining: total - removed,
		Blocked: int64(len(blockers)), Blockers: blockers,
	}}
	l.SetStatus(t, l.kind, l.namespace, name, said.Render(nil, report.AllFields))
}

// blocker is one of a kind's objects that isn't going.
func (l *layers) blocker(kind schema.GroupVersionKind, name string, reason report.Reason, message string) report.Blocker {
	return report.Blocker{Node: "the-" + name, BlockedObject: report.BlockedObject{
		Object: report.Object{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: l.namespace, Name: name},
		Reason: reason, Message: message, Since: report.At(time.Now()),
	}}
}

// awaitDeletion waits until an object is being deleted.
func (l *layers) awaitDeletion(t *testing.T, kind schema.GroupVersionKind, name string) {
	t.Helper()
	l.Await(t, kind, l.namespace, name, func(o *unstructured.Unstructured) error {
		if o == nil || o.GetDeletionTimestamp() == nil {
			return errors.New("is not being deleted")
		}
		return nil
	})
}

// release takes the finalizers off an object.
func (l *layers) release(t *testing.T, kind schema.GroupVersionKind, name string) {
	t.Helper()
	_, err := l.Resource(t, kind, l.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// nest makes three layers, the lowest with an object that is held, all of it
// being deleted. Each layer's status tells of the one below alone.
func (l *layers) nest(t *testing.T) {
	t.Helper()
	l.layer(t, "top", "")
	l.layer(t, "middle", "top")
	l.layer(t, "low", "middle")
	l.make(t, mapKind, "data", "low", "example.com/guard")
	held := l.blocker(mapKind, "data", report.HeldByFinalizer, "held by finalizer example.com/guard, added by ops")
	held.Finalizers = []report.Finalizer{{Name: "example.com/guard", Managers: []string{"ops"}}}
	for _, name := range []string{"top", "middle", "low"} {
		l.Delete(t, l.kind, l.namespace, name)
	}
	l.Delete(t, mapKind, l.namespace, "data")
	l.tell(t, "top", 1, 2, l.blocker(l.kind, "middle", report.ChildBlocked, "waits for low"))
	l.tell(t, "middle", 0, 1, l.blocker(l.kind, "low", report.ChildBlocked, "waits for data"))
	l.tell(t, "low", 0, 1, held)
}
