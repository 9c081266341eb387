package page_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	key "github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

var now = time.Date(2026, 8, 1, 12, 30, 0, 0, time.UTC)

// TestGoldens reads testdata, as that of package observe: objects.yaml, the root first, and now, the time.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		at, err := time.Parse(time.RFC3339, strings.TrimSpace(a.Input["now"]))
		if err != nil {
			t.Fatal(err)
		}
		text := documentText(t, page.Instance(state(t, a.Input["objects.yaml"]), page.Window{Node: strings.TrimSpace(a.Input["node"]), Field: strings.TrimSpace(a.Input["field"])}, at))
		for _, secret := range []string{"hunter2", "aHVudGVyMg"} {
			if strings.Contains(text, secret) {
				t.Errorf("the page has the data of a Secret: %s", secret)
			}
		}
		a.Record("page.yaml", text)
	})
}

func documentText(t *testing.T, d page.Document) string {
	t.Helper()
	values := map[string]any{"head": d.Head}
	var items []any
	for _, item := range d.Items {
		items = append(items, item.Value)
	}
	values["items"] = items
	raw, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// state reads objects, the root first.
func state(t *testing.T, text string) observe.ClusterState {
	t.Helper()
	w := observe.ClusterState{Instances: map[types.UID][]*unstructured.Unstructured{}, Children: map[string][]*unstructured.Unstructured{}, Definitions: map[types.NamespacedName]*unstructured.Unstructured{}}
	for _, doc := range strings.Split(text, "\n---\n") {
		o := object(t, doc)
		switch {
		case w.Root == nil:
			w.Root = o
		case o.GetKind() == "ResourceGraphDefinition":
			w.Definitions[types.NamespacedName{Name: o.GetName()}] = o
		default:
			id := o.GetLabels()["applyset.kubernetes.io/part-of"]
			w.Children[id] = append(w.Children[id], o)
		}
	}
	return w
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return o
}

func TestAnObjectThatIsGone(t *testing.T) {
	raw, err := json.Marshal(page.Instance(observe.ClusterState{}, page.Window{}, now).Head)
	if err != nil || !strings.Contains(string(raw), `"gone":true`) {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestASenderSendsOnlyWhatHasChanged(t *testing.T) {
	var s page.Sender
	next := func(head string, items ...page.Item) string {
		u, changed, err := s.Next(page.Document{Head: head, Items: items})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(changed, " ", string(raw))
	}
	a, b := page.Item{Key: "a", Value: 1}, page.Item{Key: "b", Value: 2}
	got := []string{next("h", a, b), next("h", a, b), next("h", b, a), next("h", b, page.Item{Key: "a", Value: 3}), next("i", b), next("i")}
	want := []string{
		`true {"head":"h","order":["a","b"],"items":{"a":1,"b":2}}`,
		`false {}`,
		`true {"order":["b","a"]}`,
		`true {"items":{"a":3}}`,
		`true {"head":"i","order":["b"]}`,
		`true {"order":[]}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func instance(i int, ready, reason string) *unstructured.Unstructured {
	name := fmt.Sprintf("shop-%05d", i)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Shop",
		"metadata": map[string]any{"name": name, "namespace": "prod", "uid": name, "resourceVersion": ready, "generation": int64(1), "labels": map[string]any{"applyset.kubernetes.io/id": name}},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": reason, "observedGeneration": int64(1)}}},
	}}
}

func TestAListHasTheUnreadyFirst(t *testing.T) {
	var all []*unstructured.Unstructured
	for i := range 10_000 {
		all = append(all, instance(i, "True", "Ready"))
	}
	all[9000], all[42], all[7] = instance(9000, "False", "Rejected"), instance(42, "False", "NotReady"), instance(7, "Unknown", "Creating")
	var l page.List
	l.Set(nil, all, now)
	cases := map[string]struct {
		window page.Window
		want   []string
		head   string
	}{
		"the first window":              {page.Window{Limit: 5}, []string{"09000", "00007", "00042", "00000", "00001"}, `"matching":10000,"offset":0,"limit":5`},
		"a filter":                      {page.Window{Limit: 3, Filter: " SHOP-0900"}, []string{"09000", "09001", "09002"}, `"matching":10,"offset":0`},
		"a filter by the reason":        {page.Window{Limit: 3, Filter: "rejected"}, []string{"09000"}, `"matching":1,"offset":0`},
		"only the unready":              {page.Window{Limit: 5, Unready: true}, []string{"09000", "00007", "00042"}, `"matching":3`},
		"a window behind the end":       {page.Window{Limit: 3, Offset: 20_000}, []string{"09999"}, `"offset":9999`},
		"a window before the beginning": {page.Window{Limit: 1, Offset: -7}, []string{"09000"}, `"offset":0`},
		"nothing matches":               {page.Window{Limit: 1, Filter: "nowhere"}, nil, `"matching":0,"offset":0`},
		"no limit":                      {page.Window{}, []string{"09000"}, `"limit":1`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := l.Document(c.window)
			var got []string
			for _, item := range d.Items {
				got = append(got, strings.TrimPrefix(item.Key, "Shop prod/shop-"))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if head, err := json.Marshal(d.Head); err != nil || !strings.Contains(string(head), c.head) || !strings.Contains(string(head), `"total":10000,"unready":3,"action":1`) {
				t.Errorf("the head is %s, %v", head, err)
			}
		})
	}
	if n := len(l.Document(page.Window{Limit: 100_000}).Items); n != 200 {
		t.Errorf("a window has %d rows", n)
	}
}

// TestAListOfSeveralKinds: definitions come before what is as bad; a managed resource counts if no instance composes it; a package has
// the conditions of its manager.
func TestAListOfSeveralKinds(t *testing.T) {
	broken := object(t, `{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: broken, uid: d, generation: 1}, status: {conditions: [{type: Ready, status: "False", reason: Rejected, observedGeneration: 1}]}}`)
	shop := instance(1, "False", "Rejected")
	set := inventory.ApplySetID(key.Key{Group: "example.com", Kind: "Shop", Namespace: "prod", Name: shop.GetName()})
	bucket := func(name, labels string) *unstructured.Unstructured {
		return object(t, `{apiVersion: example.com/v1, kind: Bucket, metadata: {name: `+name+`, namespace: prod, uid: `+name+`, `+labels+`}, status: {conditions: [{type: Ready, status: "False", reason: Creating}]}}`)
	}
	composed := bucket("composed", `labels: {applyset.kubernetes.io/part-of: `+set+`, kro.run/instance-group: example.com, kro.run/instance-version: v1, kro.run/instance-kind: Shop, kro.run/instance-namespace: prod, kro.run/instance-name: `+shop.GetName()+`}`)
	provider := object(t, `{apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: sql, uid: p}, status: {conditions: [{type: Installed, status: "True"}, {type: Healthy, status: "False", reason: UnhealthyPackageRevision, message: no image}]}}`)
	var l page.List
	l.Set([]page.DefinitionFacts{{Definition: broken}}, []*unstructured.Unstructured{provider, shop, bucket("alone", ""), composed}, now)
	names := func(w page.Window) (out []string) {
		for _, item := range l.Document(w).Items {
			out = append(out, item.Key)
		}
		return out
	}
	if diff := cmp.Diff([]string{"ResourceGraphDefinition broken", "Shop prod/shop-00001", "Bucket prod/alone", "Provider sql"}, names(page.Window{Limit: 9, Unready: true})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Bucket prod/alone", "Bucket prod/composed"}, names(page.Window{Limit: 9, Filter: "bucket.example.com"})); diff != "" {
		t.Error(diff)
	}
	text := documentText(t, l.Document(page.Window{Limit: 9}, "unread"))
	for _, want := range []string{"action: 2\n", "total: 5\n  unready: 4", "- action: 0\n    deleting: 0\n    group: example.com\n    kind: Bucket\n    total: 2\n    unready: 1", "UnhealthyPackageRevision: no image", "problems:\n  - unread"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q: %s", want, text)
		}
	}
}

// TestAGraphOfManyNodesFoldsWhatIsReady: of 30 nested instances with 3 children each, the one that is not ready is drawn with these.
func TestAGraphOfManyNodesFoldsWhatIsReady(t *testing.T) {
	w := observe.ClusterState{Root: instance(0, "False", "NotReady"), Children: map[string][]*unstructured.Unstructured{}}
	child := func(o *unstructured.Unstructured, of, node string) {
		labels := o.GetLabels()
		labels["applyset.kubernetes.io/part-of"], labels["kro.run/node-id"] = of, node
		o.SetLabels(labels)
		w.Children[of] = append(w.Children[of], o)
	}
	for i := range 30 {
		nested := instance(i+1, "True", "Ready")
		if i == 17 {
			nested = instance(i+1, "False", "NotReady")
		}
		child(nested, w.Root.GetName(), fmt.Sprintf("shop%02d", i))
		for j := range 3 {
			leaf := instance(100*(i+1)+j, "True", "Ready")
			leaf.SetKind("Shelf")
			child(leaf, nested.GetName(), fmt.Sprint("shelf", j))
		}
	}
	d := page.Instance(w, page.Window{}, now)
	text := documentText(t, d)
	if n := strings.Count(text, "state: ready, and all 3 below"); n != 29 || len(d.Items) != 1+30+3+1 || !strings.Contains(text, "resources: 121") || !strings.Contains(text, "causeAt: /shop17/") {
		t.Errorf("%d are folded, of %d: %s", n, len(d.Items), text)
	}
}

func TestEventsComeLatestFirst(t *testing.T) {
	event := func(name, fields string) *unstructured.Unstructured {
		return object(t, `{apiVersion: v1, kind: Event, metadata: {name: `+name+`, namespace: prod}, reason: `+name+`, `+fields+`}`)
	}
	text := documentText(t, page.Events([]*unstructured.Unstructured{
		event("Old", `lastTimestamp: "2026-08-01T12:00:00Z", count: 3`), event("New", `eventTime: "2026-08-01T12:20:00.000000Z", reportingComponent: kubelet`),
		event("Series", `eventTime: "2026-08-01T11:00:00.000000Z", series: {count: 7, lastObservedTime: "2026-08-01T12:10:00.000000Z"}`),
	}))
	order := regexp.MustCompile(`(?s)from: kubelet.*reason: New.*count: 7.*reason: Series.*count: 3.*reason: Old`)
	if !order.MatchString(text) {
		t.Errorf("got %s", text)
	}
}

const definition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shop, generation: 1}
spec:
  schema: {apiVersion: v1alpha1, kind: Shop, spec: {size: integer | default=2 minimum=1, tags: "[]string | required=true"}, status: {note: "${a.metadata.name}"}}
  resources: [{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}]
  rollout: {waves: [{percent: 10}, {selector: {matchLabels: {tier: gold}}}]}
status:
  servingRevision: 2
  lastIssuedRevision: 3
  conditions: [{type: Ready, status: "True", reason: Ready, observedGeneration: 1}]
  rollout: {revision: 3, phase: Progressing, wave: 1, waves: 2, total: 9, updated: 3, ready: 2, startedAt: "2026-08-01T12:00:00Z"}
`

func TestADefinitionHasItsRolloutAndRevisions(t *testing.T) {
	var revisions []*rev.GraphRevision
	for i := range int64(3) {
		r := &rev.GraphRevision{}
		r.Name, r.Spec.Revision = fmt.Sprint("shop-", i+1), i+1
		revisions = append(revisions, r)
	}
	text := documentText(t, page.Definition(page.DefinitionFacts{Definition: object(t, definition)}, revisions, "", now))
	want := []string{"instances: 10 %\n    state: current\n  - instances: all of tier=gold\n    state: next", "default: \"2\"\n    limits:\n    - at least 1\n    path: spec.size\n    type: integer",
		"path: spec.tags\n    required: true\n    type: '[]string'", "path: status.note\n    status: true", "phase: Progressing", "updated: 3", "name: shop-3\n  number: 3\n  rolling: true", "name: shop-2\n  number: 2\n  serving: true", "rollback: espalier rollback shop --to 1", "title: a"}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it has no %q:\n%s", w, text)
		}
	}
	if strings.Index(text, "name: shop-3") > strings.Index(text, "name: shop-2") {
		t.Error("the newest revision is not the first")
	}
}

func TestTheOverviewHasTheUnreadyFirst(t *testing.T) {
	ready := object(t, strings.NewReplacer("name: shop", "name: calm", "Progressing", "Complete").Replace(definition))
	worse := object(t, strings.NewReplacer("name: shop", "name: worse", "Progressing", "Complete").Replace(definition))
	d := page.Overview([]page.DefinitionFacts{{Definition: ready}, {Definition: object(t, definition)}, {Definition: worse, Counts: &page.Counts{Total: 2, Unready: 1, Action: 1}}}, []string{"p"}, now)
	var got []string
	for _, item := range d.Items {
		got = append(got, item.Key)
	}
	if diff := cmp.Diff([]string{"ResourceGraphDefinition worse", "ResourceGraphDefinition shop", "ResourceGraphDefinition calm"}, got); diff != "" {
		t.Error(diff)
	}
	if raw, err := json.Marshal(d.Head); err != nil || string(raw) != `{"definitions":3,"unready":2,"problems":["p"]}` {
		t.Errorf("the head is %s, %v", raw, err)
	}
}

func TestWatchesThatDoNotWorkComeFirst(t *testing.T) {
	d := page.Watches([]page.Watch{{Kind: "A", State: "Synced"}, {Kind: "B", Unavailable: true}, {Kind: "A", State: "Synced"}}, []page.Queue{{Kind: "Idle"}, {Kind: "Busy", Depth: 2}, {Kind: "Failing", Retries: 1}}, "")
	text := documentText(t, d)
	if d.Items[0].Value.(page.Watch).Kind != "B" || d.Items[1].Key == d.Items[2].Key {
		t.Errorf("got %s", text)
	}
	if !strings.Contains(text, "idle: 1") || strings.Index(text, "kind: Failing") > strings.Index(text, "kind: Busy") {
		t.Errorf("got %s", text)
	}
}
