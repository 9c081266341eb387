package instance

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

// copies puts copies of a child beside it: with its label alone, with its signature under other
// names, with an owner reference instead, and in another namespace. It returns their keys.
func (f *fixture) copies(of object.Key) []object.Key {
	var keys []object.Key
	for name, change := range map[string]func(*unstructured.Unstructured){
		"label": func(o *unstructured.Unstructured) { o.SetAnnotations(nil) },
		"signature": func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Web", Name: "shop", UID: "i"}})
		},
		"reference": func(o *unstructured.Unstructured) {
			o.SetAnnotations(nil)
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Web", Name: "shop", UID: "i"}})
		},
		"there": func(o *unstructured.Unstructured) { o.SetNamespace("team") },
	} {
		o := f.objects[of].DeepCopy()
		o.SetName(name)
		o.SetUID(types.UID(name))
		change(o)
		keys = append(keys, object.KeyOf(f.put(o)))
	}
	return keys
}

func (f *fixture) wantUntouched(keys []object.Key) {
	f.t.Helper()
	for _, key := range keys {
		if o := f.objects[key]; o == nil || o.GetDeletionTimestamp() != nil || o.GetName() == "" {
			f.t.Errorf("%s was deleted", key)
		}
	}
	for _, call := range f.calls {
		if strings.Contains(call, "label") || strings.Contains(call, "signature") || strings.Contains(call, "reference") || strings.Contains(call, "there") {
			f.t.Errorf("there was a request: %s", call)
		}
	}
}

func TestCopiesOfChildrenAreLeftAlone(t *testing.T) {
	f := newReconciled(t, configMap("a"), configMap("b"))
	copies := f.copies(keyOf("a"))
	f.reconcile()
	f.wantCalls()
	f.nodes.wanted = f.nodes.wanted[1:]
	f.nodes.written = f.nodes.ChildKinds()
	f.reconcile()
	f.wantCalls("delete ConfigMap a")
	f.wantUntouched(copies)
	if got := f.shop().GetAnnotations()[v1alpha1.ApplySetNamespacesAnnotation]; got != "" {
		t.Errorf("the inventory has namespaces %s", got)
	}

	t.Log("they do not hold up the deletion")
	f.delete()
	f.reconcile()
	f.reconcile()
	f.wantUntouched(copies)
	if f.shop() != nil && len(f.shop().GetFinalizers()) > 0 {
		t.Errorf("the instance stays: %v", f.blockers())
	}
}

func TestACopyInANodesPlaceIsForeign(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	attack := f.objects[keyOf("a")].DeepCopy()
	attack.SetName("b")
	attack.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: f.shop().GetLabels()[v1alpha1.ApplySetIDLabel], v1alpha1.NodeIDLabel: "b"})
	f.put(attack)
	f.nodes.wanted = append(f.nodes.wanted, configMap("b"))
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceReady, "nothing proves that the instance has created it")

	t.Log("the definition lets the node adopt it")
	f.nodes.wanted[1].AdoptUnowned = true
	f.reconcile()
	f.reconcile()
	if o := f.objects[keyOf("b")]; o.GetAnnotations()[v1alpha1.SignatureAnnotation] == attack.GetAnnotations()[v1alpha1.SignatureAnnotation] {
		t.Error("it was not adopted")
	}
}

func TestAChildThatLostItsNodeIsRepaired(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.change(keyOf("a"), func(o *unstructured.Unstructured) {
		labels := maps.Clone(o.GetLabels())
		labels[v1alpha1.NodeIDLabel] = "other"
		o.SetLabels(labels)
	})
	f.reconcile()
	f.wantCalls("create ConfigMap a", "update ConfigMap a")
	f.reconcile()
	f.wantCalls()
}

func TestAModifiedInventoryIsSignedWithoutItsNamespaces(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.nodes.wanted = append(f.nodes.wanted, configMap("b", "a"))
	f.nodes.unready = map[string]bool{"a": true} // the inventory only grows while something waits
	f.change(shop, func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		annotations[v1alpha1.ApplySetNamespacesAnnotation] = "kube-system"
		annotations[v1alpha1.ApplySetHashAnnotation] = object.Digest([]string{o.GetLabels()[v1alpha1.ApplySetIDLabel], "ConfigMap", "kube-system"})
		o.SetAnnotations(annotations)
	})
	f.reconcile()
	if got := f.shop().GetAnnotations()[v1alpha1.ApplySetNamespacesAnnotation]; got != "" {
		t.Errorf("the engine has signed the namespaces %s", got)
	}
	owner := inventory.OwnerOf(f.shop(), definition, "v1").Recognizing(signing.Keys(), f.shop(), time.Time{})
	if !owner.IsIntact(f.shop()) {
		t.Error("the inventory isn't signed")
	}
}

// TestAnUpgradeSigns has an instance of an earlier release, with a child that no owner reference
// leads to.
func TestAnUpgradeSigns(t *testing.T) {
	far := configMap("far")
	far.Object.SetNamespace("team")
	f := newReconciled(t, configMap("near"), far)
	farKey := object.Key{Kind: "ConfigMap", Namespace: "team", Name: "far"}
	before := metav1.Time{Time: signing.Created.Add(-time.Hour)}
	for _, key := range []object.Key{keyOf("near"), farKey} {
		f.change(key, func(o *unstructured.Unstructured) {
			annotations := o.GetAnnotations()
			delete(annotations, v1alpha1.SignatureAnnotation)
			o.SetAnnotations(annotations)
			o.SetCreationTimestamp(before)
		})
	}
	f.change(shop, func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		annotations[v1alpha1.ApplySetHashAnnotation] = object.Digest([]string{o.GetLabels()[v1alpha1.ApplySetIDLabel], "ConfigMap", "team"})
		o.SetAnnotations(annotations)
		o.SetCreationTimestamp(before)
	})

	t.Log("a crash after the inventory is written loses no child")
	f.fail["update ConfigMap near"], f.fail["update ConfigMap far"] = context.DeadlineExceeded, context.DeadlineExceeded
	f.reconcile()
	f.Reconciler.memories = memories{}
	clear(f.fail)
	// Digests are of what was applied, with the signature.
	for _, key := range []object.Key{keyOf("near"), farKey} {
		f.change(key, func(o *unstructured.Unstructured) {
			annotations := o.GetAnnotations()
			annotations[v1alpha1.AppliedAnnotation] = "of an earlier release"
			o.SetAnnotations(annotations)
		})
	}
	f.reconcile()
	slices.Sort(f.calls)
	if calls := strings.Join(f.calls, ", "); !strings.Contains(calls, "update ConfigMap far, update ConfigMap near") || strings.Contains(calls, "create") || strings.Contains(calls, "delete") {
		t.Errorf("requests: %s", calls)
	}
	for _, key := range []object.Key{keyOf("near"), farKey} {
		if f.objects[key].GetAnnotations()[v1alpha1.SignatureAnnotation] == "" {
			t.Errorf("%s isn't signed", key)
		}
	}
	f.reconcile()
	f.wantCalls()
}

func TestWithoutAKeyNothingIsReconciled(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.Keys = inventory.Keys{}
	if out := f.reconcile(); out.Err == nil || len(f.calls) > 0 {
		t.Errorf("it was reconciled: %v", f.calls)
	}
}

func TestDefinitionsReadNoSigningKey(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{v1alpha1.SigningKeySecret, "other"} {
		f.put(named(inventory.SecretKind, "kube-system", name))
	}
	lease := f.openLease(shop)
	if found, _ := lease.Object(inventory.SecretKind, "kube-system", v1alpha1.SigningKeySecret); found != nil {
		t.Error("it is read by its name")
	}
	if found, _ := lease.Object(inventory.SecretKind, "kube-system", "other"); found == nil {
		t.Error("another Secret isn't read")
	}
	if found, _ := lease.Matching(inventory.SecretKind, "", labels.Everything()); len(found) != 1 || found[0].GetName() != "other" {
		t.Errorf("Secrets by labels: %v", found)
	}
	for _, name := range []string{v1alpha1.SigningKeySecret, "other"} {
		f.change(object.Key{Kind: "Secret", Namespace: "kube-system", Name: name}, func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: "x"})
		})
	}
	if found, _ := lease.Children(inventory.SecretKind, "x"); len(found) != 1 || found[0].GetName() != "other" {
		t.Errorf("Secrets as children: %v", found)
	}
}

// TestTheSigningKeyIsNeverAChild has a node with its name, in the key's namespace and in another one.
func TestTheSigningKeyIsNeverAChild(t *testing.T) {
	for _, namespace := range []string{"kube-system", "prod"} {
		for _, exists := range []bool{true, false} {
			o := named(inventory.SecretKind, namespace, v1alpha1.SigningKeySecret)
			f := newFixture(t, plan.Node{ID: "key", Kind: inventory.SecretKind, Object: o, AdoptUnowned: true})
			if exists {
				f.put(o.DeepCopy())
			}
			f.reconcile()
			f.wantCondition(v1alpha1.InstanceReady, "reserved for the signing key")
			if out := f.reconcile(); out.Err != nil || out.RequeueAfter > 0 {
				t.Errorf("it is reconciled again: %v", out)
			}
			f.wantCalls()
			f.delete()
			f.reconcile()
			if o := f.objects[object.KeyOf(o)]; exists && (o == nil || o.GetDeletionTimestamp() != nil || len(o.GetLabels()) > 0) {
				t.Errorf("the Secret in %s is touched: %v", namespace, o)
			}
		}
	}
}
