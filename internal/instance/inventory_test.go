package instance

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiextensions "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

var (
	webs       = schema.GroupResource{Group: "example.org", Resource: "webs"}
	configMaps = schema.GroupResource{Resource: "configmaps"}
)

// pageNotFound is the answer of a gateway that does not reach the API server, or of a server that does not serve the kind.
func pageNotFound() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", webs, "shop", "404 page not found", 0, true)
}

// wantRetryIfStale checks that a reconcile that ends because of a stale write is followed by another, also if the write was
// answered so without a change of the object, and there is no event.
func wantRetryIfStale(t *testing.T, err error, out reconcile.Result) {
	t.Helper()
	if kube.IsStale(err) && out.RequeueAfter != reconcile.Conflict().RequeueAfter {
		t.Errorf("after %v the next reconcile is in %v", err, out.RequeueAfter)
	}
}

func TestTheInventoryIsWrittenBeforeTheFirstChildIsCreated(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.fail["create ConfigMap a"] = errors.New("the connection is lost")
	f.reconcile()
	f.wantCalls("update Web shop", "create ConfigMap a", "status Web shop")
	web := f.shop()
	if got := web.GetFinalizers(); len(got) != 1 || got[0] != v1alpha1.Finalizer {
		t.Errorf("finalizers: %v", got)
	}
	if got := web.GetAnnotations()[v1alpha1.ApplySetKindsAnnotation]; got != "ConfigMap" {
		t.Errorf("inventory: %q", got)
	}
	if got := web.GetLabels()[v1alpha1.OwnedLabel]; got != "true" {
		t.Errorf("label: %q", got)
	}
}

func TestTheInventoryCannotBeWritten(t *testing.T) {
	cases := map[string]struct {
		err    error
		calls  []string
		failed bool
		ready  string
	}{
		"An instance that has changed is reconciled again by its event": {
			apierrors.NewConflict(webs, "shop", errors.New("changed")), []string{"update Web shop"}, false, "",
		},
		"A page that is not found has no event, and is reconciled again": {pageNotFound(), []string{"update Web shop"}, false, ""},
		"A refusal is reported, and no child is created": {
			apierrors.NewForbidden(webs, "shop", errors.New("no")), []string{"update Web shop", "status Web shop"}, true,
			"False Forbidden: no resource is created while the instance has no finalizer, labels and inventory",
		},
		"A webhook's conflict is reported as a refusal": {
			refusedByWebhook(named(webKind, "prod", "shop")), []string{"update Web shop", "status Web shop"}, true, "False Rejected",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, configMap("a"))
			f.fail["update Web shop"] = tc.err
			out := f.reconcile()
			f.wantCalls(tc.calls...)
			if (out.Err != nil) != tc.failed {
				t.Errorf("failed: %v", out.Err)
			}
			wantRetryIfStale(t, tc.err, out)
			if tc.ready != "" {
				f.wantCondition(v1alpha1.InstanceManaged, tc.ready)
			}
		})
	}
}

func TestAnInventoryProblemIsNotReportedWhileChildrenAreStillBeingRead(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.syncing("ConfigMap")
	f.fail["update Web shop"] = apierrors.NewForbidden(webs, "shop", errors.New("no"))
	if out := f.reconcile(); out.Err == nil {
		t.Errorf("got %+v, want an error", out)
	}
	f.wantCalls("update Web shop")
}

func TestOtherDialectsPatchTheirMetadataAndFields(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.Definition = object.Definition{Name: "webs.example.org", Dialect: object.CompositeDialect}
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
		d.Fields = []inventory.Field{{Path: []string{"spec", "chosen"}, Value: "small"}}
	}
	f.reconcile()
	f.wantCalls("patch Web shop", "create ConfigMap a", "status Web shop")
	if got, _, _ := unstructured.NestedString(f.shop().Object, "spec", "chosen"); got != "small" {
		t.Errorf("spec.chosen is %q", got)
	}
	if got := f.shop().GetFinalizers(); len(got) != 1 || got[0] != apiextensions.CompositeFinalizer {
		t.Errorf("finalizers: %v", got)
	}
}

func TestTheInventoryGrowsBeforeAChildIsCreatedAndShrinksAfterItIsGone(t *testing.T) {
	volume := plan.Node{ID: "volume", Kind: claimKind, Object: named(claimKind, "elsewhere", "volume")}
	f := newReconciled(t, configMap("a"))
	f.nodes.wanted = append(f.nodes.wanted, volume)
	f.reconcile()
	f.wantCalls("update Web shop", "create PersistentVolumeClaim volume")
	web := f.shop().GetAnnotations()
	if kinds, namespaces := web[v1alpha1.ApplySetKindsAnnotation], web[v1alpha1.ApplySetNamespacesAnnotation]; kinds != "ConfigMap,PersistentVolumeClaim" || namespaces != "elsewhere" {
		t.Errorf("kinds %q in namespaces %q", kinds, namespaces)
	}
	f.nodes.wanted = f.nodes.wanted[:1]
	f.reconcile()
	f.wantCalls("delete PersistentVolumeClaim volume")
	f.reconcile()
	f.wantCalls("update Web shop")
	if kinds := f.shop().GetAnnotations()[v1alpha1.ApplySetKindsAnnotation]; kinds != "ConfigMap" {
		t.Errorf("kinds %q", kinds)
	}
}

func TestAKindWhoseNodesAreAllLeftOutIsNotInTheInventory(t *testing.T) {
	volume := plan.Node{ID: "volume", Kind: claimKind, SkipMessage: "not wanted", SkipCause: &plan.SkipCause{By: "volume", Condition: "schema.spec.big"}}
	f := newFixture(t, configMap("a"), volume)
	f.reconcile()
	if kinds := f.shop().GetAnnotations()[v1alpha1.ApplySetKindsAnnotation]; kinds != "ConfigMap" {
		t.Errorf("kinds %q", kinds)
	}
	skipped, _, _ := unstructured.NestedSlice(f.shop().Object, "status", "skipped")
	if len(skipped) != 1 {
		t.Errorf("the status says that %v is left out", skipped)
	}
}

func TestFinalizersOfFormerDefinitionsAreRetired(t *testing.T) {
	former := "0a1b2c3d-0000-4000-8000-000000000000" + v1alpha1.FinalizerSuffix
	cases := map[string]struct {
		err    error
		calls  []string
		failed bool
	}{
		"They are removed after the inventory is written":  {nil, []string{"update Web shop", "set finalizers of Web shop", "create ConfigMap a", "status Web shop"}, false},
		"An instance that has changed is reconciled again": {apierrors.NewConflict(webs, "shop", errors.New("changed")), []string{"update Web shop", "set finalizers of Web shop"}, false},
		"A refusal is reported, and no child is created":   {apierrors.NewForbidden(webs, "shop", errors.New("no")), []string{"update Web shop", "set finalizers of Web shop", "status Web shop"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, configMap("a"))
			f.answer = func(o *unstructured.Unstructured) {
				if f.calls[len(f.calls)-1] == "update Web shop" {
					o.SetFinalizers(append(o.GetFinalizers(), former))
				}
			}
			f.fail["set finalizers of Web shop"] = tc.err
			out := f.reconcile()
			f.wantCalls(tc.calls...)
			if (out.Err != nil) != tc.failed {
				t.Errorf("failed: %v", out.Err)
			}
			wantRetryIfStale(t, tc.err, out)
		})
	}
}

func TestManagedFieldsOfAFormerEngineAreTransferredBeforeTheInventoryIsWritten(t *testing.T) {
	former := fieldsEntry("kro.run/labeller", map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": "y"}}})
	cases := map[string]struct {
		err    error
		calls  []string
		failed bool
	}{
		"The metadata is applied again, so that our manager owns nothing else": {nil, []string{"fold Web shop", "update Web shop"}, false},
		"An instance that has changed is reconciled again":                     {apierrors.NewConflict(webs, "shop", errors.New("changed")), []string{"fold Web shop"}, false},
		"An instance that can't be written is reconciled all the same": {
			apierrors.NewForbidden(webs, "shop", errors.New("no")), []string{"fold Web shop"}, true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newReconciled(t, configMap("a"))
			f.change(shop, func(o *unstructured.Unstructured) {
				o.SetManagedFields(append(o.GetManagedFields(), former))
			})
			f.fail["fold Web shop"] = tc.err
			out := f.reconcile()
			f.wantCalls(tc.calls...)
			if (out.Err != nil) != tc.failed {
				t.Errorf("failed: %v", out.Err)
			}
			wantRetryIfStale(t, tc.err, out)
		})
	}
}
