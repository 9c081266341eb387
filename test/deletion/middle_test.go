package deletion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/test/suite"
)

const guard = "example.com/held"

// TestTheLeafKindIsDeletedBesideTheNest deletes the kind of the lowest objects
// while one of them is held, before the nest is deleted or after.
func TestTheLeafKindIsDeletedBesideTheNest(t *testing.T) {
	for name, first := range map[string]func(t *testing.T, s suite.Suite, kind, nest func()){
		"after it": func(_ *testing.T, _ suite.Suite, kind, nest func()) {
			nest()
			kind()
		},
		"before it": func(_ *testing.T, _ suite.Suite, kind, nest func()) {
			kind()
			nest()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := home(t)
			build(t, s)
			finalizers(t, s, leaf(s), "x-leaf", guard)
			saw := watchLayers(t, s, neverError)
			first(t, s, func() {
				s.Delete(t, suite.CRD, "", leafCRD(s))
				awaitGone(t, s, leaf(s), "x-below")
			}, func() {
				s.Delete(t, s.Kind("Top"), s.NS, "x")
				awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			})
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			finalizers(t, s, leaf(s), "x-leaf")
			awaitNestGone(t, s)
			s.AwaitGone(t, suite.CRD, "", leafCRD(s))
			saw.check(t)
		})
	}
}

// TestTheLeafKindIsDeletedUnderALivingNest takes the kind away from which the
// lowest instance makes its objects.
func TestTheLeafKindIsDeletedUnderALivingNest(t *testing.T) {
	t.Run("and the nest is deleted after it", func(t *testing.T) {
		s := home(t)
		build(t, s)
		saw := watchLayers(t, s, neverError)
		s.Delete(t, suite.CRD, "", leafCRD(s))
		s.AwaitGone(t, suite.CRD, "", leafCRD(s))
		s.Await(t, s.Kind("Low"), s.NS, "x", waits("WaitingForKind", "Leaf"))
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitNestGone(t, s)
		saw.check(t)
	})
	t.Run("and comes back", func(t *testing.T) {
		s := home(t)
		build(t, s)
		saw := watchLayers(t, s, neverError)
		s.Delete(t, suite.CRD, "", leafCRD(s))
		s.AwaitGone(t, suite.CRD, "", leafCRD(s))
		s.Await(t, s.Kind("Low"), s.NS, "x", waits("WaitingForKind", "Leaf"))
		s.Put(t, leafKind)
		awaitServed(t, s, leaf(s))
		s.Await(t, leaf(s), s.NS, "x-leaf", there)
		s.AwaitReady(t, s.Kind("Low"), s.NS, "x")
		s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-leaf")
		awaitGone(t, s, leaf(s), "x-below")
		saw.check(t)
	})
}

// TestAComposedKindIsDeletedUnderALivingNest deletes the kind of a middle layer,
// and with it that layer's instances: its definition publishes the kind again, and
// the layer above makes its instance anew.
func TestAComposedKindIsDeletedUnderALivingNest(t *testing.T) {
	for _, kind := range []string{"Low", "Mid"} {
		t.Run(kind, func(t *testing.T) {
			s := home(t)
			build(t, s)
			was := s.Get(t, s.Kind(kind), s.NS, "x")
			before := s.Get(t, suite.CRD, "", kindCRD(s, kind))
			saw := watchLayers(t, s, neverError)
			s.Delete(t, suite.CRD, "", kindCRD(s, kind))
			s.Await(t, suite.CRD, "", kindCRD(s, kind), another(before))
			awaitServed(t, s, s.Kind(kind))
			s.Await(t, s.Kind(kind), s.NS, "x", another(was))
			s.AwaitReady(t, s.Kind(kind), s.NS, "x")
			s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			awaitNestGone(t, s)
			awaitGone(t, s, leaf(s), "x-leaf")
			awaitGone(t, s, leaf(s), "x-below")
			saw.check(t)
		})
	}
}

// TestAComposedKindIsDeletedWhileTheNestIs deletes the kind of a layer, while the
// nest waits for a held leaf.
func TestAComposedKindIsDeletedWhileTheNestIs(t *testing.T) {
	for _, kind := range layers {
		t.Run(kind, func(t *testing.T) {
			s := home(t)
			build(t, s)
			finalizers(t, s, leaf(s), "x-leaf", guard)
			before := s.Get(t, suite.CRD, "", kindCRD(s, kind))
			saw := watchLayers(t, s, neverError)
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			s.Delete(t, suite.CRD, "", kindCRD(s, kind))
			s.Await(t, suite.CRD, "", kindCRD(s, kind), leaving)
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			finalizers(t, s, leaf(s), "x-leaf")
			awaitNestGone(t, s)
			t.Log("the definition, which lives, publishes the kind again")
			s.Await(t, suite.CRD, "", kindCRD(s, kind), another(before))
			s.Active(t, "low", "mid", "top")
			saw.check(t)
		})
	}
}

// TestDefinitionsAreDeletedWhileTheNestIs deletes the definitions, in every order,
// while the nest waits for a held leaf: nothing of them is needed any more, and
// they wait until the last of their instances has gone.
func TestDefinitionsAreDeletedWhileTheNestIs(t *testing.T) {
	for _, order := range [][]string{
		{"low", "mid", "top"}, {"low", "top", "mid"}, {"mid", "low", "top"}, {"mid", "top", "low"}, {"top", "low", "mid"}, {"top", "mid", "low"},
	} {
		t.Run(strings.Join(order, ", "), func(t *testing.T) {
			s := home(t)
			build(t, s)
			finalizers(t, s, leaf(s), "x-leaf", guard)
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			for _, name := range order {
				s.Delete(t, suite.RGD, "", s.Name(name))
			}
			for _, name := range order {
				s.Await(t, suite.RGD, "", s.Name(name), counts(1))
			}
			awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
			finalizers(t, s, leaf(s), "x-leaf")
			awaitNestGone(t, s)
			for _, name := range order {
				s.AwaitGone(t, suite.RGD, "", s.Name(name))
			}
			for _, kind := range layers {
				s.AwaitGone(t, suite.CRD, "", kindCRD(s, kind))
			}
			awaitGone(t, s, leaf(s), "x-below")
		})
	}
}

const anotherTop = "apiVersion: $GROUP/v1alpha1\nkind: Top\nmetadata: {name: other, namespace: $NS}\n"

// TestDefinitionsOfLivingInstancesWaitAndCountThem deletes the definitions of two
// nests, which live on until somebody deletes them.
func TestDefinitionsOfLivingInstancesWaitAndCountThem(t *testing.T) {
	s := home(t)
	build(t, s)
	s.Put(t, anotherTop)
	s.AwaitReady(t, s.Kind("Top"), s.NS, "other")
	before := uids(t, s)
	definitions := []string{"low", "mid", "top"}
	for _, name := range definitions {
		s.Delete(t, suite.RGD, "", s.Name(name))
	}
	for _, name := range definitions {
		s.Await(t, suite.RGD, "", s.Name(name), counts(2))
	}
	s.Delete(t, s.Kind("Top"), s.NS, "other")
	for _, name := range definitions {
		s.Await(t, suite.RGD, "", s.Name(name), counts(1))
	}
	after := uids(t, s)
	for object, uid := range before {
		if strings.HasPrefix(object, "x") && after[object] != uid {
			t.Errorf("%s was %s and is %s", object, uid, after[object])
		}
	}
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	awaitNestGone(t, s)
	for _, name := range definitions {
		s.AwaitGone(t, suite.RGD, "", s.Name(name))
	}
	for _, kind := range layers {
		s.AwaitGone(t, suite.CRD, "", kindCRD(s, kind))
	}
}

// TestDefinitionsThatComeBackFindTheirInstances lets the definitions go from over
// living instances, and from over one that is being deleted, and brings them back.
func TestDefinitionsThatComeBackFindTheirInstances(t *testing.T) {
	leave := func(t *testing.T, s suite.Suite) {
		t.Helper()
		for _, name := range []string{"top", "mid", "low"} {
			patch := []byte(`{"metadata":{"annotations":{"kro.run/allow-orphans":"true"}}}`)
			if _, err := s.Of(t, suite.RGD, "").Patch(t.Context(), s.Name(name), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			s.Delete(t, suite.RGD, "", s.Name(name))
		}
		for _, name := range []string{"top", "mid", "low"} {
			s.AwaitGone(t, suite.RGD, "", s.Name(name))
		}
	}
	back := func(t *testing.T, s suite.Suite) {
		t.Helper()
		s.Put(t, nest)
		s.Active(t, "low", "mid", "top")
	}
	t.Run("alive, as they were", func(t *testing.T) {
		s := home(t)
		build(t, s)
		before := uids(t, s)
		leave(t, s)
		back(t, s)
		for i, kind := range layers {
			definition := s.Get(t, suite.RGD, "", s.Name([]string{"low", "mid", "top"}[i]))
			s.Await(t, s.Kind(kind), s.NS, "x", labelled("kro.run/resource-graph-definition-id", string(definition.GetUID())))
			s.AwaitReady(t, s.Kind(kind), s.NS, "x")
		}
		after := uids(t, s)
		for object, uid := range before {
			if after[object] != uid {
				t.Errorf("%s was %s and is %s", object, uid, after[object])
			}
		}
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
	t.Run("deleted in the meantime", func(t *testing.T) {
		s := home(t)
		build(t, s)
		leave(t, s)
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		back(t, s)
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
	t.Run("in the middle of a deletion", func(t *testing.T) {
		s := home(t)
		build(t, s)
		finalizers(t, s, leaf(s), "x-leaf", guard)
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
		since := report.ReadDeletion(s.Get(t, s.Kind("Top"), s.NS, "x")).Blockers[0].Since
		leave(t, s)
		finalizers(t, s, leaf(s), "x-leaf")
		awaitGone(t, s, leaf(s), "x-leaf")
		finalizers(t, s, leaf(s), "x-below", guard)
		back(t, s)
		awaitBlocked(t, s, "x-below", report.HeldByFinalizer, guard)
		if now := report.ReadDeletion(s.Get(t, s.Kind("Top"), s.NS, "x")).Blockers[0].Since; now.Before(since.Time) {
			t.Errorf("Top is blocked since %s, and was since %s before", now, since)
		}
		finalizers(t, s, leaf(s), "x-below")
		awaitNestGone(t, s)
	})
}

// TestANamespaceGoesWithItsInstances deletes the namespace that everything is in.
// All is deleted at once, in no order, and nothing new can be made.
func TestANamespaceGoesWithItsInstances(t *testing.T) {
	namespace := suite.ConfigMap
	namespace.Kind = "Namespace"
	t.Run("with nothing in the way", func(t *testing.T) {
		s := home(t)
		build(t, s)
		saw := watchLayers(t, s, neverError)
		s.Delete(t, namespace, "", s.NS)
		awaitNestGone(t, s)
		s.AwaitGone(t, namespace, "", s.NS)
		saw.check(t)
	})
	for _, held := range []string{"x-leaf", "x-below"} {
		t.Run("with "+held+" held", func(t *testing.T) {
			s := home(t)
			build(t, s)
			finalizers(t, s, leaf(s), held, guard)
			saw := watchLayers(t, s, neverError)
			s.Delete(t, namespace, "", s.NS)
			awaitBlocked(t, s, held, report.HeldByFinalizer, guard)
			finalizers(t, s, leaf(s), held)
			awaitNestGone(t, s)
			s.AwaitGone(t, namespace, "", s.NS)
			saw.check(t)
		})
	}
	t.Run("with an instance that is protected", func(t *testing.T) {
		s := home(t)
		build(t, s)
		annotate(t, s, s.Kind("Low"), "x", "espalier.dev/protect", "holds the ledger")
		s.Delete(t, namespace, "", s.NS)
		for _, kind := range layers {
			s.Await(t, s.Kind(kind), s.NS, "x", blocked("x", report.Protected, "holds the ledger"))
		}
		annotate(t, s, s.Kind("Low"), "x", "espalier.dev/protect", nil)
		awaitNestGone(t, s)
		s.AwaitGone(t, namespace, "", s.NS)
	})
}

// guest keeps two objects in a namespace that isn't its own.
const guest = `
apiVersion: v1
kind: Namespace
metadata: {name: $ID-other}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-guest}
spec:
  schema: {apiVersion: v1alpha1, kind: Guest, group: $GROUP}
  resources:
    - id: held
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: $ID-other}, data: {a: b}}
    - id: beside
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: beside, namespace: $ID-other}, data: {a: b}}
    - id: home
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: home}, data: {a: "${beside.data.a}"}}
`

// TestANamespaceWithAChildGoes deletes a namespace in which an instance of another
// one has objects.
func TestANamespaceWithAChildGoes(t *testing.T) {
	namespace := suite.ConfigMap
	namespace.Kind = "Namespace"
	settle := func(t *testing.T, s suite.Suite) (hold, release func()) {
		t.Helper()
		s.Put(t, guest)
		s.Active(t, "guest")
		s.Put(t, "apiVersion: $GROUP/v1alpha1\nkind: Guest\nmetadata: {name: x, namespace: $NS}\n")
		s.AwaitReady(t, s.Kind("Guest"), s.NS, "x")
		set := func(finalizers string) {
			t.Helper()
			patch := []byte(`{"metadata":{"finalizers":` + finalizers + `}}`)
			if _, err := s.Of(t, suite.ConfigMap, s.Name("other")).Patch(t.Context(), "held", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			_ = s.Client.Resource(namespace.GroupVersion().WithResource("namespaces")).Delete(context.Background(), s.Name("other"), metav1.DeleteOptions{})
		})
		return func() { set(`["` + guard + `"]`) }, func() { set("null") }
	}
	t.Run("and comes back", func(t *testing.T) {
		s := home(t)
		hold, release := settle(t, s)
		hold()
		saw := watchAll(t, s, s.Kind("Guest"), func(o *unstructured.Unstructured) error {
			if reason := testkit.ReasonOf(o, "Ready"); reason == "Forbidden" || reason == "Unavailable" || reason == "Rejected" {
				return fmt.Errorf("is not ready because of %s: %s", reason, testkit.Message(o, "Ready"))
			}
			return nil
		})
		s.Delete(t, namespace, "", s.Name("other"))
		s.Await(t, s.Kind("Guest"), s.NS, "x", waits("WaitingForNamespace", "beside: namespace "+s.Name("other")+" is being deleted"))
		release()
		s.AwaitGone(t, namespace, "", s.Name("other"))
		s.Await(t, s.Kind("Guest"), s.NS, "x", waits("WaitingForNamespace", "beside: there is no namespace "+s.Name("other")))
		s.Put(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: $ID-other}\n")
		s.AwaitReady(t, s.Kind("Guest"), s.NS, "x")
		for _, name := range []string{"held", "beside"} {
			s.Await(t, suite.ConfigMap, s.Name("other"), name, there)
		}
		s.Delete(t, s.Kind("Guest"), s.NS, "x")
		s.AwaitGone(t, s.Kind("Guest"), s.NS, "x")
		saw.check(t)
	})
	t.Run("while its instance is being deleted", func(t *testing.T) {
		s := home(t)
		hold, release := settle(t, s)
		hold()
		s.Delete(t, s.Kind("Guest"), s.NS, "x")
		s.Await(t, s.Kind("Guest"), s.NS, "x", blocked("held", report.HeldByFinalizer, guard))
		s.Delete(t, namespace, "", s.Name("other"))
		s.Await(t, namespace, "", s.Name("other"), leaving)
		release()
		s.AwaitGone(t, s.Kind("Guest"), s.NS, "x")
		s.AwaitGone(t, namespace, "", s.Name("other"))
	})
	t.Run("and its instance after it", func(t *testing.T) {
		s := home(t)
		_, _ = settle(t, s)
		s.Delete(t, namespace, "", s.Name("other"))
		s.AwaitGone(t, namespace, "", s.Name("other"))
		s.Await(t, s.Kind("Guest"), s.NS, "x", waits("WaitingForNamespace", "beside: there is no namespace "+s.Name("other")))
		s.Delete(t, s.Kind("Guest"), s.NS, "x")
		s.AwaitGone(t, s.Kind("Guest"), s.NS, "x")
		awaitGone(t, s, suite.ConfigMap, "home")
	})
}

// TestAKindIsNotServedInTheMiddle stops serving the leaf's kind, in all of its
// versions, before the nest is deleted or in the middle of it.
func TestAKindIsNotServedInTheMiddle(t *testing.T) {
	unserved := strings.Replace(leafKind, "served: true", "served: false", 1)
	unservedAll := func(t *testing.T, s suite.Suite) {
		t.Helper()
		for _, kind := range layers {
			s.Await(t, s.Kind(kind), s.NS, "x", blocked("objects of kind Leaf", report.KindUnavailable, "Leaf"))
		}
	}
	t.Run("while a leaf is held, and is served again", func(t *testing.T) {
		s := home(t)
		build(t, s)
		finalizers(t, s, leaf(s), "x-leaf", guard)
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
		s.Put(t, unserved)
		unservedAll(t, s)
		s.Put(t, leafKind)
		awaitServed(t, s, leaf(s))
		awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
		finalizers(t, s, leaf(s), "x-leaf")
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
	t.Run("before the deletion", func(t *testing.T) {
		s := home(t)
		build(t, s)
		s.Put(t, unserved)
		s.Await(t, s.Kind("Low"), s.NS, "x", waits("WaitingForKind", "Leaf"))
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		unservedAll(t, s)
		s.Put(t, leafKind)
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
	t.Run("and is deleted then, with its objects", func(t *testing.T) {
		s := home(t)
		build(t, s)
		s.Put(t, unserved)
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		unservedAll(t, s)
		s.Delete(t, suite.CRD, "", leafCRD(s))
		awaitKindGone(t, s)
		awaitNestGone(t, s)
	})
	t.Run("and is deleted when nobody has seen its objects for a while", func(t *testing.T) {
		s := home(t)
		build(t, s)
		s.Put(t, unserved)
		s.Await(t, s.Kind("Low"), s.NS, "x", waits("WaitingForKind", "Leaf"))
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		unservedAll(t, s)
		s.Delete(t, suite.CRD, "", leafCRD(s))
		awaitKindGone(t, s)
		awaitNestGone(t, s)
	})
	t.Run("it is the kind of a layer", func(t *testing.T) {
		s := home(t)
		build(t, s)
		finalizers(t, s, leaf(s), "x-leaf", guard)
		s.Delete(t, s.Kind("Top"), s.NS, "x")
		awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
		patch := []byte(`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`)
		if _, err := s.Of(t, suite.CRD, "").Patch(t.Context(), kindCRD(s, "Mid"), types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Log("its definition serves it again by itself")
		s.Await(t, suite.CRD, "", kindCRD(s, "Mid"), func(o *unstructured.Unstructured) error {
			versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			if versions[0].(map[string]any)["served"] != true {
				return errors.New("is not served")
			}
			return nil
		})
		awaitBlocked(t, s, "x-leaf", report.HeldByFinalizer, guard)
		finalizers(t, s, leaf(s), "x-leaf")
		awaitNestGone(t, s)
		awaitGone(t, s, leaf(s), "x-below")
	})
}

// awaitKindGone waits until the API server has taken the lowest kind away. It has five workers
// for that, each of which waits up to a minute for objects of a kind that don't go: those of
// other tests may hold it up for longer than anything of ours takes.
func awaitKindGone(t *testing.T, s suite.Suite) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go testkit.Nudge(ctx, s.Of(t, suite.CRD, ""), leafCRD(s))
	testkit.PollFor(t, 5*time.Minute, "the kind is gone", func() bool { return s.Get(t, suite.CRD, "", leafCRD(s)) == nil })
}

func leafCRD(s suite.Suite) string { return "leafs.leaf." + s.Group }

func kindCRD(s suite.Suite, kind string) string { return strings.ToLower(kind) + "s." + s.Group }

// awaitBlocked waits until every layer tells of the cause.
func awaitBlocked(t *testing.T, s suite.Suite, object string, reason report.Reason, words ...string) {
	t.Helper()
	for _, kind := range layers {
		s.Await(t, s.Kind(kind), s.NS, "x", blocked(object, reason, words...))
	}
}

// awaitNestGone waits until no layer has an instance left.
func awaitNestGone(t *testing.T, s suite.Suite) {
	t.Helper()
	for _, kind := range slices.Backward(layers) {
		awaitGone(t, s, s.Kind(kind), "x")
	}
}

// uids are those of all objects of the nest.
func uids(t *testing.T, s suite.Suite) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	for _, gvk := range append(kindsOf(s, layers...), leaf(s)) {
		list, err := s.Of(t, gvk, s.NS).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			out[o.GetName()+" "+gvk.Kind] = o.GetUID()
		}
	}
	return out
}

func there(o *unstructured.Unstructured) error {
	if o == nil {
		return errors.New("does not exist")
	}
	return nil
}

func leaving(o *unstructured.Unstructured) error {
	if o == nil || o.GetDeletionTimestamp() == nil {
		return errors.New("is not being deleted")
	}
	return nil
}

// another checks that an object is there that isn't the former one of its name.
func another(former *unstructured.Unstructured) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil || o.GetUID() == former.GetUID() {
			return errors.New("has not been made anew")
		}
		return nil
	}
}

func labelled(key, value string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil || o.GetLabels()[key] != value {
			return fmt.Errorf("label %s is not %s", key, value)
		}
		return nil
	}
}

// waits checks that an instance isn't ready for a reason, in words that contain
// the given one.
func waits(reason, word string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ReasonOf(o, "Ready") != reason || !strings.Contains(testkit.Message(o, "Ready"), word) {
			return fmt.Errorf("does not wait because of %s %s", reason, word)
		}
		return nil
	}
}

// counts checks that a deleted definition tells how many instances it waits for.
func counts(n int) func(*unstructured.Unstructured) error {
	text := fmt.Sprintf("%d instance", n)
	return func(o *unstructured.Unstructured) error {
		if o == nil || testkit.ReasonOf(o, "Ready") != "InstancesRemain" || !strings.HasPrefix(testkit.Message(o, "Ready"), text) {
			return fmt.Errorf("doesn't wait for %s", text)
		}
		return nil
	}
}

// neverError checks that an instance isn't in error and that no wait of it is one.
func neverError(o *unstructured.Unstructured) error {
	said := report.Read(o)
	if said.State == "ERROR" {
		return fmt.Errorf("is in state ERROR: %s", testkit.Message(o, "Ready"))
	}
	return nil
}
