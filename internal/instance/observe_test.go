package instance

import (
	"errors"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestAnUnreadableKindDelaysItsNodesOnly(t *testing.T) {
	volume := plan.Node{ID: "volume", Kind: claimKind, Object: named(claimKind, "prod", "volume")}
	cases := map[string]struct {
		given   func(*fixture)
		want    string
		compile bool
	}{
		"The kind is not served": {func(f *fixture) {
			f.unsynced = map[string]watch.State{"PersistentVolumeClaim": {Phase: watch.Unavailable, Reason: watch.WaitingForKind}}
		}, `WaitingForKind: volume: no matches for kind "PersistentVolumeClaim"`, false},
		"The kind is not activated": {func(f *fixture) {
			f.unsynced = map[string]watch.State{"PersistentVolumeClaim": {Phase: watch.Unavailable, Reason: watch.WaitingForKind, Remedy: "activate it"}}
		}, `WaitingForKind: volume: no matches for kind "PersistentVolumeClaim" in version "v1"; activate it`, false},
		"It is forbidden": {func(f *fixture) {
			f.unsynced = map[string]watch.State{"PersistentVolumeClaim": {Phase: watch.Unavailable, Reason: watch.Forbidden, Message: "no"}}
		}, "Forbidden: volume: no", false},
		"Its conversion webhook fails": {func(f *fixture) {
			f.unsynced = map[string]watch.State{"PersistentVolumeClaim": {Phase: watch.Unavailable, Reason: watch.Degraded, Message: "no"}}
		}, "Unavailable: volume: no", false},
		"Its definition is being deleted": {func(f *fixture) {
			f.crds = map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{claimKind.GroupKind(): {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}}
		}, "WaitingForKind: volume: the CustomResourceDefinition of PersistentVolumeClaim is being deleted", false},
		"It was unknown to the composer": {func(f *fixture) { f.nodes.untyped = map[string]bool{"PersistentVolumeClaim": true} },
			"WaitingForKind: volume: the kind is installed; it continues when the definition has been compiled with it", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, configMap("a"), volume)
			tc.given(f)
			f.reconcile()
			if !slices.Contains(f.calls, "create ConfigMap a") || slices.Contains(f.calls, "create PersistentVolumeClaim volume") {
				t.Errorf("requests: %q", f.calls)
			}
			f.wantCondition(v1alpha1.InstanceResourcesReady, tc.want)
			if got := slices.Contains(f.calls, "wake the definition"); got != tc.compile {
				t.Errorf("the definition is woken: %t", got)
			}
			if !slices.Contains(f.watched, "PersistentVolumeClaim") {
				t.Errorf("watched: %q", f.watched)
			}
		})
	}
}

func TestAFirstListIsWaitedForBeforeAnythingIsReported(t *testing.T) {
	f := newFixture(t, configMap("a"), plan.Node{ID: "volume", Kind: claimKind, Object: named(claimKind, "prod", "volume")})
	f.syncing("PersistentVolumeClaim")
	if out := f.reconcile(); out.RequeueAfter != firstListDelay {
		t.Errorf("it waits for %s", out.RequeueAfter)
	}
	f.wantCalls("update Web shop", "create ConfigMap a")
	f.pass(firstListDelay)
	f.reconcile()
	f.wantCalls("status Web shop")
	f.wantCondition(v1alpha1.InstanceResourcesReady, "Syncing")
	t.Run("An instance with a current status waits longer", func(t *testing.T) {
		f := newReconciled(t, configMap("a"))
		f.memories = memories{}
		f.syncing("ConfigMap")
		if out := f.reconcile(); out.RequeueAfter != reportedDelay {
			t.Errorf("it waits for %s", out.RequeueAfter)
		}
		f.wantCalls()
	})
	t.Run("So does one that was restored, whose generation counts from 1 again", func(t *testing.T) {
		f := newReconciled(t, configMap("a"))
		f.memories = memories{}
		f.syncing("ConfigMap")
		for _, observed := range []int64{9, 0} {
			f.change(shop, func(o *unstructured.Unstructured) { setObservedGeneration(o, observed) })
			if out := f.reconcile(); out.RequeueAfter != reportedDelay {
				t.Errorf("of generation %d: it waits for %s", observed, out.RequeueAfter)
			}
		}
		f.wantCalls()
	})
}

// setObservedGeneration sets the generation of all conditions.
func setObservedGeneration(o *unstructured.Unstructured, generation int64) {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		c.(map[string]any)["observedGeneration"] = generation
	}
	_ = unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")
}

func TestAfterARestartRecordedKindsAreWatchedBeforeAReconcileSucceeds(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.memories, f.watched = memories{}, nil
	f.composer.Store(nil)
	f.reconcile()
	f.wantCalls()
	if !slices.Equal(f.watched, []string{"ConfigMap"}) {
		t.Errorf("watched: %q", f.watched)
	}
	t.Run("A failed lookup is retried", func(t *testing.T) {
		f.memories, f.watched, f.kindsErr = memories{}, nil, errors.New("discovery is down")
		f.reconcile()
		f.kindsErr = nil
		f.reconcile()
		if !slices.Equal(f.watched, []string{"ConfigMap"}) {
			t.Errorf("watched: %q", f.watched)
		}
	})
}

func TestAFormerKindThatCannotBeLookedUpIsAnErrorAndNothingIsPruned(t *testing.T) {
	volume := plan.Node{ID: "volume", Kind: claimKind, Object: named(claimKind, "prod", "volume")}
	f := newReconciled(t, configMap("a"), volume)
	f.nodes.wanted = f.nodes.wanted[:1]
	f.kindsErr = errors.New("discovery is down")
	if out := f.reconcile(); out.Err == nil {
		t.Errorf("got %+v", out)
	}
	f.wantCalls()
	f.kindsErr = nil
	f.reconcile()
	f.wantCalls("delete PersistentVolumeClaim volume")
}

func TestAFailedReconcileKeepsTheWatchesOfTheLast(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	before := f.watched
	f.nodes.err = errors.New("a function crashed")
	if out := f.reconcile(); out.Err == nil {
		t.Errorf("got %+v", out)
	}
	f.wantCalls()
	if !slices.Equal(f.watched, before) || f.wanted != nil {
		t.Errorf("watched: %q", f.watched)
	}
}

func TestAFailureOfTheComposerIsRetriedAndInTheStatus(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) {
		d.Failure, d.Problem = errors.New("a function crashed"), plan.Problem{Reason: plan.PipelineFailed, Message: "step one"}
	}
	if out := f.reconcile(); out.Err == nil {
		t.Errorf("got %+v", out)
	}
	f.wantCondition(v1alpha1.InstanceReady, "PipelineFailed: step one")
}

func TestNeedsAreReadUntilTheComposerNamesNoNewOne(t *testing.T) {
	one := plan.Need{Kind: configMapKind, Namespace: "prod", Name: "settings"}
	several := plan.Need{Kind: configMapKind, Multiple: true, Selector: "app=web"}
	f := newFixture(t, configMap("a"))
	settings := named(configMapKind, "prod", "settings")
	settings.SetLabels(map[string]string{"app": "web"})
	f.put(settings)
	f.nodes.adjust = func(d *plan.Desired, facts plan.Facts) {
		d.Needs = []plan.Need{one}
		if facts.External[one].Object != nil {
			d.Needs = append(d.Needs, several)
			d.Status["found"] = int64(len(facts.External[several].Objects))
		}
	}
	f.reconcile()
	if got, _, _ := unstructured.NestedInt64(f.shop().Object, "status", "found"); got != 1 {
		t.Errorf("found %d", got)
	}
	if !slices.Contains(f.watched, "ConfigMap settings") {
		t.Errorf("watched: %q", f.watched)
	}
}

func TestANeedThatCannotBeReadSaysWhy(t *testing.T) {
	secret := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	cases := map[string]struct {
		need  plan.Need
		given func(*fixture)
		want  plan.Reason
	}{
		"An invalid selector": {plan.Need{Kind: secret, Multiple: true, Selector: "!!"}, func(*fixture) {}, plan.EvaluationFailed},
		"A kind that is forbidden": {plan.Need{Kind: secret, Name: "x"}, func(f *fixture) {
			f.unsynced = map[string]watch.State{"Secret": {Phase: watch.Unavailable, Reason: watch.Forbidden}}
		}, plan.Forbidden},
		"An object beyond the limits of watches": {plan.Need{Kind: secret, Name: "x"}, func(f *fixture) {
			f.unsynced = map[string]watch.State{"Secret": {Phase: watch.Unavailable, Reason: watch.LimitExceeded}}
		}, plan.WatchLimitExceeded},
		"A kind with a schema that is unknown to the composer": {plan.Need{Kind: secret, Name: "x"}, func(f *fixture) { f.nodes.untyped = map[string]bool{"Secret": true} }, plan.WaitingForKind},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, configMap("a"))
			tc.given(f)
			var got plan.Lookup
			f.nodes.adjust = func(d *plan.Desired, facts plan.Facts) {
				d.Needs, got = []plan.Need{tc.need}, facts.External[tc.need]
			}
			f.reconcile()
			if got.Unreadable == nil || got.Unreadable.Reason != tc.want {
				t.Errorf("got %+v, want %s", got.Unreadable, tc.want)
			}
		})
	}
}

func TestAKindThatTheComposerDidNotNameBeforehandIsReadOnceANodeIsOfIt(t *testing.T) {
	volume := plan.Node{ID: "volume", Kind: claimKind, Object: named(claimKind, "prod", "volume")}
	f := newReconciled(t, configMap("a"), volume)
	f.nodes.written = []schema.GroupVersionKind{configMapKind}
	f.change(shop, func(o *unstructured.Unstructured) { // as if it had recorded less
		annotations := o.GetAnnotations()
		annotations[v1alpha1.ApplySetKindsAnnotation] = "ConfigMap"
		o.SetAnnotations(annotations)
	})
	f.reconcile()
	f.wantCalls("update Web shop") // the record again, and no creation
}

func TestSchemasAreReadForAComposer(t *testing.T) {
	f := newFixture(t, configMap("a"))
	f.schemas = map[string]object.KindInfo{"ConfigMap": {Schema: &spec.Schema{SchemaProps: spec.SchemaProps{Description: "a map"}}}}
	known, unknown := plan.Need{Kind: configMapKind, Schema: true}, plan.Need{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Schema: true}
	var seen plan.Facts
	f.nodes.adjust = func(d *plan.Desired, facts plan.Facts) { d.Needs, seen = []plan.Need{known, unknown}, facts }
	f.reconcile()
	if found := seen.External[known]; found.Schema == nil || found.Schema.Description != "a map" || found.Unreadable != nil {
		t.Errorf("got %+v", found)
	}
	if found, read := seen.External[unknown]; found.Schema != nil || found.Unreadable != nil || !read {
		t.Errorf("of a kind that is not served: %+v", found)
	}
	if seen.Round == 0 {
		t.Error("the rounds of a reconcile aren't counted")
	}
}

// refers is the graph dialect with objects that an instance names itself.
type refers struct {
	Graphs
	references []Reference
}

func (r refers) References(*unstructured.Unstructured) []Reference { return r.references }

func TestObjectsThatAnInstanceRefersToAreChildren(t *testing.T) {
	named := func(t *testing.T) *fixture {
		f := newReconciled(t, configMap("a"))
		f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.SetUID("a") })
		f.Dialect = refers{references: []Reference{{Need: plan.Need{Kind: configMapKind, Namespace: "prod", Name: "a"}, Node: "a"}}}
		f.Lease = func(watch.Subscriber) Lease { return unlabelled{fakeCache{f.fake}} }
		return f
	}
	t.Run("It is kept", func(t *testing.T) {
		f := named(t)
		f.reconcile()
		f.wantCalls()
	})
	t.Run("It is not created while its kind can't be read", func(t *testing.T) {
		f := named(t)
		f.Lease = func(watch.Subscriber) Lease { return unlabelled{fakeCache{f.fake}} }
		f.unsynced = map[string]watch.State{"ConfigMap": {Phase: watch.Unavailable, Reason: watch.Forbidden}}
		f.reconcile()
		f.wantCondition(v1alpha1.InstanceResourcesReady, "Forbidden")
	})
	t.Run("It is deleted with the instance", func(t *testing.T) {
		f := named(t)
		f.delete()
		f.until("delete ConfigMap a")
		f.until("remove finalizers of Web shop")
	})
	t.Run("The instance stays while it can't be read", func(t *testing.T) {
		f := named(t)
		f.delete()
		f.unsynced = map[string]watch.State{"ConfigMap": {Phase: watch.Unavailable, Reason: watch.Forbidden}}
		f.reconcileFor(3)
		if f.shop() == nil {
			t.Error("it is gone")
		}
	})
}

// unlabelled is a cache that finds no children by their labels, and reads no objects of others.
type unlabelled struct{ fakeCache }

func (unlabelled) Object(schema.GroupVersionKind, string, string) (*unstructured.Unstructured, watch.State) {
	return nil, watch.State{Phase: watch.Unavailable, Reason: watch.LimitExceeded}
}

func (u unlabelled) Children(kind schema.GroupVersionKind, _ string) ([]*unstructured.Unstructured, watch.State) {
	return nil, u.state(kind)
}

func TestAChildWithAStatusOfAnEarlierGenerationKeepsItsLastSpec(t *testing.T) {
	f := newReconciled(t, configMap("a"))
	f.change(keyOf("a"), func(o *unstructured.Unstructured) {
		o.SetGeneration(1)
		_ = unstructured.SetNestedField(o.Object, int64(1), "status", "observedGeneration")
	})
	f.reconcile()
	f.change(keyOf("a"), func(o *unstructured.Unstructured) {
		o.SetGeneration(2)
		o.Object["other"] = "new"
	})
	var seen *unstructured.Unstructured
	f.nodes.adjust = func(d *plan.Desired, _ plan.Facts) { seen = d.Nodes[0].Observed }
	f.reconcile()
	if seen == nil || seen.GetGeneration() != 2 {
		t.Errorf("seen: %v", seen)
	}
}

func TestObstaclesOfAnItemThatIsGoneAreForgotten(t *testing.T) {
	f := newFixture(t, configMap("a"), configMap("b"))
	holder := named(configMapKind, "prod", "b")
	holder.SetUID("other")
	f.put(holder)
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceResourcesReady, "NotOwned")
	f.nodes.wanted = f.nodes.wanted[:1]
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceReady, "True")
}
