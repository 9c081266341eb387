package creation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// TestABindingReservesAnIdentity removes the finalizer of a managed resource, which leaves its Binding
// orphaned: the Binding reserves the identity of the external resource, which no other managed
// resource can adopt, until a user deletes the Binding. Then its reservation is deleted too, and the
// other managed resource adopts the external resource. That has no tags: only the Binding shows its
// owner.
func TestABindingReservesAnIdentity(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	behaviour := cloud.Behaviour{Naming: cloud.ProviderAssigned, TokenTTL: time.Hour, Tags: cloud.TagsNone}
	l := lifecycle{cluster: testkit.NewCluster(t, config), config: config, cloud: newCloud(behaviour), policies: sets[0]}
	defer run(t, config, l.cloud)()
	ns := testkit.Namespace(t, config)
	name := "b-" + ns
	l.applyBucket(t, ns, name, false)
	o := l.cluster.Await(t, bucket, ns, name, isBound)
	id := o.GetAnnotations()["crossplane.io/external-name"]
	own, reservation := l.bindingsOf(t, ns)
	if shown := l.column(t, "RESERVATION"); shown[own] == "true" || shown[reservation] != "true" {
		t.Errorf("the column RESERVATION does not distinguish the Binding %s from the reservation %s: %v", own, reservation, shown)
	}
	l.annotate(t, ns, name, "crossplane.io/paused", "true") // so that the controllers do not delete it
	l.cluster.Await(t, bucket, ns, name, syncedReason("ReconcilePaused"))
	l.cluster.Delete(t, bucket, ns, name)
	l.cluster.Patch(t, bucket, ns, name, `{"metadata":{"finalizers":null}}`)
	l.cluster.AwaitGone(t, bucket, ns, name)
	l.cluster.Await(t, binding, "", own, func(b *unstructured.Unstructured) error {
		if phase, _, _ := unstructured.NestedString(b.Object, "spec", "phase"); phase != string(espalier.BindingOrphaned) {
			return fmt.Errorf("its phase is %s", phase)
		}
		return nil
	})

	t.Log("another managed resource cannot adopt the external resource")
	other := "other-" + ns
	l.cluster.Apply(t, fmt.Sprintf("apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: %s, namespace: %s, annotations: {crossplane.io/external-name: %s}}\nspec: {forProvider: {}}\n", other, ns, id))
	l.cluster.Await(t, bucket, ns, other, syncedReason("NameReserved", "belongs to Bucket "+ns+"/"+name))

	t.Log("once the Binding is deleted, its reservation is deleted, and the other managed resource adopts the external resource")
	l.cluster.Delete(t, binding, "", own)
	o = l.cluster.Await(t, bucket, ns, other, isBound)
	if got := o.GetAnnotations()["crossplane.io/external-name"]; got != id {
		t.Errorf("the external name is %s, want %s", got, id)
	}
	l.cluster.Await(t, binding, "", reservation, func(b *unstructured.Unstructured) error {
		if owner, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "name"); owner != other {
			return fmt.Errorf("it reserves the identity for %s", owner)
		}
		return nil
	})
	l.deleteAndCheck(t, ns, other, 1)
}

// column returns a column of the table that 'kubectl get bindings' shows, by name.
func (l lifecycle) column(t *testing.T, title string) map[string]string {
	t.Helper()
	client, err := rest.HTTPClientFor(l.config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.config.Host+"/apis/espalier.dev/v1alpha1/bindings", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var table metav1.Table
	if err := json.NewDecoder(response.Body).Decode(&table); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		for _, row := range table.Rows {
			if column.Name == title {
				out[fmt.Sprint(row.Cells[0])] = fmt.Sprint(row.Cells[i])
			}
		}
	}
	return out
}

// bindingsOf returns the Binding of a namespace's only bucket, and the one that reserves its identity.
func (l lifecycle) bindingsOf(t *testing.T, ns string) (own, reservation string) {
	t.Helper()
	list := l.cluster.List(t, binding, "", "")
	for i := range list {
		b := &list[i]
		of, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "namespace")
		switch {
		case of != ns:
		case b.GetLabels()["espalier.dev/reservation"] == "true":
			reservation = b.GetName()
		default:
			own = b.GetName()
		}
	}
	if own == "" || reservation == "" {
		t.Fatal(errors.New("the bucket does not have two Bindings"))
	}
	return own, reservation
}
