package instance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// overwrite has another manager set data.a of the ConfigMap a, and own it.
func (f *fixture) overwrite(value string) {
	f.change(keyOf("a"), func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, value, "data", "a")
		ours := o.DeepCopy().Object
		unstructured.RemoveNestedField(ours, "data")
		unstructured.RemoveNestedField(ours, "metadata", "managedFields")
		theirs := fieldsEntry("kubectl-edit", map[string]any{"data": map[string]any{"a": value}})
		theirs.Operation = metav1.ManagedFieldsOperationUpdate
		o.SetManagedFields([]metav1.ManagedFieldsEntry{fieldsEntry(v1alpha1.ChildManager, ours), theirs})
	})
}

func (f *fixture) data() string {
	got, _, _ := unstructured.NestedString(f.objects[keyOf("a")].Object, "data", "a")
	return got
}

func TestDriftIsCorrectedAndTheManagerNamed(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.overwrite("theirs")
	f.reconcile()
	f.wantCalls("get ConfigMap a", "update ConfigMap a")
	f.wantEvent("Warning DriftCorrected: data.a of ConfigMap prod/a was changed by kubectl-edit and is corrected")
	if f.data() != "b" {
		t.Errorf("data.a is %q", f.data())
	}
}

// TestOnlyManagersOfLostFieldsAreNamed has two more managers that own fields which are as desired.
func TestOnlyManagersOfLostFieldsAreNamed(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.overwrite("theirs")
	f.change(keyOf("a"), func(o *unstructured.Unstructured) {
		labels := fieldsEntry("labeller", map[string]any{"metadata": map[string]any{"labels": o.Object["metadata"].(map[string]any)["labels"]}})
		other := fieldsEntry("writer", map[string]any{"data": map[string]any{"other": "x"}})
		o.SetManagedFields(append(o.GetManagedFields(), labels, other))
	})
	f.reconcile()
	f.wantEvent("data.a of ConfigMap prod/a was changed by kubectl-edit and is corrected")
}

func TestARemovedFieldHasNoManager(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.overwrite("theirs")
	f.change(keyOf("a"), func(o *unstructured.Unstructured) {
		unstructured.RemoveNestedField(o.Object, "data", "a")
		theirs := fieldsEntry("kubectl-edit", map[string]any{"data": map[string]any{"other": "x"}})
		o.SetManagedFields(append(o.GetManagedFields()[:1], theirs))
	})
	f.reconcile()
	f.wantEvent("data.a of ConfigMap prod/a was changed by an unknown manager")
}

func TestDriftIsCorrectedIfTheManagerCannotBeRead(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.overwrite("theirs")
	f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.SetManagedFields(o.GetManagedFields()[:1]) }) // as a cache has it
	f.fail["get ConfigMap a"] = errors.New("the connection is lost")
	f.reconcile()
	f.wantCalls("get ConfigMap a", "update ConfigMap a")
	f.wantEvent("was changed by an unknown manager")
}

func TestUngrantedFieldsAreNoDrift(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.answer = func(o *unstructured.Unstructured) {
		if o.GetKind() == "ConfigMap" { // the schema doesn't know data.a
			ours := o.DeepCopy().Object
			unstructured.RemoveNestedField(ours, "data")
			unstructured.RemoveNestedField(ours, "metadata", "managedFields")
			o.SetManagedFields([]metav1.ManagedFieldsEntry{fieldsEntry(v1alpha1.ChildManager, ours)})
		}
	}
	f.reconcile()
	f.reconcile()
	f.wantCalls()
	if len(f.events) > 0 {
		t.Errorf("events: %q", f.events)
	}
}

func TestAContestedFieldIsReportedAndNotHotLooped(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	for range 3 {
		f.overwrite("theirs")
		f.reconcile()
		f.pass(time.Second)
	}
	f.overwrite("again")
	out := f.reconcile()
	f.wantCalls("status Web shop")
	f.wantCondition(v1alpha1.InstanceResourcesReady, "DriftContested: a: another manager keeps overwriting data.a of ConfigMap prod/a")
	f.pass(out.RequeueAfter)
	f.reconcile() // the other manager has been quiet
	f.wantCalls("update ConfigMap a")
	if len(f.events) > 0 {
		t.Errorf("the correction is recorded as drift: %q", f.events)
	}
	f.pass(time.Minute)
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceReady, "True")
}

func TestDriftPolicyWarn(t *testing.T) {
	warns := func(t *testing.T) *fixture {
		node := configMap("a")
		node.Drift = plan.Drift{Policy: v1alpha1.DriftWarn}
		f := newReconciled(t, node)
		f.overwrite("theirs")
		return f
	}
	t.Run("Drift is reported with its manager, and kept", func(t *testing.T) {
		f := warns(t)
		f.reconcile()
		f.wantCalls("try ConfigMap a", "get ConfigMap a", "status Web shop")
		f.wantCondition(v1alpha1.InstanceDrifted, "data.a of ConfigMap prod/a is set by kubectl-edit, and is kept")
		f.wantEvent("Warning DriftDetected")
		f.reconcile()
		f.wantCalls()
		if f.data() != "theirs" {
			t.Errorf("data.a is %q", f.data())
		}
	})
	t.Run("The end of drift is reported", func(t *testing.T) {
		f := warns(t)
		f.reconcile()
		f.nodes.wanted[0].Drift = plan.Drift{}
		f.reconcile()
		f.wantCalls("get ConfigMap a", "update ConfigMap a", "status Web shop")
		f.wantEvent("Normal DriftEnded")
	})
	t.Run("The manager can't be read", func(t *testing.T) {
		f := warns(t)
		f.fail["try ConfigMap a"] = errors.New("the connection is lost")
		f.fail["get ConfigMap a"] = errors.New("the connection is lost")
		f.reconcile()
		f.wantCondition(v1alpha1.InstanceDrifted, "is set by an unknown manager")
	})
	t.Run("An update leaves the field out where drift is ignored", func(t *testing.T) {
		f := warns(t)
		f.nodes.wanted[0].Drift = plan.Drift{Policy: v1alpha1.DriftIgnore}
		f.nodes.wanted[0].Object.Object["data"] = map[string]any{"a": "b", "c": "d"}
		f.reconcile()
		f.wantCalls("update ConfigMap a")
		if f.data() != "theirs" {
			t.Errorf("data.a is %q", f.data())
		}
	})
	t.Run("A field that the server never granted has not drifted", func(t *testing.T) {
		f := warns(t)
		f.Cluster = prunes{fakeCluster{f.fake}}
		f.reconcile()
		f.wantCalls("try ConfigMap a")
		if len(f.events) > 0 {
			t.Errorf("events: %q", f.events)
		}
	})
}

// prunes is a server whose schema doesn't know data.
type prunes struct{ fakeCluster }

func (p prunes) DryRunUpdate(ctx context.Context, o *unstructured.Unstructured, uid types.UID, manager string) (*unstructured.Unstructured, error) {
	o = o.DeepCopy()
	delete(o.Object, "data")
	return p.fakeCluster.DryRunUpdate(ctx, o, uid, manager)
}

func TestANodeThatRefusesConflicts(t *testing.T) {
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".data.a"}}, "conflict")
	shares := func() plan.Node {
		node := configMap("a")
		node.RefuseConflicts, node.AdoptUnowned = true, true
		return node
	}
	t.Run("An own object is in conflict until it changes", func(t *testing.T) {
		f := newReconciled(t, shares())
		f.overwrite("theirs")
		f.fail["share ConfigMap a"] = conflict
		f.reconcile()
		f.wantCondition(v1alpha1.InstanceResourcesReady, "FieldConflict")
		if !strings.Contains(f.message(), "kubectl-edit") {
			t.Errorf("the manager isn't named: %s", f.message())
		}
		f.reconcile()
		if slices.Contains(f.calls, "share ConfigMap a") {
			t.Error("it is tried again although nothing has changed")
		}
		f.fail = nil
		f.overwrite("other")
		f.reconcile()
		f.wantCondition(v1alpha1.InstanceReady, "True")
	})
	t.Run("An object to adopt is watched by its name", func(t *testing.T) {
		f := newFixture(t, shares())
		holder := named(configMapKind, "prod", "a")
		holder.SetUID("other")
		f.put(holder)
		f.fail["share ConfigMap a"] = conflict
		f.fail["get ConfigMap a"] = errors.New("the connection is lost")
		f.reconcile()
		f.wantCalls("update Web shop", "create ConfigMap a", "share ConfigMap a", "get ConfigMap a", "status Web shop")
		f.wantCondition(v1alpha1.InstanceResourcesReady, "FieldConflict")
		f.reconcile()
		f.wantCalls()
		if !slices.Contains(f.watched, "ConfigMap a") {
			t.Errorf("watched: %q", f.watched)
		}
		f.fail = nil
		f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"x": "y"}) })
		f.reconcile()
		f.wantCalls("create ConfigMap a", "share ConfigMap a", "status Web shop")
	})
}

func (f *fixture) message() string {
	c, _ := condition.Read(f.shop()).Get(v1alpha1.InstanceResourcesReady)
	return c.Message
}
