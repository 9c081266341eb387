package watches

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestWatchesEndForKindsDeletedDirectly deletes kinds and instances in ways in which the controllers
// take no part, and checks that no watch remains.
func TestWatchesEndForKindsDeletedDirectly(t *testing.T) {
	cases := map[string]func(t *testing.T, p *lifecycle){
		"a definition that leaves orphans": func(t *testing.T, p *lifecycle) {
			patch := `{"metadata":{"annotations":{"kro.run/allow-orphans":"true"}}}`
			if _, err := p.client.Resource(definitions).Patch(t.Context(), p.definitionName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := remove(t.Context(), p.client.Resource(definitions), p.definitionName(), true); err != nil {
				t.Fatal(err)
			}
		},
		"instances without their finalizers": func(t *testing.T, p *lifecycle) {
			for _, name := range []string{"a", "b"} {
				// Deleted first, since the finalizer of another would be added again.
				if err := remove(t.Context(), p.vpcs(), name, false); err != nil {
					t.Fatal(err)
				}
				_, _ = p.vpcs().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err := gone(t.Context(), p.vpcs(), name, sameName); err != nil {
					t.Fatal(err)
				}
			}
			if err := remove(t.Context(), p.client.Resource(definitions), p.definitionName(), true); err != nil {
				t.Fatal(err)
			}
		},
		"a deleted kind, with instances without their finalizers": func(t *testing.T, p *lifecycle) {
			if err := remove(t.Context(), p.client.Resource(definitions), p.definitionName(), false); err != nil {
				t.Fatal(err)
			}
			if err := remove(t.Context(), p.client.Resource(crds), p.kindName(), false); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "b"} {
				_, _ = p.vpcs().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			}
			if err := gone(t.Context(), p.client.Resource(definitions), p.definitionName(), sameName); err != nil {
				t.Fatal(err)
			}
		},
	}
	p, c := start(t)
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			if err := p.create(t.Context(), t, "a", "b"); err != nil {
				t.Fatal(err)
			}
			end(t, p)
			err := c.await(t.Context(), func() error {
				for _, s := range c.Hub.Stats() {
					if s.Subscribers > 0 && (strings.HasSuffix(s.Kind.Group, p.group) || s.Kind.Kind == "ConfigMap") {
						return fmt.Errorf("%s (%s) has %d subscribers", s.Kind.Kind, s.Selection, s.Subscribers)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			p.clean(t)
		})
	}
}

// clean deletes the objects that were left.
func (p *lifecycle) clean(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	for _, name := range []string{"a", "b"} {
		_, _ = p.vpcs().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		for _, of := range []string{name + "-note"} {
			if err := remove(ctx, p.notes(), of, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{p.kindName(), p.leafName()} {
		if err := remove(ctx, p.client.Resource(crds), name, true); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnUnservedVersionBlocksDeletions stops serving the leaf's version while instances are being
// deleted: no instance may be deleted before its children.
func TestAnUnservedVersionBlocksDeletions(t *testing.T) {
	p, _ := start(t)
	ctx := t.Context()
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprint("i", i)
	}
	if err := p.create(ctx, t, names...); err != nil {
		t.Fatal(err)
	}
	t.Log("finalizers of the leaves block the deletion of their instances")
	for _, name := range names {
		if _, err := p.subnets().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/held"]}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := remove(ctx, p.vpcs(), name, false); err != nil {
			t.Fatal(err)
		}
		err := await(ctx, p.subnets(), name, func(o *unstructured.Unstructured) error {
			if o == nil || o.GetDeletionTimestamp() == nil {
				return fmt.Errorf("is not being deleted")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	unserved := strings.Replace(leafKind, "served: true", "served: false", 1)
	if err := p.apply(ctx, t, p.client.Resource(crds), unserved); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		err := await(ctx, p.vpcs(), name, func(o *unstructured.Unstructured) error {
			if o == nil {
				return fmt.Errorf("was deleted before its child")
			}
			return reason("Deleting", "objects of kind Subnet: KindUnavailable: cannot determine which objects remain")(o)
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	t.Log("when the version is served again, the instances are deleted")
	if err := p.apply(ctx, t, p.client.Resource(crds), leafKind); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := retryUntilServed(ctx, func() error {
			_, err := p.subnets().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if err := gone(ctx, p.vpcs(), name, sameName); err != nil {
			t.Fatal(err)
		}
	}
}

// TestADefinitionIsRecreatedInAnotherScope deletes a definition and recreates it at once for a kind of
// the same name and another scope.
func TestADefinitionIsRecreatedInAnotherScope(t *testing.T) {
	p, c := start(t)
	ctx := t.Context()
	if err := p.create(ctx, t, "a"); err != nil {
		t.Fatal(err)
	}
	if err := remove(ctx, p.vpcs(), "a", true); err != nil {
		t.Fatal(err)
	}
	scoped := map[bool]string{
		false: vpcDefinition,
		true: strings.NewReplacer("    kind: Vpc\n", "    kind: Vpc\n    scope: Cluster\n",
			`metadata: {name: "${schema.metadata.name}"`, `metadata: {namespace: $NS, name: "${schema.metadata.name}"`,
			`metadata: {name: "${schema.metadata.name}-note"`, `metadata: {namespace: $NS, name: "${schema.metadata.name}-note"`).Replace(vpcDefinition),
	}
	for i := range 6 {
		cluster := i%2 == 0
		if err := remove(ctx, p.client.Resource(definitions), p.definitionName(), true); err != nil {
			t.Fatal(err)
		}
		if err := p.apply(ctx, t, p.client.Resource(definitions), scoped[cluster]); err != nil {
			t.Fatal(err)
		}
		if err := await(ctx, p.client.Resource(definitions), p.definitionName(), testkit.IsReady); err != nil {
			t.Fatalf("round %d, cluster-scoped %t: %v", i, cluster, err)
		}
		of, metadata := p.vpcs(), "{name: a, namespace: $NS}"
		if cluster {
			of, metadata = p.client.Resource(p.vpcResource()), "{name: a}"
		}
		if err := p.apply(ctx, t, of, "apiVersion: $GROUP/v1alpha1\nkind: Vpc\nmetadata: "+metadata+"\n"); err != nil {
			t.Fatal(err)
		}
		if err := await(ctx, p.subnets(), "a", exists); err != nil {
			t.Fatalf("round %d, cluster-scoped %t: %v", i, cluster, err)
		}
		if err := remove(ctx, of, "a", true); err != nil {
			t.Fatal(err)
		}
		if err := gone(ctx, p.subnets(), "a", sameName); err != nil {
			t.Fatal(err)
		}
	}
	vpcs := slices.DeleteFunc(c.Hub.Stats(), func(s watch.KindStats) bool { return s.Kind.Group != p.group || s.Subscribers == 0 })
	if len(vpcs) != 1 || vpcs[0].Subscribers != 1 {
		t.Errorf("the watches of the kind are %+v", vpcs)
	}
}

// TestADefinitionWaitsForUnreadableInstances stops serving the kind of a terminating definition
// before its instance is deleted.
func TestADefinitionWaitsForUnreadableInstances(t *testing.T) {
	p, _ := start(t)
	ctx := t.Context()
	served := func(is bool) error {
		patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/served","value":%t}]`, is)
		_, err := p.client.Resource(crds).Patch(ctx, p.kindName(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	noError(t, "create", p.create(ctx, t, "a"))
	noError(t, "delete", remove(ctx, p.client.Resource(definitions), p.definitionName(), false))
	noError(t, "the definition waits", await(ctx, p.client.Resource(definitions), p.definitionName(), reason("InstancesRemain", "1 instance of Vpc remains")))
	noError(t, "not served", served(false))
	noError(t, "the definition still waits", await(ctx, p.client.Resource(definitions), p.definitionName(), reason("InstancesUnknown", "cannot determine whether instances of Vpc remain")))
	noError(t, "served again", served(true))
	noError(t, "the definition counts instances again", await(ctx, p.client.Resource(definitions), p.definitionName(), reason("InstancesRemain", "1 instance of Vpc remains")))
	noError(t, "the instance", remove(ctx, p.vpcs(), "a", true))
	noError(t, "the definition", gone(ctx, p.client.Resource(definitions), p.definitionName(), sameName))
}

// TestADeletionContinuesInAnotherVersion serves the leaf in another version than the one in which it
// was created, while its instance is being deleted.
func TestADeletionContinuesInAnotherVersion(t *testing.T) {
	p, _ := start(t)
	ctx := t.Context()
	noError(t, "create", p.create(ctx, t, "a"))
	_, err := p.subnets().Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/held"]}}`), metav1.PatchOptions{})
	noError(t, "add a finalizer to the leaf", err)
	noError(t, "delete the definition", remove(ctx, p.client.Resource(definitions), p.definitionName(), false))
	noError(t, "delete the instance", remove(ctx, p.vpcs(), "a", false))
	noError(t, "the leaf is terminating", await(ctx, p.subnets(), "a", func(o *unstructured.Unstructured) error {
		if o == nil || o.GetDeletionTimestamp() == nil {
			return fmt.Errorf("is not being deleted")
		}
		return nil
	}))
	unserved := strings.Replace(leafKind, "served: true", "served: false", 1)
	noError(t, "serve no version", p.apply(ctx, t, p.client.Resource(crds), unserved))
	noError(t, "the instance reports it", await(ctx, p.vpcs(), "a", reason("Deleting", "KindUnavailable")))
	const before = "    - name: v1alpha1\n"
	other := strings.Replace(unserved, before, "    - {name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n"+before, 1)
	noError(t, "serve another version", p.apply(ctx, t, p.client.Resource(crds), other))
	inOther := p.client.Resource(schema.GroupVersionResource{Group: "leaf." + p.group, Version: "v1", Resource: "subnets"}).Namespace(p.ns)
	noError(t, "remove the finalizer of the leaf", retryUntilServed(ctx, func() error {
		_, err := inOther.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	}))
	noError(t, "the instance", gone(ctx, p.vpcs(), "a", sameName))
	noError(t, "the definition", gone(ctx, p.client.Resource(definitions), p.definitionName(), sameName))
}
