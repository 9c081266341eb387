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

// TestWatchesEndForKindsDeletedDirectly ends lives in ways that no controller
// has a say in, and checks whether anything of them stays watched.
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
		"instances whose finalizer somebody strips": func(t *testing.T, p *lifecycle) {
			for _, name := range []string{"a", "b"} {
				// Deleted first: a live one would get its finalizer back.
				if err := remove(t.Context(), p.vpcs(), name, false); err != nil {
					t.Fatal(err)
				}
				_, _ = p.vpcs().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err := gone(t.Context(), p.vpcs(), name, anyIncarnation); err != nil {
					t.Fatal(err)
				}
			}
			if err := remove(t.Context(), p.client.Resource(definitions), p.definitionName(), true); err != nil {
				t.Fatal(err)
			}
		},
		"a kind that is gone with its objects, finalizers stripped": func(t *testing.T, p *lifecycle) {
			if err := remove(t.Context(), p.client.Resource(definitions), p.definitionName(), false); err != nil {
				t.Fatal(err)
			}
			if err := remove(t.Context(), p.client.Resource(crds), p.kindName(), false); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "b"} {
				_, _ = p.vpcs().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			}
			if err := gone(t.Context(), p.client.Resource(definitions), p.definitionName(), anyIncarnation); err != nil {
				t.Fatal(err)
			}
		},
	}
	p, c := home(t)
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

// clean removes what a life that didn't end properly left behind.
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

// TestAVersionThatIsNotServedEndsNothing stops serving the leaf's version while
// instances are being deleted: nobody may be let go whose children are there.
func TestAVersionThatIsNotServedEndsNothing(t *testing.T) {
	p, _ := home(t)
	ctx := t.Context()
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprint("i", i)
	}
	if err := p.create(ctx, t, names...); err != nil {
		t.Fatal(err)
	}
	t.Log("the leaves are held, so that their instances wait for them")
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
				return fmt.Errorf("was let go with a child left")
			}
			return reason("Deleting", "objects of kind Subnet: KindUnavailable: cannot determine which objects remain")(o)
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	t.Log("served again, they go")
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
		if err := gone(ctx, p.vpcs(), name, anyIncarnation); err != nil {
			t.Fatal(err)
		}
	}
}

// TestADefinitionComesBackInAnotherScope deletes a definition and recreates it at
// once for a kind of the same name and another scope.
func TestADefinitionComesBackInAnotherScope(t *testing.T) {
	p, c := home(t)
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
			t.Fatalf("round %d, of cluster scope: %t: %v", i, cluster, err)
		}
		of, metadata := p.vpcs(), "{name: a, namespace: $NS}"
		if cluster {
			of, metadata = p.client.Resource(p.vpcResource()), "{name: a}"
		}
		if err := p.apply(ctx, t, of, "apiVersion: $GROUP/v1alpha1\nkind: Vpc\nmetadata: "+metadata+"\n"); err != nil {
			t.Fatal(err)
		}
		if err := await(ctx, p.subnets(), "a", exists); err != nil {
			t.Fatalf("round %d, of cluster scope: %t: %v", i, cluster, err)
		}
		if err := remove(ctx, of, "a", true); err != nil {
			t.Fatal(err)
		}
		if err := gone(ctx, p.subnets(), "a", anyIncarnation); err != nil {
			t.Fatal(err)
		}
	}
	vpcs := slices.DeleteFunc(c.Hub.Stats(), func(s watch.KindStats) bool { return s.Kind.Group != p.group || s.Subscribers == 0 })
	if len(vpcs) != 1 || vpcs[0].Subscribers != 1 {
		t.Errorf("the kind is served by %+v", vpcs)
	}
}

// TestADefinitionWaitsForUnreadableInstances stops serving the kind of a
// deleted definition before its instance is gone.
func TestADefinitionWaitsForUnreadableInstances(t *testing.T) {
	p, _ := home(t)
	ctx := t.Context()
	served := func(is bool) error {
		patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/0/served","value":%t}]`, is)
		_, err := p.client.Resource(crds).Patch(ctx, p.kindName(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	noError(t, "born", p.create(ctx, t, "a"))
	noError(t, "delete", remove(ctx, p.client.Resource(definitions), p.definitionName(), false))
	noError(t, "it waits", await(ctx, p.client.Resource(definitions), p.definitionName(), reason("InstancesRemain", "1 instance of Vpc remains")))
	noError(t, "not served", served(false))
	noError(t, "it still waits", await(ctx, p.client.Resource(definitions), p.definitionName(), reason("InstancesUnknown", "cannot determine whether instances of Vpc remain")))
	noError(t, "served again", served(true))
	noError(t, "it counts again", await(ctx, p.client.Resource(definitions), p.definitionName(), reason("InstancesRemain", "1 instance of Vpc remains")))
	noError(t, "the instance", remove(ctx, p.vpcs(), "a", true))
	noError(t, "the definition", gone(ctx, p.client.Resource(definitions), p.definitionName(), anyIncarnation))
}

// TestADeletionContinuesInAnotherVersion serves the leaf in another version than it
// was made in, while its instance is being deleted.
func TestADeletionContinuesInAnotherVersion(t *testing.T) {
	p, _ := home(t)
	ctx := t.Context()
	noError(t, "born", p.create(ctx, t, "a"))
	_, err := p.subnets().Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/held"]}}`), metav1.PatchOptions{})
	noError(t, "hold the leaf", err)
	noError(t, "delete the definition", remove(ctx, p.client.Resource(definitions), p.definitionName(), false))
	noError(t, "delete the instance", remove(ctx, p.vpcs(), "a", false))
	noError(t, "the leaf is asked to go", await(ctx, p.subnets(), "a", func(o *unstructured.Unstructured) error {
		if o == nil || o.GetDeletionTimestamp() == nil {
			return fmt.Errorf("is not being deleted")
		}
		return nil
	}))
	unserved := strings.Replace(leafKind, "served: true", "served: false", 1)
	noError(t, "serve no version", p.apply(ctx, t, p.client.Resource(crds), unserved))
	noError(t, "the instance says so", await(ctx, p.vpcs(), "a", reason("Deleting", "KindUnavailable")))
	const before = "    - name: v1alpha1\n"
	other := strings.Replace(unserved, before, "    - {name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n"+before, 1)
	noError(t, "serve another", p.apply(ctx, t, p.client.Resource(crds), other))
	inOther := p.client.Resource(schema.GroupVersionResource{Group: "leaf." + p.group, Version: "v1", Resource: "subnets"}).Namespace(p.ns)
	noError(t, "let the leaf go", retryUntilServed(ctx, func() error {
		_, err := inOther.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	}))
	noError(t, "the instance", gone(ctx, p.vpcs(), "a", anyIncarnation))
	noError(t, "the definition", gone(ctx, p.client.Resource(definitions), p.definitionName(), anyIncarnation))
}
