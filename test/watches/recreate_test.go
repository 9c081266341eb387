package watches

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// start returns a lifecycle in a group and namespace of its own, with controllers.
func start(t *testing.T) (*lifecycle, *controllers) {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	p, c := &lifecycle{client, testkit.Group(t), testkit.Namespace(t, config)}, run(t, config)
	t.Cleanup(func() { p.clear(t) })
	return p, c
}

// clear deletes all kinds of the group while controllers run, for the tests that follow.
func (p *lifecycle) clear(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	all, err := p.client.Resource(definitions).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	kinds, err := p.client.Resource(crds).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	for i := range kinds.Items {
		if name := kinds.Items[i].GetName(); strings.HasSuffix(name, "."+p.group) {
			if err := remove(ctx, p.client.Resource(crds), name, false); err != nil {
				t.Error(err)
			}
		}
	}
	for i := range all.Items {
		if group, _, _ := unstructured.NestedString(all.Items[i].Object, "spec", "schema", "group"); group == p.group {
			if err := remove(ctx, p.client.Resource(definitions), all.Items[i].GetName(), true); err != nil {
				t.Error(err)
			}
		}
	}
}

// second is a definition of another kind with the same leaf.
var second = suite.Graph("Lan", `status: {subnet: "${subnet.status.id}"}`, `
    - id: subnet
      template:
        apiVersion: leaf.$GROUP/v1alpha1
        kind: Subnet
        metadata: {name: "${schema.metadata.name}"}
        spec: {cidr: 192.168.0.0/16}
`)

func (p *lifecycle) lans() dynamic.ResourceInterface {
	return p.client.Resource(schema.GroupVersionResource{Group: p.group, Version: "v1alpha1", Resource: "lans"}).Namespace(p.ns)
}

// change changes the leaf of an instance as another client, and waits until the controllers have
// reverted that: the leaf is watched.
func (p *lifecycle) change(ctx context.Context, name, want string) error {
	edited, err := p.subnets().Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"cidr":"1.2.3.4/32"}}`), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		return err
	}
	return await(ctx, p.subnets(), name, func(o *unstructured.Unstructured) error {
		if err := exists(o); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(o.Object, "spec", "cidr"); got != want || o.GetGeneration() <= edited.GetGeneration() {
			return fmt.Errorf("spec.cidr is %q in generation %d and is not reverted", got, o.GetGeneration())
		}
		return nil
	})
}

// TestARecreatedKindIsWatchedForTwoDefinitions recreates the leaf kind of two definitions repeatedly,
// also with another version and with another schema: both are notified of changes each time.
func TestARecreatedKindIsWatchedForTwoDefinitions(t *testing.T) {
	p, _ := start(t)
	ctx := t.Context()
	noError(t, "the first", p.create(ctx, t, "a"))
	noError(t, "the second definition", p.apply(ctx, t, p.client.Resource(definitions), second))
	noError(t, "the second definition", await(ctx, p.client.Resource(definitions), p.expand("$ID-lan"), testkit.IsReady))
	noError(t, "its instance", p.apply(ctx, t, p.lans(), "apiVersion: $GROUP/v1alpha1\nkind: Lan\nmetadata: {name: b, namespace: $NS}\n"))
	checkWatched := func(when string) {
		t.Helper()
		for name, cidr := range map[string]string{"a": "10.0.0.0/8", "b": "192.168.0.0/16"} {
			noError(t, when+": the leaf of "+name, await(ctx, p.subnets(), name, exists))
			noError(t, when+": a change of the leaf of "+name, p.change(ctx, name, cidr))
		}
		noError(t, when+": a status", p.setStatus(ctx, "a", "id "+when))
	}
	checkWatched("at first")

	const served = "    - name: v1alpha1\n"
	kinds := map[string]string{
		"recreated unchanged":       leafKind,
		"with an older version":     strings.Replace(leafKind, served, "    - {name: v1alpha0, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n"+served, 1),
		"with a newer field":        strings.Replace(leafKind, "cidr: {type: string}", "cidr: {type: string}, zone: {type: string, default: one}", 1),
		"with only another version": strings.Replace(leafKind, served, "    - name: v9\n", 1),
		"recreated as at first":     leafKind,
	}
	for _, when := range []string{"recreated unchanged", "with an older version", "with a newer field", "with only another version", "recreated as at first"} {
		noError(t, when, remove(ctx, p.client.Resource(crds), p.leafName(), true))
		for of, name := range map[dynamic.ResourceInterface]string{p.vpcs(): "a", p.lans(): "b"} {
			noError(t, when+": the instance reports what it waits for", await(ctx, of, name, reason("WaitingForKind", "Subnet")))
		}
		noError(t, when, p.apply(ctx, t, p.client.Resource(crds), kinds[when]))
		if when == "with only another version" {
			noError(t, when+": the instance waits for its own version", await(ctx, p.vpcs(), "a", reason("WaitingForKind", "v1alpha1")))
			continue
		}
		checkWatched(when)
	}
}

// reason checks why an object is not ready.
func reason(want string, contains ...string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil {
			return fmt.Errorf("does not exist")
		}
		got, message := testkit.ConditionReason(o, "Ready"), testkit.ConditionMessage(o, "Ready")
		if got != want {
			return fmt.Errorf("Ready has the reason %q, not %q: %s", got, want, message)
		}
		for _, text := range contains {
			if !strings.Contains(message, text) {
				return fmt.Errorf("does not contain %q: %s", text, message)
			}
		}
		return nil
	}
}
