package definitions

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// revisions waits until the revisions of a composition pass a check, and returns them by
// number.
func (c testCluster) revisions(t *testing.T, of string, so func(map[int64]*unstructured.Unstructured) error) map[int64]*unstructured.Unstructured {
	t.Helper()
	var last map[int64]*unstructured.Unstructured
	options := metav1.ListOptions{LabelSelector: v1.CompositionNameLabel + "=" + of}
	err := testkit.AwaitList(t.Context(), c.Resource(t, revision, ""), options, func(objects map[string]*unstructured.Unstructured) error {
		last = map[int64]*unstructured.Unstructured{}
		for _, o := range objects {
			n, _, _ := unstructured.NestedInt64(o.Object, "spec", "revision")
			if last[n] != nil {
				return fmt.Errorf("two have number %d", n)
			}
			last[n] = o
		}
		return so(last)
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// revisionsAre checks the numbers of the revisions.
func revisionsAre(want ...int64) func(map[int64]*unstructured.Unstructured) error {
	return func(all map[int64]*unstructured.Unstructured) error {
		if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
			return fmt.Errorf("there are %v, not %v", got, want)
		}
		return nil
	}
}

func TestACompositionHasRevisions(t *testing.T) {
	c := newTestCluster(t)
	a, b := compositionText("small", "App", ""), compositionText("small", "App", "  - step: second\n    functionRef: {name: function-auto-ready}\n")
	c.Apply(t, strings.Replace(a, "metadata: {", "metadata: {labels: {channel: stable}, ", 1))
	first := c.revisions(t, c.name("small"), revisionsAre(1))[1]
	made := c.Get(t, composition, "", c.name("small"))
	if !metav1.IsControlledBy(first, made) || first.GetLabels()["channel"] != "stable" || len(first.GetLabels()[v1.CompositionHashLabel]) != 63 {
		t.Errorf("it is %s", testkit.JSON(first))
	}
	c.Await(t, revision, "", first.GetName(), all(conditionIs("ValidPipeline", "True", "ValidPipeline")))

	t.Log("A, B, A: the first is the newest again")
	c.Apply(t, strings.Replace(b, "metadata: {", "metadata: {labels: {channel: stable}, ", 1))
	second := c.revisions(t, c.name("small"), revisionsAre(1, 2))[2]
	c.Apply(t, strings.Replace(a, "metadata: {", "metadata: {labels: {channel: stable}, ", 1))
	if third := c.revisions(t, c.name("small"), revisionsAre(2, 3))[3]; third.GetUID() != first.GetUID() {
		t.Error("the newest is another than the first")
	}
	c.Apply(t, strings.Replace(b, "metadata: {", "metadata: {labels: {channel: stable}, ", 1))
	if fourth := c.revisions(t, c.name("small"), revisionsAre(3, 4))[4]; fourth.GetUID() != second.GetUID() {
		t.Error("the newest is another than the second")
	}

	t.Log("its labels are part of it")
	c.Apply(t, strings.Replace(b, "metadata: {", "metadata: {labels: {channel: fast}, ", 1))
	if fifth := c.revisions(t, c.name("small"), revisionsAre(3, 4, 5))[5]; fifth.GetLabels()["channel"] != "fast" {
		t.Errorf("labels are %v", fifth.GetLabels())
	}
}

// TestChangedCompositionRevisionsAreCorrected creates and changes revisions as other clients, or
// interrupted controllers, might leave them.
func TestChangedCompositionRevisionsAreCorrected(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, compositionText("small", "App", ""))
	first := c.revisions(t, c.name("small"), revisionsAre(1))[1]

	t.Log("another revision with the same number: the newest gets another number")
	twin := first.DeepCopy()
	twin.SetName(c.name("small") + "-twin")
	twin.SetUID("")
	twin.SetResourceVersion("")
	twin.SetManagedFields(nil)
	twin.SetOwnerReferences(nil)
	twin.SetLabels(map[string]string{v1.CompositionNameLabel: c.name("small"), v1.CompositionHashLabel: "another"})
	if _, err := c.Resource(t, revision, "").Create(t.Context(), twin, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	two := c.revisions(t, c.name("small"), revisionsAre(1, 2))
	if two[2].GetUID() != first.GetUID() {
		t.Error("the newest is another")
	}
	t.Log("a revision without a controller: the composition becomes its controller")
	made := c.Get(t, composition, "", c.name("small"))
	c.Await(t, revision, "", twin.GetName(), all(func(o *unstructured.Unstructured) error {
		if !metav1.IsControlledBy(o, made) {
			return errors.New("isn't controlled by it")
		}
		return nil
	}))

	t.Log("a deleted revision: it is recreated")
	c.Delete(t, revision, "", first.GetName())
	c.revisions(t, c.name("small"), func(all map[int64]*unstructured.Unstructured) error {
		newest := all[2]
		if newest == nil {
			return errors.New("there is none")
		}
		if newest.GetUID() == first.GetUID() {
			return errors.New("is the old one")
		}
		return nil
	})
}

func TestACompositionWithATooLongNameIsReported(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, strings.Replace(compositionText("small", "App", ""), "name: small", "name: "+strings.Repeat("long", 15), 1))
	c.NS = "default"
	c.AwaitEvent(t, strings.Repeat("long", 15)+"."+c.Group, "CreateRevision", "metadata.name must be a valid label value")
}

func TestPipelineReadinessIsReported(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, compositionText("small", "App", "  - step: second\n    functionRef: {name: $ID-ready}\n"))
	name := c.revisions(t, c.name("small"), revisionsAre(1))[1].GetName()
	c.Await(t, revision, "", name, all(conditionIs("ValidPipeline", "False", "MissingCapabilities", "spec.pipeline[1].functionRef.name: there is no function "+c.Name("ready")+": create the Function "+c.Name("ready"))))
	t.Log("the function is installed")
	c.Apply(t, "\napiVersion: pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: $ID-ready}\nspec: {package: example.org/ready:v1}\n")
	c.Await(t, revision, "", name, all(conditionIs("ValidPipeline", "True", "ValidPipeline")))
	t.Log("the function reports other capabilities")
	c.Apply(t, "\napiVersion: pkg.crossplane.io/v1\nkind: FunctionRevision\nmetadata: {name: $ID-ready-1, labels: {pkg.crossplane.io/package: $ID-ready}}\nspec: {image: example.org/ready:v1, desiredState: Active, revision: 1}\n")
	kind := pkgv1.GroupVersion.WithKind(pkgv1.FunctionRevisionKind)
	c.SetStatus(t, kind, "", c.Name("ready-1"), map[string]any{"capabilities": []any{"operation"}})
	c.Await(t, revision, "", name, all(conditionIs("ValidPipeline", "False", "MissingCapabilities", "spec.pipeline[1].functionRef.name: function "+c.Name("ready")+" does not have the capability composition")))
	c.SetStatus(t, kind, "", c.Name("ready-1"), map[string]any{"capabilities": []any{"operation", "composition"}})
	c.Await(t, revision, "", name, all(conditionIs("ValidPipeline", "True", "ValidPipeline")))
	c.Delete(t, pkgv1.GroupVersion.WithKind(pkgv1.FunctionKind), "", c.Name("ready"))
	c.Await(t, revision, "", name, all(conditionIs("ValidPipeline", "False", "MissingCapabilities")))
}

// TestReconcilersOfAKindGetItsSnapshot: what there is for the kind and nothing else, again when it
// changes, which wakes all objects, and only then.
func TestReconcilersOfAKindGetItsSnapshot(t *testing.T) {
	c := newTestCluster(t)
	c.Apply(t, compositionText("small", "App", "")+"---"+compositionText("other", "Other", "")+"---"+definitionText("v2", "App", "")+"---"+definitionText("v2", "Other", ""))
	c.Await(t, definition, "", c.name("apps"), isEstablished)
	c.Await(t, definition, "", c.name("others"), isEstablished)
	c.port.await(t, c.kind("Other"), snapshotHas(1, 1))
	s := c.port.await(t, c.kind("App"), snapshotHas(1, 1))
	if got := s.used[len(s.used)-1].Compositions[0].Name; got != c.name("small") {
		t.Errorf("it has %s", got)
	}
	c.Apply(t, app("App", c.NS, "a", false)+app("App", c.NS, "b", false))
	for _, name := range []string{"a", "b"} {
		c.Await(t, c.kind("App"), c.NS, name, all(finalizersAre("composite.apiextensions.crossplane.io")))
	}
	c.revisions(t, c.name("small"), func(all map[int64]*unstructured.Unstructured) error {
		return conditionIs("ValidPipeline", "True", "ValidPipeline")(all[1])
	})
	valid := func(s *servedKind) error {
		for _, r := range s.used[len(s.used)-1].Revisions {
			if len(r.Status.Conditions) == 0 || r.Status.Conditions[0].Status != metav1.ConditionTrue {
				return fmt.Errorf("%s isn't valid as far as is known", r.Name)
			}
		}
		return nil
	}
	c.port.await(t, c.kind("App"), valid)
	c.port.await(t, c.kind("Other"), valid)

	t.Log("another composition")
	reconciles, others, used := reconcileCounts(c, "App"), reconcileCounts(c, "Other"), snapshotCount(c, "Other")
	c.Apply(t, compositionText("large", "App", ""))
	c.port.await(t, c.kind("App"), snapshotHas(2, 2))
	woken := func(s *servedKind) error {
		for _, name := range []string{"a", "b"} {
			if s.reconciles[name] <= reconciles[name] {
				return fmt.Errorf("%s was not woken", name)
			}
		}
		return nil
	}
	c.port.await(t, c.kind("App"), woken)
	c.port.await(t, c.kind("App"), valid)

	t.Log("a composition changes")
	reconciles = reconcileCounts(c, "App")
	c.Apply(t, compositionText("large", "App", "  - step: second\n    functionRef: {name: function-auto-ready}\n"))
	c.port.await(t, c.kind("App"), snapshotHas(2, 3))
	c.port.await(t, c.kind("App"), woken)

	t.Log("a composition is deleted")
	reconciles = reconcileCounts(c, "App")
	c.Delete(t, composition, "", c.name("small"))
	// The garbage collector takes its time.
	if err := c.Resource(t, revision, "").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: v1.CompositionNameLabel + "=" + c.name("small")}); err != nil {
		t.Fatal(err)
	}
	c.port.await(t, c.kind("App"), snapshotHas(1, 2))
	c.port.await(t, c.kind("App"), woken)

	if after := reconcileCounts(c, "Other"); !maps.Equal(others, after) || snapshotCount(c, "Other") != used {
		t.Errorf("the other kind was reconciled: %v, then %v; its snapshots were %d, then %d", others, after, used, snapshotCount(c, "Other"))
	}
}

func reconcileCounts(c testCluster, kind string) map[string]int {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	return maps.Clone(c.port.latest(c.kind(kind)).reconciles)
}

func snapshotCount(c testCluster, kind string) int {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	return len(c.port.latest(c.kind(kind)).used)
}
