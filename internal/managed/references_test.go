package managed

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
	"github.com/espalier-dev/espalier/sdk/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// second is another network, of the same labels.
var second = strings.NewReplacer("name: net,", "name: second,", "net-1", "net-2", "net-7", "net-8").Replace(network)

// foreign is a network of another namespace, which allows no references.
var foreign = strings.Replace(network, "namespace: prod", "namespace: infra", 1)

// allowing is a network of another namespace that allows references.
func allowing(namespaces string) string {
	return strings.Replace(foreign, "annotations: {", `annotations: {espalier.dev/allow-references-from: "`+namespaces+`", `, 1)
}

func forProvider(field string, value any) edit { return set(value, "spec", "forProvider", field) }

// controlled gives an object the controller that all such objects have.
func controlled(o *unstructured.Unstructured) {
	yes := true
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "App", Name: "a", UID: "app-1", Controller: &yes}})
}

func TestReferencesAreResolvedBeforeAnyCall(t *testing.T) {
	ref := func(with ...any) map[string]any {
		m := map[string]any{"name": "net"}
		for i := 0; i < len(with); i += 2 {
			m[with[i].(string)] = with[i+1]
		}
		return m
	}
	tier := map[string]any{"matchLabels": map[string]any{"tier": "data"}}
	const ok = "True ReconcileSuccess: "
	const allow = " from namespace prod. Refer to an object of this namespace, or ask a user who can write that object to set its annotation espalier.dev/allow-references-from: prod"
	const refused = "False NotAllowed: spec.forProvider.network: Network infra/net does not exist, or allows no references" + allow
	const notSelected = "False NotAllowed: spec.forProvider.network: no Network in namespace infra that the selector matches allows references" + allow
	cases := map[string]struct {
		reason  string
		objects []string
		given   func(*world)
		network any
		peers   any
		synced  string
	}{
		"by name": {
			"the external name of the other is stored", []string{network},
			func(w *world) { w.Change(databaseKey, forProvider("networkRef", ref())) }, "net-7", nil, ok,
		},
		"by selector": {
			"the first by name is taken", []string{second, network},
			func(w *world) { w.Change(databaseKey, forProvider("networkSelector", tier)) }, "net-7", nil, ok,
		},
		"all by selector": {
			"a list takes all", []string{network, second},
			func(w *world) { w.Change(databaseKey, forProvider("peersSelector", tier)) }, nil, []any{"net-7", "net-8"}, ok,
		},
		"a list of names": {
			"each is resolved", []string{network, second},
			func(w *world) {
				w.Change(databaseKey, forProvider("peerRefs", []any{ref("name", "second"), ref(), map[string]any{}}))
			}, nil, []any{"net-8", "net-7"}, ok,
		},
		"another namespace that allows it": {
			"a reference may say which", []string{allowing("prod")},
			func(w *world) { w.Change(databaseKey, forProvider("networkRef", ref("namespace", "infra"))) }, "net-7", nil, ok,
		},
		"another namespace that allows several": {
			"spaces do not matter", []string{allowing("dev, prod ,test")},
			func(w *world) { w.Change(databaseKey, forProvider("networkRef", ref("namespace", "infra"))) }, "net-7", nil, ok,
		},
		"another namespace that allows all": {
			"a selector selects from it too", []string{allowing("*")},
			func(w *world) {
				w.Change(databaseKey, forProvider("networkSelector", map[string]any{"matchLabels": tier["matchLabels"], "namespace": "infra"}))
			}, "net-7", nil, ok,
		},
		"another namespace that allows none": {
			"whether it exists is not said", []string{foreign},
			func(w *world) { w.Change(databaseKey, forProvider("networkRef", ref("namespace", "infra"))) }, nil, nil, refused,
		},
		"another namespace that allows others": {
			"a part of a name is none", []string{allowing("prod2,pro,prod/x")},
			func(w *world) { w.Change(databaseKey, forProvider("networkRef", ref("namespace", "infra"))) }, nil, nil, refused,
		},
		"another namespace without the object": {
			"the message is the same as for one that allows nothing", nil,
			func(w *world) { w.Change(databaseKey, forProvider("networkRef", ref("namespace", "infra"))) }, nil, nil, refused,
		},
		"another namespace that allows none, which is optional": {
			"it goes without, as if the object did not exist", []string{foreign},
			func(w *world) {
				w.Change(databaseKey, forProvider("networkRef", ref("namespace", "infra", "policy", map[string]any{"resolution": "Optional"})))
			}, nil, nil, ok,
		},
		"another namespace that allows none, with a list": {
			"no item of it is resolved", []string{network, foreign},
			func(w *world) {
				w.Change(databaseKey, forProvider("peerRefs", []any{ref(), ref("namespace", "infra")}))
			}, nil, nil,
			strings.Replace(refused, "network:", "peers:", 1),
		},
		"a selector of another namespace that allows none": {
			"nothing is selected", []string{foreign},
			func(w *world) {
				w.Change(databaseKey, forProvider("networkSelector", map[string]any{"matchLabels": tier["matchLabels"], "namespace": "infra"}))
			}, nil, nil, notSelected,
		},
		"a selector of another namespace that has nothing": {
			"the message is the same", nil,
			func(w *world) {
				w.Change(databaseKey, forProvider("networkSelector", map[string]any{"matchLabels": tier["matchLabels"], "namespace": "infra"}))
			}, nil, nil, notSelected,
		},
		"a selector of another namespace that allows some": {
			"only these are selected", []string{foreign, strings.NewReplacer("namespace: prod", "namespace: infra", "annotations: {", "annotations: {espalier.dev/allow-references-from: prod, ").Replace(second)},
			func(w *world) {
				w.Change(databaseKey, forProvider("networkSelector", map[string]any{"matchLabels": tier["matchLabels"], "namespace": "infra"}))
			}, "net-8", nil, ok,
		},
		"a value is set": {
			"it stays, whatever is referred to", []string{network},
			func(w *world) {
				w.Change(databaseKey, forProvider("networkRef", ref()))
				w.Change(databaseKey, forProvider("network", "mine"))
			}, "mine", nil, ok,
		},
		"a value is to be resolved always": {
			"the policy says so", []string{network},
			func(w *world) {
				w.Change(databaseKey, forProvider("networkRef", ref("policy", map[string]any{"resolve": "Always"})))
				w.Change(databaseKey, forProvider("network", "mine"))
			}, "net-7", nil, ok,
		},
		"a value is set, and the selector matches nothing any longer": {
			"it stays: the siblings of an orphan have no controller", []string{network},
			func(w *world) {
				w.Change(databaseKey, forProvider("networkSelector", map[string]any{"matchControllerRef": true}))
				w.Change(databaseKey, forProvider("network", "mine"))
			}, "mine", nil, ok,
		},
		"a value is set and to be resolved always, and the selector matches nothing any longer": {
			"the policy says so", []string{network},
			func(w *world) {
				w.Change(databaseKey, forProvider("networkSelector", map[string]any{"matchControllerRef": true, "policy": map[string]any{"resolve": "Always"}}))
				w.Change(databaseKey, forProvider("network", "mine"))
			}, "mine", nil,
			`False ReconcileError: spec.forProvider.network: no Network in namespace "prod" has the same controller as this object`,
		},
		"a value is set, and the kind is forbidden": {
			"nothing is read for it", []string{network},
			func(w *world) {
				w.Kinds[networkKind.GroupKind()] = fakekube.Kind{State: forbidden}
				w.Change(databaseKey, forProvider("networkSelector", tier))
				w.Change(databaseKey, forProvider("network", "mine"))
			}, "mine", nil, ok,
		},
		"nothing has the name": {
			"nothing is asked of the external API", nil,
			func(w *world) { w.Change(databaseKey, forProvider("networkRef", ref())) }, nil, nil,
			"False ReconcileError: spec.forProvider.network: Network prod/net does not exist",
		},
		"nothing has the name, which is optional": {
			"it goes without", nil,
			func(w *world) {
				w.Change(databaseKey, forProvider("networkRef", ref("policy", map[string]any{"resolution": "Optional"})))
			}, nil, nil, ok,
		},
		"the other has no identity yet": {
			"its event brings the next reconcile", []string{strings.Replace(network, "crossplane.io/external-name", "x", 1)},
			func(w *world) { w.Change(databaseKey, forProvider("networkRef", ref())) }, nil, nil,
			"False ReconcileError: spec.forProvider.network: Network prod/net has no identity yet",
		},
		"nothing matches": {
			"nothing is asked of the external API", nil,
			func(w *world) { w.Change(databaseKey, forProvider("networkSelector", tier)) }, nil, nil,
			`False ReconcileError: spec.forProvider.network: no Network in namespace "prod" matches the labels tier=data`,
		},
		"those that match are of another controller": {
			"the message says that the controller is compared too", []string{network},
			func(w *world) {
				w.Change(databaseKey, controlled)
				w.Change(databaseKey, forProvider("networkSelector", map[string]any{"matchLabels": tier["matchLabels"], "matchControllerRef": true}))
			}, nil, nil,
			`False ReconcileError: spec.forProvider.network: no Network in namespace "prod" matches the labels tier=data with the same controller as this object`,
		},
		"nothing is of the controller": {
			"no labels are selected by", []string{network},
			func(w *world) {
				w.Change(databaseKey, forProvider("networkSelector", map[string]any{"matchControllerRef": true}))
			}, nil, nil,
			`False ReconcileError: spec.forProvider.network: no Network in namespace "prod" has the same controller as this object`,
		},
		"there is nothing to select from": {
			"no labels are selected by", nil,
			func(w *world) { w.Change(databaseKey, forProvider("networkSelector", map[string]any{})) }, nil, nil,
			`False ReconcileError: spec.forProvider.network: there is no Network in namespace "prod"`,
		},
		"nothing matches, and needn't": {
			"it goes without", nil,
			func(w *world) {
				w.Change(databaseKey, forProvider("networkSelector", map[string]any{"policy": map[string]any{"resolution": "Optional"}}))
			}, nil, nil, ok,
		},
		"a sibling": {
			"only those of the same controller match", []string{network, second},
			func(w *world) {
				w.Change(databaseKey, forProvider("networkSelector", map[string]any{"matchControllerRef": true}))
				w.Change(databaseKey, controlled)
				second := networkKey
				second.Name = "second"
				w.Change(second, controlled)
			}, "net-8", nil, ok,
		},
		"the kind is forbidden": {
			"nothing follows from what isn't read", []string{network},
			func(w *world) {
				w.Kinds[networkKind.GroupKind()] = fakekube.Kind{State: forbidden}
				w.Change(databaseKey, forProvider("networkRef", ref()))
			}, nil, nil, "False ReconcileError: spec.forProvider.network: Network prod/net: cannot be read: Forbidden: cannot list",
		},
		"the kind is forbidden, and selected from": {
			"nothing follows from what isn't read", []string{network},
			func(w *world) {
				w.Kinds[networkKind.GroupKind()] = fakekube.Kind{State: forbidden}
				w.Change(databaseKey, forProvider("networkSelector", tier))
			}, nil, nil, "False ReconcileError: spec.forProvider.network: objects of kind Network: cannot be read: Forbidden: cannot list",
		},
		"the kind is being read": {
			"that is no failure", []string{network},
			func(w *world) {
				w.Kinds[networkKind.GroupKind()] = fakekube.Kind{State: unsynced}
				w.Change(databaseKey, forProvider("networkRef", ref()))
			}, nil, nil, " : ",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(append(tc.objects, database)...)
			tc.given(w)
			// Waiting is no failure: an event ends it.
			if out, _ := w.reconcile(t); (out.Err != nil) != strings.Contains(tc.synced, "cannot be read") {
				t.Errorf("%s: the reconcile ends with the error %v", tc.reason, out.Err)
			}
			got, _, _ := unstructured.NestedFieldCopy(w.Object(databaseKey).Object, "spec", "forProvider", "network")
			if diff := cmp.Diff(tc.network, got); diff != "" {
				t.Errorf("%s: network (-want +got):\n%s", tc.reason, diff)
			}
			peers, _, _ := unstructured.NestedFieldCopy(w.Object(databaseKey).Object, "spec", "forProvider", "peers")
			if diff := cmp.Diff(tc.peers, peers); diff != "" {
				t.Errorf("%s: peers (-want +got):\n%s", tc.reason, diff)
			}
			if got := w.condition(resource.Synced); got != tc.synced || (w.cloud.created == 1) != (tc.synced == ok) {
				t.Errorf("%s: %d were created, and Synced is %q", tc.reason, w.cloud.created, got)
			}
		})
	}
}

func TestReferencesAreNotResolvedDuringDeletion(t *testing.T) {
	w := newWorld(database, network)
	w.Change(databaseKey, forProvider("networkRef", map[string]any{"name": "net"}))
	w.settle(t)
	w.Remove(networkKey)
	w.Change(databaseKey, deleted)
	w.settle(t)
	if got := w.condition(resource.Synced); got != "gone" || len(w.cloud.things) > 0 {
		t.Errorf("%d are left, and Synced is %q", len(w.cloud.things), got)
	}
}

func TestTheClientReadsObjectsFromCaches(t *testing.T) {
	w := newWorld(database, network)
	s := &reconcileState{lease: w.Begin(watch.Subscriber{Key: databaseKey})}
	var objects port.Objects = s
	if o, err := objects.Get(networkKind, "prod", "net"); err != nil || o.GetName() != "net" {
		t.Errorf("got %v, %v", o, err)
	}
	if o, err := objects.Get(networkKind, "prod", "none"); o != nil || err != nil {
		t.Errorf("got %v, %v", o, err)
	}
}
