package fakekube_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func connect(t *testing.T, c *fakekube.Cluster) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestAWatchFollowsAList lists one object, changes it in each way, and compares the events.
func TestAWatchFollowsAList(t *testing.T) {
	c := fakekube.New(config, "{apiVersion: v1, kind: Secret, metadata: {name: other, namespace: prod}}")
	client := connect(t, c).Resource(configMaps).Namespace("prod")
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%v: %v", list, err)
	}
	events, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	c.Add(fakekube.Parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: prod}}"))
	c.Add(fakekube.Parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: dev}}"))
	c.Change(key, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"a": "b"}) })
	if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 3 {
		e := <-events.ResultChan()
		got = append(got, string(e.Type)+" "+e.Object.(*unstructured.Unstructured).GetName())
	}
	if diff := cmp.Diff([]string{"ADDED b", "MODIFIED a", "DELETED a"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestADryRunStoresNothing(t *testing.T) {
	c := fakekube.New(config)
	client, dryRun := connect(t, c).Resource(configMaps).Namespace("prod"), []string{metav1.DryRunAll}
	changed, added := c.Object(key), fakekube.Parse("{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: prod}}")
	changed.SetLabels(map[string]string{"a": "b"})
	before := c.Object(key)
	_, createErr := client.Create(t.Context(), added, metav1.CreateOptions{DryRun: dryRun})
	_, applyErr := client.Apply(t.Context(), "b", added, metav1.ApplyOptions{DryRun: dryRun, FieldManager: "test"})
	_, updateErr := client.Update(t.Context(), changed, metav1.UpdateOptions{DryRun: dryRun})
	_, patchErr := client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"x":"z"}}`), metav1.PatchOptions{DryRun: dryRun})
	deleteErr := client.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: dryRun})
	if err := errors.Join(createErr, applyErr, updateErr, patchErr, deleteErr); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, c.Object(key)); diff != "" || len(c.Keys()) != 1 {
		t.Errorf("%v (-before +after):\n%s", c.Keys(), diff)
	}
}

func TestAKindIsServedOnceItsDefinitionIsStored(t *testing.T) {
	c := fakekube.New()
	client, things := connect(t, c), schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "things"}
	if _, err := client.Resource(things).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("before: %v", err)
	}
	c.Add(fakekube.Parse("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.org}, spec: {group: example.org, names: {kind: Thing, plural: things}}}"))
	if list, err := client.Resource(things).List(t.Context(), metav1.ListOptions{}); err != nil || list.GetKind() != "ThingList" {
		t.Errorf("after: %v, %v", list, err)
	}
}
