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

// TestAnIdentityIsKeptAsLongAsABindingKeepsIt takes a managed resource away by force,
// and then, as its Binding asks people to, the Binding: nothing keeps the identity of
// the external resource after that, and another can take it on.
func TestAnIdentityIsKeptAsLongAsABindingKeepsIt(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	l := life{world: testkit.NewCluster(t, config), config: config, sky: newCloud(cloud.Behaviour{Naming: cloud.ProviderAssigned, TokenTTL: time.Hour}), policies: sets[0]}
	defer run(t, config, l.sky)()
	ns := testkit.Namespace(t, config)
	name := "b-" + ns
	l.applyBucket(t, ns, name, false)
	o := l.world.Await(t, bucket, ns, name, isBound)
	id := o.GetAnnotations()["crossplane.io/external-name"]
	own, reservation := l.kept(t, ns)
	if shown := l.column(t, "RESERVATION"); shown[own] == "true" || shown[reservation] != "true" {
		t.Errorf("kubectl cannot tell the Binding %s from the reservation %s: %v", own, reservation, shown)
	}
	l.annotate(t, ns, name, "crossplane.io/paused", "true") // so that it is not taken away in the usual way
	l.world.Await(t, bucket, ns, name, syncedReason("ReconcilePaused"))
	l.world.Delete(t, bucket, ns, name)
	l.world.Patch(t, bucket, ns, name, `{"metadata":{"finalizers":null}}`)
	l.world.AwaitGone(t, bucket, ns, name)
	l.world.Await(t, binding, "", own, func(b *unstructured.Unstructured) error {
		if phase, _, _ := unstructured.NestedString(b.Object, "spec", "phase"); phase != string(espalier.BindingOrphaned) {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})

	t.Log("another is refused what the Binding keeps")
	heir := "heir-" + ns
	l.world.Apply(t, fmt.Sprintf("apiVersion: sandbox.espalier.dev/v1alpha1\nkind: Bucket\nmetadata: {name: %s, namespace: %s, annotations: {crossplane.io/external-name: %s, espalier.dev/adopt: IfUnmarked}}\nspec: {forProvider: {}}\n", heir, ns, id))
	refused := func(o *unstructured.Unstructured) error {
		if err := syncedReason("Conflict")(o); err == nil {
			return nil // by its mark
		}
		return syncedReason("NameReserved")(o)
	}
	l.world.Await(t, bucket, ns, heir, refused)

	t.Log("nobody keeps it any more")
	l.world.Delete(t, binding, "", own)
	l.world.AwaitGone(t, binding, "", reservation)
	l.world.Delete(t, bucket, ns, heir)
	l.world.AwaitGone(t, bucket, ns, heir)
}

// column is a column of what 'kubectl get bindings' shows, by name.
func (l life) column(t *testing.T, title string) map[string]string {
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

// kept are the Binding of a namespace's only bucket, and the one that keeps its
// identity.
func (l life) kept(t *testing.T, ns string) (own, reservation string) {
	t.Helper()
	list, err := l.world.Resource(t, binding, "").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		b := &list.Items[i]
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
		t.Fatal(errors.New("the bucket has no two Bindings"))
	}
	return own, reservation
}
