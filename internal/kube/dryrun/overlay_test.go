package dryrun_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/dryrun"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

var (
	configMap   = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// twice is an overlay over a server, with a client of each.
type twice struct {
	*testkit.Cluster
	overlay   *dryrun.Overlay
	over      dynamic.Interface
	config    *rest.Config
	namespace string
}

func begin(t *testing.T) twice {
	t.Helper()
	config := testkit.Server(t)
	overlay := dryrun.New()
	over, err := dynamic.NewForConfig(overlay.Wrap(config))
	if err != nil {
		t.Fatal(err)
	}
	return twice{testkit.NewCluster(t, config), overlay, over, config, testkit.Namespace(t, config)}
}

func object(t *testing.T, text, namespace string) *unstructured.Unstructured {
	t.Helper()
	o := testkit.Parse(t, text)[0]
	o.SetNamespace(namespace)
	return o
}

// content is an object without what differs each time it is written.
func content(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetResourceVersion("")
	entries := o.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	o.SetManagedFields(entries)
	return o.Object
}

func must[T any](t *testing.T) func(T, error) T {
	return func(out T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// Writes that follow each other make of an object what they make of it when they are stored.
func TestWritesAreMerged(t *testing.T) {
	t.Parallel()
	w := begin(t)
	const before = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {a: x, b: x}}\n" +
		"spec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n" +
		"    spec: {containers: [{name: one, image: one}, {name: two, image: two}]}\n"
	const after = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {a: x}}\n" +
		"spec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n" +
		"    spec: {containers: [{name: one, image: other}]}\n"
	apply := metav1.ApplyOptions{FieldManager: "former", Force: true}
	stored := must[*unstructured.Unstructured](t)(w.Client.Resource(deployments).Namespace(w.namespace).Apply(t.Context(), "web", object(t, before, w.namespace), apply))

	write := func(client dynamic.Interface) *unstructured.Unstructured {
		of := client.Resource(deployments).Namespace(w.namespace)
		o := must[*unstructured.Unstructured](t)(of.Get(t.Context(), "web", metav1.GetOptions{}))
		entries := o.GetManagedFields()
		for i := range entries {
			if entries[i].Manager == "former" {
				entries[i].Manager = "ours"
			}
		}
		o.SetManagedFields(entries)
		raw, _, _ := unstructured.NestedSlice(o.Object, "metadata", "managedFields")
		text := must[[]byte](t)((&unstructured.Unstructured{Object: map[string]any{"kind": "x", "value": raw}}).MarshalJSON())
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/metadata/resourceVersion","value":%q},{"op":"replace","path":"/metadata/managedFields","value":%s}]`,
			o.GetResourceVersion(), text[len(`{"kind":"x","value":`):len(text)-2])
		must[*unstructured.Unstructured](t)(of.Patch(t.Context(), "web", types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "ours"}))
		must[*unstructured.Unstructured](t)(of.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}}}`), metav1.PatchOptions{FieldManager: "third"}))
		return must[*unstructured.Unstructured](t)(of.Apply(t.Context(), "web", object(t, after, w.namespace), metav1.ApplyOptions{FieldManager: "ours", Force: true}))
	}
	tried := write(w.over)
	if is := w.Get(t, stored.GroupVersionKind(), w.namespace, "web"); is.GetResourceVersion() != stored.GetResourceVersion() {
		t.Error("it has been written")
	}
	real := write(w.Client)
	ignoring := func(o *unstructured.Unstructured) map[string]any {
		out := content(o)
		unstructured.RemoveNestedField(out, "metadata", "generation") // the deployment's status isn't written here, the rest is counted
		return out
	}
	if diff := cmp.Diff(ignoring(real), ignoring(tried)); diff != "" {
		t.Errorf("-stored +tried:\n%s", diff)
	}
	changes := w.overlay.Changes()
	if len(changes) != 1 || changes[0].Before.GetUID() != stored.GetUID() || changes[0].Deletion {
		t.Errorf("the changes are %+v", changes)
	}
}

// Every kind of read shows the planned objects.
func TestReadsShowPlannedObjects(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there, namespace: %s, finalizers: [example.org/f]}\n", w.namespace))
	of, stored := w.over.Resource(configMaps).Namespace(w.namespace), w.Client.Resource(configMaps).Namespace(w.namespace)
	selected := metav1.ListOptions{LabelSelector: "mine"}

	watch := must[apiwatch.Interface](t)(of.Watch(t.Context(), selected))
	defer watch.Stop()
	fresh := object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fresh, labels: {mine: x}}\n", w.namespace)
	made := must[*unstructured.Unstructured](t)(of.Create(t.Context(), fresh, metav1.CreateOptions{}))
	next := func(kind apiwatch.EventType, name string) {
		t.Helper()
		e := <-watch.ResultChan()
		if o, is := e.Object.(*unstructured.Unstructured); !is || e.Type != kind || o.GetName() != name {
			t.Fatalf("got %s of %v, want %s of %s", e.Type, e.Object, kind, name)
		}
	}
	next(apiwatch.Modified, "fresh")
	label := func(value string) *unstructured.Unstructured {
		return must[*unstructured.Unstructured](t)(of.Patch(t.Context(), "there", types.MergePatchType, []byte(`{"metadata":{"labels":{"mine":`+value+`}}}`), metav1.PatchOptions{}))
	}
	label(`"x"`)
	next(apiwatch.Modified, "there")
	if list := must[*unstructured.UnstructuredList](t)(of.List(t.Context(), selected)); len(list.Items) != 2 {
		t.Errorf("the list has %d objects", len(list.Items))
	}
	label("null")
	next(apiwatch.Deleted, "there")

	stale := made.DeepCopy()
	must[*unstructured.Unstructured](t)(of.Patch(t.Context(), "fresh", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{}))
	next(apiwatch.Modified, "fresh")
	if _, err := of.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale update is answered with %v", err)
	}
	if _, err := of.Create(t.Context(), fresh, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second creation is answered with %v", err)
	}
	for _, name := range []string{"fresh", "there"} {
		if err := of.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	next(apiwatch.Deleted, "fresh")
	if _, err := of.Get(t.Context(), "fresh", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what would be gone is answered with %v", err)
	}
	if o := must[*unstructured.Unstructured](t)(of.Get(t.Context(), "there", metav1.GetOptions{})); o.GetDeletionTimestamp() == nil {
		t.Error("what a finalizer keeps would not be deleted")
	}
	changes := w.overlay.Changes()
	if len(changes) != 1 || !changes[0].Deletion || changes[0].After.GetName() != "there" {
		t.Errorf("the changes are %+v", changes)
	}
	if o := must[*unstructured.Unstructured](t)(stored.Get(t.Context(), "there", metav1.GetOptions{})); o.GetDeletionTimestamp() != nil || len(o.GetLabels()) > 0 {
		t.Error("it has been written")
	}
	if w.Get(t, configMap, w.namespace, "fresh") != nil {
		t.Error("it has been created")
	}
	if err := stored.Delete(t.Context(), "there", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	must[*unstructured.Unstructured](t)(stored.Patch(t.Context(), "there", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
}

// TestHistoriesAreThoseOfTheServerUntilThePlan lists objects at exact resource versions, as a search for the beginning of a
// deletion does. Those of planned objects are ones that the server does not know.
func TestHistoriesAreThoseOfTheServerUntilThePlan(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there, namespace: %s}\ndata: {a: stored}\n", w.namespace))
	of := w.over.Resource(configMaps).Namespace(w.namespace)
	must[*unstructured.UnstructuredList](t)(of.List(t.Context(), metav1.ListOptions{}))
	change := func(value string) uint64 {
		o := must[*unstructured.Unstructured](t)(of.Patch(t.Context(), "there", types.MergePatchType, []byte(`{"data":{"a":"`+value+`"}}`), metav1.PatchOptions{}))
		return must[uint64](t)(strconv.ParseUint(o.GetResourceVersion(), 10, 64))
	}
	valueAt := func(revision uint64) string {
		t.Helper()
		list := must[*unstructured.UnstructuredList](t)(of.List(t.Context(), metav1.ListOptions{
			FieldSelector: "metadata.name=there", ResourceVersion: strconv.FormatUint(revision, 10), ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		}))
		if len(list.Items) != 1 {
			t.Fatalf("at %d there are %d objects", revision, len(list.Items))
		}
		value, _, _ := unstructured.NestedString(list.Items[0].Object, "data", "a")
		return value
	}
	planned := change("planned")
	for revision, want := range map[uint64]string{planned: "planned", planned + 5: "planned", planned - 1: "stored", planned - 1000: "stored"} {
		if got := valueAt(revision); got != want {
			t.Errorf("%d after the plan it is %s, want %s", int64(revision-planned), got, want)
		}
	}
	again := change("again")
	if got := valueAt(again - 1); got != "stored" {
		t.Errorf("before its last planned state it is %s", got)
	}
}

// What the server refuses is refused, and what it can't try isn't sent.
func TestRequestsWithoutDryRunAreNotSent(t *testing.T) {
	t.Parallel()
	w := begin(t)
	of := w.over.Resource(configMaps).Namespace(w.namespace)
	if _, err := of.Create(t.Context(), object(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'Not A Name'}\n", w.namespace), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid object is answered with %v", err)
	}
	if err := of.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err == nil {
		t.Error("a collection is deleted")
	}
	typed, err := kubernetes.NewForConfig(w.overlay.Wrap(w.config))
	if err != nil {
		t.Fatal(err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: w.namespace}}
	if err := typed.CoreV1().Pods(w.namespace).EvictV1(t.Context(), eviction); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("an eviction is answered with %v", err)
	}
	if changes := w.overlay.Changes(); len(changes) > 0 {
		t.Errorf("the changes are %+v", changes)
	}
}

// Objects of a kind that would be installed are defaulted and validated as they would be then.
func TestObjectsOfPlannedKindsAreAdmitted(t *testing.T) {
	t.Parallel()
	w := begin(t)
	group := testkit.Group(t)
	things := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}
	definition := testkit.Parse(t, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {
    size: {type: integer, maximum: 9}, color: {type: string, default: red}}}}}}}]
`, group))[0]
	crds := w.over.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	must[*unstructured.Unstructured](t)(crds.Create(t.Context(), definition, metav1.CreateOptions{}))
	of := w.over.Resource(things).Namespace(w.namespace)
	thing := func(size int) *unstructured.Unstructured {
		return object(t, fmt.Sprintf("{apiVersion: %s/v1, kind: Thing, metadata: {name: one}, spec: {size: %d}}", group, size), w.namespace)
	}
	apply := metav1.ApplyOptions{FieldManager: "test", Force: true}
	for _, write := range []struct {
		what string
		do   func(*unstructured.Unstructured) (*unstructured.Unstructured, error)
	}{
		{"a creation", func(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return of.Apply(t.Context(), "one", o, apply)
		}},
		{"an update", func(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return of.Apply(t.Context(), "one", o, apply)
		}},
	} {
		if _, err := write.do(thing(10)); !apierrors.IsInvalid(err) {
			t.Errorf("%s that the schema refuses is answered with %v", write.what, err)
		}
		unknown := thing(2)
		unknown.Object["spec"] = map[string]any{"weight": int64(3)}
		if _, err := write.do(unknown); err == nil || !strings.Contains(err.Error(), ".spec.weight: field not declared in schema") {
			t.Errorf("%s with an unknown field is answered with %v", write.what, err)
		}
		o := must[*unstructured.Unstructured](t)(write.do(thing(2)))
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		if diff := cmp.Diff(map[string]any{"size": int64(2), "color": "red"}, spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", write.what, diff)
		}
		if entries := o.GetManagedFields(); len(entries) != 1 || entries[0].Manager != "test" {
			t.Errorf("%s: the managed fields are %+v", write.what, entries)
		}
	}
}

// unreachable answers nothing.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) { return nil, errUnreachable }

var errUnreachable = errors.New("unreachable")

// TestFailedRequestsHaveNoResponse: net/http logs a response that comes with an error.
func TestFailedRequestsHaveNoResponse(t *testing.T) {
	t.Parallel()
	through := dryrun.New().Wrap(&rest.Config{}).WrapTransport(unreachable{})
	for name, query := range map[string]string{"a list": "", "a watch": "?watch=true"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1/api/v1/configmaps"+query, nil)
		response, err := through.RoundTrip(r)
		if !errors.Is(err, errUnreachable) || response != nil {
			t.Errorf("%s: the error %v, with the response %v", name, err, response)
		}
		if response != nil {
			_ = response.Body.Close()
		}
	}
}
