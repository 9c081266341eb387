package instance

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

func TestANodeWaitsForOneThatIsNotReady(t *testing.T) {
	f := newFixture(t, configMap("a"), configMap("b", "a"))
	f.nodes.unready = map[string]bool{"a": true}
	out := f.reconcile()
	f.wantCalls("update Web shop", "create ConfigMap a", "status Web shop")
	f.wantCondition(v1alpha1.InstanceResourcesReady, "b waits for a")
	if out.RequeueAfter == 0 {
		t.Error("no time is set for another look")
	}
	f.nodes.unready = nil
	f.reconcile()
	f.wantCalls("create ConfigMap b", "status Web shop")
}

func TestAnUnchangedObjectIsNotWritten(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.reconcile()
	f.wantCalls()
}

func TestAChangedObjectIsUpdated(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.nodes.wanted[0].Object.Object["data"] = map[string]any{"a": "c"}
	f.reconcile()
	f.wantCalls("update ConfigMap a")
	if got, _, _ := unstructured.NestedString(f.objects[keyOf("a")].Object, "data", "a"); got != "c" {
		t.Errorf("data.a is %q", got)
	}
}

func TestADeletedChildIsRecreated(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	delete(f.objects, keyOf("a"))
	f.reconcile()
	f.wantCalls("create ConfigMap a")
}

func TestAFailedWriteIsAProblemOfItsNode(t *testing.T) {
	cases := map[string]struct {
		err     error
		reason  string
		message string
	}{
		"An invalid object":           {invalid("no"), "Rejected", "no"},
		"A forbidden write":           {apierrors.NewForbidden(configMaps, "a", errors.New("no")), "Forbidden", "forbidden"},
		"A transient error":           {apierrors.NewTooManyRequests("later", 1), "Unavailable", "later"},
		"A request without an answer": {errors.New("the connection is lost"), "Unavailable", "the connection is lost"},
		"A conflict from a webhook":   {refusedByWebhook(configMap("a").Object), "Rejected", "the server reported a conflict"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, configMap("a"), configMap("b"))
			f.fail["create ConfigMap a"] = tc.err
			if out := f.reconcile(); out.Err == nil || !strings.Contains(out.Err.Error(), "a: ") {
				t.Errorf("the reconcile isn't repeated for node a: %v", out.Err)
			}
			if !slices.Contains(f.calls, "create ConfigMap b") {
				t.Error("the other node is held up")
			}
			f.wantCondition(v1alpha1.InstanceResourcesReady, "False "+tc.reason)
			f.wantCondition(v1alpha1.InstanceResourcesReady, tc.message)
			f.fail = nil
			f.reconcile()
			f.wantCondition(v1alpha1.InstanceReady, "True")
		})
	}
}

func TestDataOfASecretIsNotReported(t *testing.T) {
	secret := configMap("a")
	secret.Sensitive = true
	f := newFixture(t, secret)
	f.fail["create ConfigMap a"] = invalid("hunter2 is no password")
	out := f.reconcile()
	f.wantCondition(v1alpha1.InstanceResourcesReady, "Rejected")
	for _, text := range []string{out.Err.Error(), fmt.Sprint(f.shop().Object), strings.Join(f.events, " ")} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("the message has the value: %s", text)
		}
	}
}

func TestAPanicIsAFailureOfItsOwnWriteOnly(t *testing.T) {
	f := newFixture(t, configMap("a"), configMap("b"))
	f.Children = panicking{fakeCache{f.fake}}
	if out := f.reconcile(); out.Err == nil || !strings.Contains(out.Err.Error(), "panic with a ") {
		t.Errorf("got %v", out.Err)
	}
	if !slices.Contains(f.calls, "create ConfigMap b") {
		t.Error("the other node is held up")
	}
}

type panicking struct{ fakeCache }

func (p panicking) Write(s watch.Subscriber, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	answer, err := p.fakeCache.Write(s, do)
	if answer != nil && answer.GetName() == "a" {
		panic("a secret")
	}
	return answer, err
}

func TestACreationThatFindsTheNameTaken(t *testing.T) {
	holder := func(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o := named(configMapKind, "prod", "a")
		o.SetUID("other")
		change(o)
		return o
	}
	cases := map[string]struct {
		holder  *unstructured.Unstructured
		adopt   bool
		calls   []string
		problem string
	}{
		"A foreign object is not changed": {
			holder(func(*unstructured.Unstructured) {}), false,
			[]string{"update Web shop", "create ConfigMap a", "status Web shop"}, "NotOwned: ConfigMap.v1 prod/a already exists",
		},
		"An object without owner is adopted if the node may": {
			holder(func(*unstructured.Unstructured) {}), true,
			[]string{"update Web shop", "create ConfigMap a", "update ConfigMap a", "status Web shop"}, "",
		},
		"A terminating object is waited for": {
			holder(func(o *unstructured.Unstructured) {
				o.SetFinalizers([]string{"other/keeps"})
				o.SetDeletionTimestamp(&metav1.Time{Time: now})
			}), true,
			[]string{"update Web shop", "create ConfigMap a", "status Web shop"}, "NameHeld",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := configMap("a")
			node.AdoptUnowned = tc.adopt
			f := newFixture(t, node)
			f.put(tc.holder)
			f.reconcile()
			f.wantCalls(tc.calls...)
			if tc.problem == "" {
				f.wantCondition(v1alpha1.InstanceReady, "True")
				return
			}
			f.wantCondition(v1alpha1.InstanceResourcesReady, strings.TrimPrefix(tc.problem, "NotOwned: ConfigMap.v1 prod/a "))
			f.reconcile()
			f.wantCalls() // it isn't tried again while the holder is there
			delete(f.objects, keyOf("a"))
			f.reconcile()
			f.wantCalls("create ConfigMap a", "status Web shop")
		})
	}
}

func TestAnObjectThatAppearedMeanwhileAndIsOursIsUpdated(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	ours := f.objects[keyOf("a")]
	f.nodes.adjust = func(d *plan.Desired, facts plan.Facts) {
		if len(f.calls) == 0 { // the cache doesn't have it yet
			d.Nodes[0].Observed, d.Nodes[0].Ready = nil, false
		}
	}
	f.objects[keyOf("a")] = ours
	f.reconcile()
	f.wantCalls("create ConfigMap a", "update ConfigMap a")
}

func TestAnObjectOfAnInstanceThatIsBeingDeletedIsWaitedFor(t *testing.T) {
	f := newFixture(t, configMap("a"))
	other := newFixture(t, configMap("a"))
	other.reconcile()
	holder := other.objects[keyOf("a")].DeepCopy()
	labels := holder.GetLabels()
	labels[v1alpha1.InstanceNameLabel], labels[v1alpha1.ApplySetPartOfLabel] = "market", inventory.ApplySetID(market)
	holder.SetLabels(labels)
	holder.SetAnnotations(map[string]string{v1alpha1.SignatureAnnotation: signing.Keys().SignatureOf("market-1", market, object.KeyOf(holder), inventory.Node(holder))})
	f.put(holder)
	going := named(webKind, "prod", "market")
	going.SetFinalizers([]string{v1alpha1.Finalizer})
	f.put(going)
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceResourcesReady, "NotOwned")
	f.change(market, func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(&metav1.Time{Time: now}) })
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceResourcesReady, "NameHeld")
	f.syncing("Web")
	f.pass(time.Hour)
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceResourcesReady, "Syncing")
}

// Whoever may write the labels of an object would otherwise see by them whether another object,
// which they may not read, is being deleted.
func TestForgedLabelsShowNothingOfAnotherInstance(t *testing.T) {
	f := newFixture(t, configMap("a"))
	other := newFixture(t, configMap("a"))
	other.reconcile()
	holder := other.objects[keyOf("a")].DeepCopy()
	labels := holder.GetLabels()
	labels[v1alpha1.InstanceNameLabel], labels[v1alpha1.ApplySetPartOfLabel] = "market", inventory.ApplySetID(market)
	holder.SetLabels(labels)
	holder.SetAnnotations(nil)
	f.put(holder)
	going := named(webKind, "prod", "market")
	going.SetFinalizers([]string{v1alpha1.Finalizer})
	going.SetDeletionTimestamp(&metav1.Time{Time: now})
	f.put(going)
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceResourcesReady, "NotOwned")
}

var market = func() (k object.Key) { k = shop; k.Name = "market"; return }()

func TestANamespaceThatIsMissingIsWaitedFor(t *testing.T) {
	namespaces := schema.GroupResource{Resource: "namespaces"}
	gone := apierrors.NewNotFound(namespaces, "prod")
	going := apierrors.NewForbidden(configMaps, "a", errors.New("it is being terminated"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		err     error
		going   bool
		message string
	}{
		"The namespace does not exist": {gone, false, "namespace prod not found"},
		"It is being deleted":          {going, true, "namespace prod is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, configMap("a"))
			namespace := named(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "", "prod")
			if tc.going {
				namespace.SetFinalizers([]string{"kubernetes"})
				namespace.SetDeletionTimestamp(&metav1.Time{Time: now})
				f.put(namespace.DeepCopy())
			}
			f.fail["create ConfigMap a"] = tc.err
			if out := f.reconcile(); out.Err != nil {
				t.Errorf("waiting is no error: %v", out.Err)
			}
			f.wantCondition(v1alpha1.InstanceResourcesReady, "WaitingForNamespace: a: "+tc.message)
			f.fail = nil
			f.reconcile()
			f.wantCalls()
			namespace.SetDeletionTimestamp(nil)
			f.put(namespace)
			f.reconcile()
			f.wantCalls("create ConfigMap a", "status Web shop")
		})
	}
}

func TestAKindThatIsBeingDeletedIsWaitedForBeforeItsEvent(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.fail["create ConfigMap a"] = apierrors.NewForbidden(configMaps, "a", errors.New("create not allowed while custom resource definition is terminating"))
	if out := f.reconcile(); out.Err != nil {
		t.Errorf("waiting is no error: %v", out.Err)
	}
	f.wantCondition(v1alpha1.InstanceResourcesReady, "WaitingForKind: a: the CustomResourceDefinition of ConfigMap is being deleted")
}

func TestAnUpdateOfAnObjectThatIsGoneWaitsForItsEvent(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.nodes.wanted[0].Object.Object["data"] = map[string]any{"a": "c"}
	f.fail["update ConfigMap a"] = apierrors.NewConflict(configMaps, "a", errors.New("another has its name"))
	out := f.reconcile()
	if out.Err != nil {
		t.Errorf("got %v", out.Err)
	}
	wantRetryIfStale(t, f.fail["update ConfigMap a"], out)
	f.wantCalls("update ConfigMap a", "status Web shop")
	f.wantCondition(v1alpha1.InstanceReady, "is being applied")
}

func TestManagedFieldsOfAFormerEngineAreTransferredBeforeAnUpdate(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		calls  []string
		failed bool
	}{
		"The object is applied afterwards":           {nil, []string{"fold ConfigMap a", "update ConfigMap a"}, false},
		"An object that is gone waits for its event": {apierrors.NewNotFound(configMaps, "a"), []string{"fold ConfigMap a", "status Web shop"}, false},
		"A refusal is a problem of the node":         {apierrors.NewForbidden(configMaps, "a", errors.New("no")), []string{"fold ConfigMap a", "status Web shop"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newReconciled(t, configMap("a"))
			f.change(keyOf("a"), func(o *unstructured.Unstructured) {
				o.SetManagedFields(append(o.GetManagedFields(), fieldsEntry("kro.run/labeller", map[string]any{"data": map[string]any{"z": "z"}})))
			})
			f.fail["fold ConfigMap a"] = tc.err
			out := f.reconcile()
			f.wantCalls(tc.calls...)
			if (out.Err != nil) != tc.failed {
				t.Errorf("failed: %v", out.Err)
			}
			wantRetryIfStale(t, tc.err, out)
		})
	}
}

func TestAnItemOfACollectionNamesItselfInItsProblem(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
		d.Nodes[0].Collection, d.Nodes[0].Item, d.Nodes[0].ID = "all", &inventory.Item{Index: 0, Size: 1}, "all[a]"
	}
	f.fail["create ConfigMap a"] = invalid("no")
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceResourcesReady, "item prod/a: ")
}

// invalid is the answer of validation.
func invalid(why string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: why}}
}
