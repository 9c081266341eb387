package offline

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// record has versions of a kind, an object of a kind without a CustomResourceDefinition, and two states of an object.
var record = []string{
	`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets, shortNames: [wi]}
  versions: [{name: v1beta1, served: true}, {name: v1, served: true}, {name: v2, served: false}]`,
	"{apiVersion: example.org/v1, kind: Widget, metadata: {name: a, namespace: prod, resourceVersion: '6'}}",
	"{apiVersion: example.org/v1, kind: Widget, metadata: {name: a, namespace: prod, resourceVersion: '7', uid: u, labels: {x: z}}, spec: {unknown: 1}, status: {ready: true}}",
	"{apiVersion: example.org/v1, kind: Widget, metadata: {name: b, namespace: dev}}",
	"{apiVersion: v1, kind: Namespace, metadata: {name: prod}}",
	"{apiVersion: unknown.org/v1, kind: Gadget, metadata: {name: g, namespace: prod}}",
	"{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: e, namespace: prod}, reason: Failed}",
	"{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: f, namespace: prod}, reason: Other}",
}

func openRecord(t *testing.T) (dynamic.Interface, *discovery.DiscoveryClient) {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, text := range record {
		objects = append(objects, parse(t, text))
	}
	config := Open(objects)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, found
}

func TestARecordIsReadAsACluster(t *testing.T) {
	client, _ := openRecord(t)
	widgets := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}
	for name, tc := range map[string]struct {
		namespace string
		options   metav1.ListOptions
		want      string
	}{
		"all":          {"", metav1.ListOptions{}, "b,a"},
		"a namespace":  {"prod", metav1.ListOptions{}, "a"},
		"by labels":    {"", metav1.ListOptions{LabelSelector: "x=z"}, "a"},
		"by name":      {"", metav1.ListOptions{FieldSelector: "metadata.name=b"}, "b"},
		"none of them": {"test", metav1.ListOptions{}, ""},
	} {
		list, err := client.Resource(widgets).Namespace(tc.namespace).List(t.Context(), tc.options)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, o := range list.Items {
			names = append(names, o.GetName())
		}
		if got := strings.Join(names, ","); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
	failed, err := client.Resource(schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Failed"})
	if err != nil || len(failed.Items) != 1 || failed.Items[0].GetName() != "e" {
		t.Errorf("events by their reason: %v, %v", failed, err)
	}
	if o, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(t.Context(), "prod", metav1.GetOptions{}); err != nil || o.GetName() != "prod" {
		t.Errorf("a namespace: %v", err)
	}
	if _, err := client.Resource(widgets).Namespace("prod").Get(t.Context(), "b", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an object that does not exist: %v", err)
	}
	if err := client.Resource(widgets).Namespace("prod").Delete(t.Context(), "a", metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "cannot be changed") {
		t.Errorf("a write: %v", err)
	}
	for _, options := range []metav1.ListOptions{{LabelSelector: "=="}, {FieldSelector: "a"}} {
		if _, err := client.Resource(widgets).List(t.Context(), options); !apierrors.IsBadRequest(err) {
			t.Errorf("a malformed selector: %v", err)
		}
	}
	if _, err := client.Resource(schema.GroupVersionResource{Group: "none.org", Version: "v1", Resource: "nones"}).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an unknown kind: %v", err)
	}
}

func TestARecordIsReadAsItIs(t *testing.T) {
	client, _ := openRecord(t)
	for version, want := range map[string]string{
		"v1":      record[2],
		"v1beta1": strings.Replace(record[2], "example.org/v1", "example.org/v1beta1", 1),
	} {
		widgets := schema.GroupVersionResource{Group: "example.org", Version: version, Resource: "widgets"}
		got, err := client.Resource(widgets).Namespace("prod").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(parse(t, want).Object, got.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
}

// TestNothingChangesInARecord has the client of a watch, which begins with a list.
func TestNothingChangesInARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := openRecord(t)
		watched := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		informer := watched.ForResource(schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}).Informer()
		added, changes := 0, 0
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { added++ }, UpdateFunc: func(any, any) { changes++ },
			DeleteFunc: func(any) { changes++ }}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		watched.Start(ctx.Done())
		<-ctx.Done()
		watched.Shutdown()
		if added != 2 || changes != 0 {
			t.Errorf("%d objects are added, %d changed", added, changes)
		}
	})
}

func TestKindsAreDiscovered(t *testing.T) {
	_, found := openRecord(t)
	groups, err := found.ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	preferred := map[string]string{}
	for _, g := range groups.Groups {
		preferred[g.Name] = g.PreferredVersion.Version
	}
	if preferred["example.org"] != "v1" || preferred["apps"] != "v1" || preferred["unknown.org"] != "v1" {
		t.Errorf("groups: %v", preferred)
	}
	list, err := found.ServerResourcesForGroupVersion("example.org/v1")
	if err != nil || len(list.APIResources) != 1 || list.APIResources[0].Name != "widgets" || list.APIResources[0].ShortNames[0] != "wi" || !list.APIResources[0].Namespaced {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := found.ServerResourcesForGroupVersion("example.org/v2"); !apierrors.IsNotFound(err) {
		t.Errorf("a version that is not served: %v", err)
	}
	if list, err = found.ServerResourcesForGroupVersion("unknown.org/v1"); err != nil || list.APIResources[0].Name != "gadgets" {
		t.Errorf("a kind without definition: %+v, %v", list, err)
	}
}
