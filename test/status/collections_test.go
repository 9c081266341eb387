package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// awaitItems waits until the collection's objects are those of the given names, in
// their order, with the labels that say so, and returns their UIDs.
func awaitItems(t *testing.T, s suite.Suite, node string, names ...string) map[string]types.UID {
	t.Helper()
	uids := map[string]types.UID{}
	of := metav1.ListOptions{LabelSelector: "kro.run/node-id=" + node}
	err := testkit.AwaitList(t.Context(), s.Resource(t, suite.ConfigMap, s.NS), of, func(objects map[string]*unstructured.Unstructured) error {
		if len(objects) != len(names) {
			return fmt.Errorf("%d items, not %d", len(objects), len(names))
		}
		found := slices.Collect(maps.Values(objects))
		slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
		for _, o := range found {
			labels := o.GetLabels()
			place := slices.Index(names, o.GetName())
			if labels["kro.run/collection-index"] != fmt.Sprint(place) || labels["kro.run/collection-size"] != fmt.Sprint(len(names)) {
				return fmt.Errorf("%s is item %s of %s", o.GetName(), labels["kro.run/collection-index"], labels["kro.run/collection-size"])
			}
			uids[o.GetName()] = o.GetUID()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return uids
}

const pool = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-pool}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Pool
    group: $GROUP
    spec: {zones: "[]string", tiers: "[]string", copies: boolean | default=true, except: string | default="none"}
    status:
      total: ${size(workers)}
      names: ${workers.map(w, w.metadata.name)}
      tiers: "${workers.transformMapEntry(i, w, {w.metadata.name: w.data.tier})}"
  resources:
    - id: workers
      forEach:
        - zone: ${schema.spec.zones}
        - tier: ${schema.spec.tiers}
      readyWhen: ["${each.data.?ready.orValue('yes') == 'yes'}"]
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${schema.metadata.name}-${zone}-${tier}"}
        data: {zone: "${zone}", tier: "${tier}"}
    - id: copies
      forEach: [{worker: "${workers}"}]
      includeWhen: ["${schema.spec.copies}", "${worker.data.zone != schema.spec.except}"]
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${worker.metadata.name}-copy"}
        data: {of: "${worker.metadata.uid}"}
    - id: all
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "${schema.metadata.name}-all"}
        data: {workers: "${workers.map(w, w.metadata.name).join(' ')}"}
`

func applyPool(t *testing.T, s suite.Suite, spec string) {
	t.Helper()
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Pool\nmetadata: {name: p, namespace: $NS}\nspec: "+spec+"\n")
}

func TestACollectionGrowsAndShrinks(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, pool)
	applyPool(t, s, "{zones: [a, b], tiers: [web, api]}")
	first := awaitItems(t, s, "workers", "p-a-web", "p-a-api", "p-b-web", "p-b-api")
	awaitItems(t, s, "copies", "p-a-web-copy", "p-a-api-copy", "p-b-web-copy", "p-b-api-copy")
	s.Await(t, s.Kind("Pool"), s.NS, "p", suite.All(testkit.IsReady,
		suite.HasField(4, "status", "total"), suite.HasField("[p-a-web p-a-api p-b-web p-b-api]", "status", "names"), suite.HasField("web", "status", "tiers", "p-b-web")))

	// What moves keeps its object.
	applyPool(t, s, "{zones: [c, b], tiers: [api, web], except: c}")
	second := awaitItems(t, s, "workers", "p-c-api", "p-c-web", "p-b-api", "p-b-web")
	for _, name := range []string{"p-b-api", "p-b-web"} {
		if first[name] != second[name] {
			t.Errorf("%s was recreated", name)
		}
	}
	awaitItems(t, s, "copies", "p-b-api-copy", "p-b-web-copy")
	s.Await(t, suite.ConfigMap, s.NS, "p-all", suite.HasField("p-c-api p-c-web p-b-api p-b-web", "data", "workers"))

	applyPool(t, s, "{zones: [c], tiers: [api, web], copies: false}")
	awaitItems(t, s, "workers", "p-c-api", "p-c-web")
	awaitItems(t, s, "copies")
	applyPool(t, s, "{zones: [], tiers: [api]}")
	awaitItems(t, s, "workers")
	s.Await(t, s.Kind("Pool"), s.NS, "p", suite.All(testkit.IsReady, suite.HasField(0, "status", "total"), suite.HasField("[]", "status", "names")))
	s.Await(t, suite.ConfigMap, s.NS, "p-all", suite.HasField("", "data", "workers"))
}

func TestAnItemThatIsDeletedByHandComesBack(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, pool)
	applyPool(t, s, "{zones: [a], tiers: [u, v, w]}")
	before := awaitItems(t, s, "workers", "p-a-u", "p-a-v", "p-a-w")
	s.AwaitReady(t, s.Kind("Pool"), s.NS, "p")
	s.Delete(t, suite.ConfigMap, s.NS, "p-a-v")
	s.Await(t, suite.ConfigMap, s.NS, "p-a-v", func(o *unstructured.Unstructured) error {
		if o == nil || o.GetUID() == before["p-a-v"] {
			return errors.New("is not there anew")
		}
		return nil
	})
	s.Await(t, suite.ConfigMap, s.NS, "p-a-v-copy", func(o *unstructured.Unstructured) error {
		now := s.Get(t, suite.ConfigMap, s.NS, "p-a-v")
		if now == nil {
			return errors.New("there is nothing to copy")
		}
		return suite.HasField(now.GetUID(), "data", "of")(o)
	})
}

func TestAnUnreadyItemDelaysReadersOfTheCollection(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, strings.Replace(pool, "data.?ready.orValue('yes')", "metadata.?annotations[?'ready'].orValue('yes')", 1))
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p-b-web, namespace: $NS}\n")
	applyPool(t, s, "{zones: [a, b], tiers: [web]}")
	s.Await(t, s.Kind("Pool"), s.NS, "p", suite.All(
		suite.HasCondition("ResourcesReady", "False", "NotOwned", "workers[p-b-web]: ConfigMap "+s.NS+"/p-b-web already exists", "all waits for workers (1 of 2 items are ready)"),
		suite.HasField(1, "status", "total")))
	s.Delete(t, suite.ConfigMap, s.NS, "p-b-web")
	awaitItems(t, s, "workers", "p-a-web", "p-b-web")
	s.AwaitReady(t, s.Kind("Pool"), s.NS, "p")
	for _, ready := range []string{"no", "yes"} {
		patch := fmt.Sprintf(`{"metadata": {"annotations": {"ready": %q}}}`, ready)
		s.Patch(t, suite.ConfigMap, s.NS, "p-a-web", patch)
		status, reason := "False", "NotReady"
		if ready == "yes" {
			status, reason = "True", ""
		}
		s.Await(t, s.Kind("Pool"), s.NS, "p", suite.HasCondition("ResourcesReady", status, reason))
	}
}

func TestACollectionBeyondItsLimitsReportsItAndIsDeleted(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, pool)
	applyPool(t, s, "{zones: [a], tiers: [u, v]}")
	awaitItems(t, s, "copies", "p-a-u-copy", "p-a-v-copy")
	s.AwaitReady(t, s.Kind("Pool"), s.NS, "p")
	many := func(n int) string {
		texts := make([]string, n)
		for i := range texts {
			texts[i] = fmt.Sprint("n", i)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	}
	applyPool(t, s, "{zones: "+many(40)+", tiers: "+many(30)+"}")
	pool := s.Await(t, s.Kind("Pool"), s.NS, "p", suite.All(suite.HasField("ERROR", "status", "state"),
		suite.HasCondition("ResourcesReady", "False", "TooManyItems", "workers: forEach gives more than 1000 items (MaxItems): zone has 40, tier has 30"),
		suite.HasCondition("GraphResolved", "False", "ResolutionFailed")))
	s.AwaitEventOn(t, pool, "ResolutionFailed", "workers: forEach gives more than 1000 items")
	awaitItems(t, s, "workers", "p-a-u", "p-a-v") // as they were
	applyPool(t, s, "{zones: [a, b, a], tiers: [u]}")
	s.Await(t, s.Kind("Pool"), s.NS, "p",
		suite.HasCondition("ResourcesReady", "False", "DuplicateItems", "workers: items 0 and 2 are both ConfigMap "+s.NS+"/p-a-u"))
	s.Delete(t, s.Kind("Pool"), s.NS, "p")
	s.AwaitGone(t, s.Kind("Pool"), s.NS, "p")
	awaitItems(t, s, "workers")
	awaitItems(t, s, "copies")
}

// TestACollectionIsDeletedInWaves blocks the deletion of the items of the upper layer: those
// below stay until the last of them is gone.
func TestACollectionIsDeletedInWaves(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, pool)
	applyPool(t, s, "{zones: [a], tiers: [u, v]}")
	awaitItems(t, s, "copies", "p-a-u-copy", "p-a-v-copy")
	s.AwaitReady(t, s.Kind("Pool"), s.NS, "p")
	guard := func(finalizers string) {
		patch := `{"metadata": {"finalizers": ` + finalizers + `}}`
		if _, err := s.Resource(t, suite.ConfigMap, s.NS).Patch(context.Background(), "p-a-v-copy", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	guard(`["example.com/guard"]`)
	s.Delete(t, s.Kind("Pool"), s.NS, "p")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "p-a-u-copy")
	s.Await(t, s.Kind("Pool"), s.NS, "p", func(o *unstructured.Unstructured) error {
		blockers, _, _ := unstructured.NestedSlice(o.Object, "status", "deletion", "blockers")
		if len(blockers) != 1 || blockers[0].(map[string]any)["node"] != "copies" {
			return fmt.Errorf("it tells of %v", blockers)
		}
		return nil
	})
	awaitItems(t, s, "workers", "p-a-u", "p-a-v")
	guard(`[]`)
	s.AwaitGone(t, s.Kind("Pool"), s.NS, "p")
	awaitItems(t, s, "workers")
}
