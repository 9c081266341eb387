package recorded

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
)

func object(apiVersion, kind, namespace, name string, labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(labels)
	return o
}

func open(t *testing.T) (dynamic.Interface, *discovery.DiscoveryClient) {
	t.Helper()
	definition := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.org", nil)
	definition.Object["spec"] = map[string]any{
		"group": "example.org", "scope": "Namespaced", "names": map[string]any{"kind": "Widget", "plural": "widgets", "shortNames": []any{"wi"}},
		"versions": []any{map[string]any{"name": "v1beta1", "served": true}, map[string]any{"name": "v1", "served": true}, map[string]any{"name": "v2", "served": false}},
	}
	config := Open([]*unstructured.Unstructured{
		definition, object("example.org/v1", "Widget", "prod", "a", map[string]string{"x": "y"}), object("example.org/v1", "Widget", "dev", "b", nil),
		object("v1", "Namespace", "", "prod", nil), object("unknown.org/v1", "Gadget", "prod", "g", nil),
	})
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
	client, _ := open(t)
	widgets := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}
	for name, tc := range map[string]struct {
		namespace string
		options   metav1.ListOptions
		want      string
	}{
		"all":          {"", metav1.ListOptions{}, "b,a"},
		"a namespace":  {"prod", metav1.ListOptions{}, "a"},
		"by labels":    {"", metav1.ListOptions{LabelSelector: "x=y"}, "a"},
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
	watch, err := client.Resource(widgets).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
}

func TestKindsAreDiscovered(t *testing.T) {
	_, found := open(t)
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
