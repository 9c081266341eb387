package managed

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/sdk/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

func TestFieldsAreFoundInObjectsAndLists(t *testing.T) {
	in := map[string]any{
		"id":     "x",
		"config": map[string]any{"network": map[string]any{"id": "a"}},
		"rules":  []any{map[string]any{"id": "b"}, "text", map[string]any{"peers": []any{map[string]any{}, map[string]any{"id": "c"}}}},
	}
	cases := map[string]struct {
		path string
		want map[string]any
	}{
		"a field":                          {"id", map[string]any{"id": "x"}},
		"a field that is not set":          {"other", map[string]any{"other": nil}},
		"a field of an object":             {"config.network.id", map[string]any{"config.network.id": "a"}},
		"a field that its object lacks":    {"config.id", map[string]any{"config.id": nil}},
		"of an object that is not set":     {"none.id", map[string]any{}},
		"of a value that is not an object": {"id.id", map[string]any{}},
		"fields of the objects of a list":  {"rules[*].id", map[string]any{"rules[0].id": "b", "rules[2].id": nil}},
		"fields in lists of lists":         {"rules[*].peers[*].id", map[string]any{"rules[2].peers[0].id": nil, "rules[2].peers[1].id": "c"}},
		"a list instead of an object":      {"rules.id", map[string]any{}},
		"an object instead of a list":      {"config[*].id", map[string]any{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string]any{}
			for _, f := range findFields(tc.path, in) {
				got[f.String()] = f.value()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReferencesInObjectsAndLists(t *testing.T) {
	ref := map[string]any{"name": "net"}
	always := map[string]any{"name": "net", "policy": map[string]any{"resolve": "Always"}}
	tier := map[string]any{"matchLabels": map[string]any{"tier": "data"}}
	const ok = "True ReconcileSuccess: "
	cases := map[string]struct {
		reason      string
		forProvider map[string]any
		// stored and connected are spec.forProvider on the API server and of the client's object;
		// connected is the same as stored if it is nil.
		stored, connected map[string]any
		synced            string
	}{
		"a field of an object": {
			"is stored", map[string]any{"config": map[string]any{"netRef": ref, "size": "s"}},
			map[string]any{"config": map[string]any{"netRef": ref, "size": "s", "net": "net-7"}}, nil, ok,
		},
		"a list in an object": {
			"is stored", map[string]any{"config": map[string]any{"peersRefs": []any{ref}}},
			map[string]any{"config": map[string]any{"peersRefs": []any{ref}, "peers": []any{"net-7"}}}, nil, ok,
		},
		"a selector beside a field of an object": {
			"is resolved", map[string]any{"config": map[string]any{"peersSelector": tier}},
			map[string]any{"config": map[string]any{"peersSelector": tier, "peers": []any{"net-7", "net-8"}}}, nil, ok,
		},
		"a list at the top": {
			"has references by the suffix Refs", map[string]any{"netsRefs": []any{ref}},
			map[string]any{"netsRefs": []any{ref}, "nets": []any{"net-7"}}, nil, ok,
		},
		"fields in a list": {
			"are given to the client only", map[string]any{"rules": []any{
				map[string]any{"netRef": ref}, map[string]any{"net": "mine", "netRef": ref}, map[string]any{"net": "mine", "netRef": always}, map[string]any{},
			}},
			map[string]any{"rules": []any{
				map[string]any{"netRef": ref}, map[string]any{"net": "mine", "netRef": ref}, map[string]any{"net": "mine", "netRef": always}, map[string]any{},
			}},
			map[string]any{"rules": []any{
				map[string]any{"netRef": ref, "net": "net-7"}, map[string]any{"net": "mine", "netRef": ref}, map[string]any{"net": "net-7", "netRef": always}, map[string]any{},
			}}, ok,
		},
		"fields in a list and outside": {
			"both are resolved", map[string]any{"config": map[string]any{"netRef": ref}, "rules": []any{map[string]any{"netRef": ref}}},
			map[string]any{"config": map[string]any{"netRef": ref, "net": "net-7"}, "rules": []any{map[string]any{"netRef": ref}}},
			map[string]any{"config": map[string]any{"netRef": ref, "net": "net-7"}, "rules": []any{map[string]any{"netRef": ref, "net": "net-7"}}}, ok,
		},
		"a reference in a list to nothing": {
			"the message has the item's index", map[string]any{"rules": []any{map[string]any{}, map[string]any{"netRef": map[string]any{"name": "none"}}}},
			map[string]any{"rules": []any{map[string]any{}, map[string]any{"netRef": map[string]any{"name": "none"}}}}, nil,
			"False ReconcileError: spec.forProvider.rules[1].net: Network prod/none does not exist",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(network, second, database)
			w.r.Port.References = []port.Reference{
				{Field: "config.net", To: networkKind}, {Field: "config.peers", List: true, To: networkKind},
				{Field: "nets", List: true, To: networkKind}, {Field: "rules[*].net", To: networkKind},
			}
			var connected map[string]any
			connect := w.r.Port.Connect
			w.r.Port.Connect = func(ctx context.Context, objects port.Objects, o *unstructured.Unstructured) (port.Session, error) {
				connected, _, _ = unstructured.NestedMap(o.Object, "spec", "forProvider")
				return connect(ctx, objects, o)
			}
			w.Change(databaseKey, set(tc.forProvider, "spec", "forProvider"))
			w.reconcile(t)
			stored, _, _ := unstructured.NestedMap(w.Object(databaseKey).Object, "spec", "forProvider")
			delete(stored, "zone") // late initialization
			if diff := cmp.Diff(tc.stored, stored); diff != "" {
				t.Errorf("%s: stored (-want +got):\n%s", tc.reason, diff)
			}
			if tc.connected == nil && tc.synced == ok {
				tc.connected = tc.stored
			}
			if diff := cmp.Diff(tc.connected, connected); diff != "" {
				t.Errorf("%s: the client's object (-want +got):\n%s", tc.reason, diff)
			}
			if got := w.condition(resource.Synced); got != tc.synced {
				t.Errorf("%s: Synced is %q", tc.reason, got)
			}
		})
	}
}
