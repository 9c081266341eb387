package instance

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

func TestASuspendedInstanceIsNotChanged(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.annotate(shop, v1alpha1.ReconcileAnnotation, v1alpha1.ReconcileSuspended)
	f.nodes.wanted = nil
	f.reconcile()
	f.wantCalls("status Web shop", "get Web shop")
	f.wantCondition(v1alpha1.InstanceReady, "False ReconciliationSuspended")
	f.wantEvent("Normal Suspended: requested by an unknown manager (annotation kro.run/reconcile: suspended)")
	f.reconcile()
	f.wantCalls()
	t.Run("It continues when the annotation is removed", func(t *testing.T) {
		f.change(shop, func(o *unstructured.Unstructured) {
			annotations := o.GetAnnotations()
			delete(annotations, v1alpha1.ReconcileAnnotation)
			o.SetAnnotations(annotations)
		})
		f.reconcile()
		f.wantCalls("delete ConfigMap a", "status Web shop")
		f.wantEvent("Normal Resumed")
	})
}

func TestASuspendedInstanceWhoseStatusIsRefusedHasAnEvent(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.annotate(shop, v1alpha1.ReconcileAnnotation, v1alpha1.ReconcileSuspended)
	f.fail["status Web shop"] = apierrors.NewForbidden(webs, "shop", errors.New("no"))
	if out := f.reconcile(); out.Err == nil {
		t.Errorf("got %+v", out)
	}
	f.wantEvent("Warning FailedStatusUpdate")
}

func TestASuspendedInstanceCanBeDeleted(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.annotate(shop, v1alpha1.ReconcileAnnotation, v1alpha1.ReconcileSuspended)
	f.reconcile()
	f.delete()
	f.until("delete ConfigMap a")
	f.until("remove finalizers of Web shop")
}

func TestAuthorsConditionsStayWhileAnInstanceIsSuspendedOrDeleted(t *testing.T) {
	authored := func(t *testing.T) *fixture {
		f := newReconciled(t, configMap("a"))
		f.change(shop, func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "Healthy", "status": "True"}}, "status", "conditions")
		})
		return f
	}
	for name, given := range map[string]func(*fixture){
		"Suspended": func(f *fixture) { f.annotate(shop, v1alpha1.ReconcileAnnotation, v1alpha1.ReconcileSuspended) },
		"Deleted":   func(f *fixture) { f.delete() },
	} {
		t.Run(name, func(t *testing.T) {
			f := authored(t)
			given(f)
			f.reconcile()
			f.wantCondition("Healthy", "True")
			f.wantCondition(v1alpha1.InstanceReady, "False")
			f.wantCondition(v1alpha1.InstanceResourcesReady, " : ")
		})
	}
}

// several chooses between composers.
type several struct {
	*nodes
	chosen Composer
}

func (s several) Choose(*unstructured.Unstructured) Composer { return s.chosen }

func TestAnInstanceIsComposedByItsChosenComposer(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.SetComposer(several{f.nodes, &nodes{wanted: []plan.Node{configMap("b")}}})
	f.reconcile()
	f.wantCalls("update Web shop", "create ConfigMap b", "status Web shop")
}

func TestAFrozenComposerChangesNothing(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	_ = unstructured.SetNestedField(f.shop().Object, "vpc-1", "status", "id")
	f.nodes.wanted = nil
	f.SetComposer(&Frozen{Composer: f.nodes, Problem: plan.Problem{Reason: plan.RevisionMissing, Message: "no revision 4"}})
	f.reconcile()
	f.wantCalls("status Web shop")
	f.wantCondition(v1alpha1.InstanceReady, "RevisionMissing: no revision 4")
	if id, _, _ := unstructured.NestedString(f.shop().Object, "status", "id"); id != "vpc-1" {
		t.Errorf("status.id is %q", id)
	}
}

func TestTheReadinessOfInstancesIsCachedAndItsChangesAreReported(t *testing.T) {
	changed := 0
	f := newFixture(t, configMap("a"))
	f.Readiness = &ReadinessCache{Changed: func() { changed++ }}
	f.nodes.unready = map[string]bool{"a": true}
	f.reconcile()
	if is, known := f.Readiness.Of(shop); !known || is.Ready || is.Reason == "" || is.By != f.nodes {
		t.Errorf("got %+v, %t", is, known)
	}
	f.nodes.unready = nil
	f.reconcile()
	f.reconcile()
	if is, _ := f.Readiness.Of(shop); !is.Ready || changed != 2 {
		t.Errorf("got %+v after %d changes", is, changed)
	}
	delete(f.objects, shop)
	f.reconcile()
	if _, known := f.Readiness.Of(shop); known {
		t.Error("one that is gone is known")
	}
}

func TestPropagationOfAValueBetweenLayersIsMeasured(t *testing.T) {
	nested := webKind
	nested.Kind = "Vpc"
	vpc := object.Key{Group: "example.org", Kind: "Vpc", Namespace: "prod", Name: "vpc"}
	var took []time.Duration
	f := newReconciled(t, plan.Node{ID: "vpc", Kind: nested, Object: named(nested, "prod", "vpc")})
	f.Layers = telemetry.NewStatusPropagation(func(_, _ schema.GroupKind, d time.Duration) { took = append(took, d) })
	f.change(vpc, func(o *unstructured.Unstructured) {
		labels := o.GetLabels()
		labels[v1alpha1.ApplySetIDLabel] = "applyset-vpc-v1"
		o.SetLabels(labels)
	})
	written := func(id string) {
		f.change(vpc, func(o *unstructured.Unstructured) { _ = unstructured.SetNestedField(o.Object, id, "status", "id") })
		f.Layers.RecordWrite("uid-vpc", f.now)
		f.pass(time.Second)
		f.reconcile()
	}
	written("vpc-0")
	if took != nil {
		t.Errorf("measured %v, though no value has gone up", took)
	}
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
		d.Status["id"], _, _ = unstructured.NestedString(d.Nodes[0].Observed.Object, "status", "id")
	}
	f.reconcile()
	written("vpc-1")
	if !slices.Equal(took, []time.Duration{time.Second}) {
		t.Errorf("took %v", took)
	}
	f.reconcile()
	if len(took) != 1 {
		t.Errorf("measured again: %v", took)
	}
}

func TestTheStatusOfANestedInstanceStartsPropagation(t *testing.T) {
	var took int
	f := newFixture(t, configMap("a"))
	f.Layers = telemetry.NewStatusPropagation(func(_, _ schema.GroupKind, _ time.Duration) { took++ })
	above := inventory.Owner{Kind: webKind, Namespace: "prod", Name: "above", UID: "above", Definition: definition}
	above.Mark(f.shop(), inventory.Place{Node: "shop"})
	f.reconcile()
	if _, was := f.Layers.RecordRead("i", f.now); !was {
		t.Error("its status isn't on its way")
	}
}

func TestAReplicaForgetsTheStatusWritesOfAnInstanceThatItGivesAway(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.Layers = telemetry.NewStatusPropagation(func(schema.GroupKind, schema.GroupKind, time.Duration) {})
	above := inventory.Owner{Kind: webKind, Namespace: "prod", Name: "above", UID: "above", Definition: definition}
	above.Mark(f.shop(), inventory.Place{Node: "shop"})
	f.reconcile()
	f.Disown(shop)
	if since, was := f.Layers.RecordRead("i", f.now.Add(time.Hour)); was {
		t.Errorf("a status of %s is still on its way: when the instance comes back, the first value would count as an hour late", since)
	}
}
