package instance

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// loss is what another writer does to one mark of a child.
type loss struct {
	name    string
	removes bool
	do      func(*unstructured.Unstructured)
}

func (l loss) String() string { return l.name }

// losses are all that can be done to the marks of a child, one at a time.
func losses(child *unstructured.Unstructured) []loss {
	var out []loss
	texts := func(keys []string, get func(*unstructured.Unstructured) map[string]string, set func(*unstructured.Unstructured, map[string]string)) {
		for _, key := range keys {
			out = append(out,
				loss{"without " + key, true, func(o *unstructured.Unstructured) {
					all := maps.Clone(get(o))
					delete(all, key)
					set(o, all)
				}},
				loss{"another " + key, false, func(o *unstructured.Unstructured) {
					all := maps.Clone(get(o))
					all[key] = "other"
					set(o, all)
				}})
		}
	}
	labels, annotations := inventory.Marks(child)
	texts(labels, (*unstructured.Unstructured).GetLabels, (*unstructured.Unstructured).SetLabels)
	texts(annotations, (*unstructured.Unstructured).GetAnnotations, (*unstructured.Unstructured).SetAnnotations)
	for _, ref := range child.GetOwnerReferences() {
		change := func(name string, do func(*metav1.OwnerReference)) {
			out = append(out, loss{name + " the owner reference to " + ref.Kind, name == "without", func(o *unstructured.Unstructured) {
				var left []metav1.OwnerReference
				for _, r := range o.GetOwnerReferences() {
					if r.Kind == ref.Kind && r.UID == ref.UID {
						do(&r)
					}
					if r.Kind != "" {
						left = append(left, r)
					}
				}
				o.SetOwnerReferences(left)
			}})
		}
		change("without", func(r *metav1.OwnerReference) { r.Kind = "" })
		change("another UID in", func(r *metav1.OwnerReference) { r.UID = "other" })
		change("another name in", func(r *metav1.OwnerReference) { r.Name = "other" })
	}
	return out
}

// TestEveryMarkOfAChildHeals removes and changes each mark of a child, and each two of them. What a
// program remembers of a child makes up for a signature and an owner reference that are lost together.
func TestEveryMarkOfAChildHeals(t *testing.T) {
	crds := map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{webKind.GroupKind(): {ObjectMeta: metav1.ObjectMeta{Name: "webs.example.org", UID: "crd"}}}
	for name, dialect := range map[string]object.Dialect{"graph": object.GraphDialect, "composite": object.CompositeDialect, "claim": object.ClaimDialect} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fresh := func() *fixture {
				f := newFixture(t, configMap("a"))
				f.crds, f.Reconciler.Definition.Dialect = crds, dialect
				f.reconcile()
				return f
			}
			all := losses(fresh().objects[keyOf("a")])
			if len(all) < 18 {
				t.Fatalf("a child has few marks: %v", all)
			}
			for i, first := range all {
				wantHealed(t, fresh(), first)
				for _, second := range all[i+1:] {
					if second.removes == first.removes {
						wantHealed(t, fresh(), first, second)
					}
				}
			}
		})
	}
}

// wantHealed has a child lose marks. They are written again, a change arrives, and the deletion of the instance takes
// the child along.
func wantHealed(t *testing.T, f *fixture, lost ...loss) {
	t.Helper()
	before := f.objects[keyOf("a")]
	f.lose(lost...)
	f.reconcile()
	if diff := cmp.Diff(marksOf(before), marksOf(f.objects[keyOf("a")])); diff != "" {
		t.Errorf("%v (-want +got):\n%s", lost, diff)
	}
	f.nodes.wanted[0].Object.Object["data"] = map[string]any{"a": "new"}
	f.reconcile()
	if got, _, _ := unstructured.NestedString(f.objects[keyOf("a")].Object, "data", "a"); got != "new" {
		t.Errorf("%v: a change does not arrive", lost)
	}
	f.delete()
	f.reconcile()
	if f.objects[keyOf("a")] != nil {
		t.Errorf("%v: the deletion leaves the child behind", lost)
	}
}

// TestAChildThatLosesItsLabelBeforeADeletionIsDeleted has no reconcile in between.
func TestAChildThatLosesItsLabelBeforeADeletionIsDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*fixture)
		gone   bool
	}{
		"it lost its label":         {func(*fixture) {}, true},
		"it lost its signature too": {func(f *fixture) { f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }) }, true},
		"its node waits meanwhile": {func(f *fixture) {
			f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
				d.Nodes[0].Object, d.Nodes[0].Waits = nil, []plan.Wait{{Node: "a", Reason: plan.WaitingForField, On: "b.data.x"}}
			}
			f.reconcile()
		}, true},
		"it is not known what is desired": {func(f *fixture) {
			f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
				d.Nodes, d.Problem = nil, plan.Problem{Reason: plan.PipelineFailed, Message: "a function does not answer"}
			}
			f.reconcile()
		}, true},
		"another object has the name": {func(f *fixture) {
			f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.SetUID("other"); o.SetAnnotations(nil) })
		}, false},
		"a webhook refuses to change it": {func(f *fixture) {
			f.fail["patch ConfigMap a"] = apierrors.NewForbidden(configMaps, "a", errors.New("denied"))
		}, false},
		"nobody may read it": {func(f *fixture) { f.fail["get ConfigMap a"] = apierrors.NewForbidden(configMaps, "a", nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newReconciled(t, configMap("a"), configMap("b"))
			f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"team": "web"}) })
			tc.change(f)
			f.delete()
			for range 5 {
				f.reconcile()
			}
			if gone := f.objects[keyOf("a")] == nil; gone != tc.gone || f.shop() != nil && len(f.shop().GetFinalizers()) > 0 {
				t.Errorf("gone: %t; the instance: %v", gone, f.shop())
			}
		})
	}
}

// lose has another manager change marks of the child: the engine's manager owns these no more.
func (f *fixture) lose(all ...loss) {
	f.change(keyOf("a"), func(o *unstructured.Unstructured) {
		before := o.DeepCopy()
		for _, l := range all {
			l.do(o)
		}
		ours := o.DeepCopy()
		unstructured.RemoveNestedField(ours.Object, "metadata", "managedFields")
		ours.SetLabels(unchanged(before.GetLabels(), o.GetLabels()))
		ours.SetAnnotations(unchanged(before.GetAnnotations(), o.GetAnnotations()))
		o.SetManagedFields([]metav1.ManagedFieldsEntry{fieldsEntry(v1alpha1.ChildManager, ours.Object)})
	})
}

func unchanged(before, after map[string]string) map[string]string {
	out := maps.Clone(after)
	maps.DeleteFunc(out, func(key, value string) bool { return before[key] != value })
	return out
}

// marksOf are the marks that an object has, with its other labels and annotations.
func marksOf(o *unstructured.Unstructured) map[string]any {
	refs := o.GetOwnerReferences()
	slices.SortFunc(refs, func(a, b metav1.OwnerReference) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return map[string]any{"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "ownerReferences": refs}
}
