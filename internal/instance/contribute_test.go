package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// Contribute applies as the API server does, as far as fields are in maps.
func (f fakeCluster) Contribute(_ context.Context, o *unstructured.Unstructured, uid types.UID, as kube.Contributor) (*unstructured.Unstructured, error) {
	call := "contribute to"
	if as.Subresource != "" {
		call = "contribute to the " + as.Subresource + " of"
	}
	if err := f.request(call, o.GetKind(), o.GetName()); err != nil {
		return nil, err
	}
	f.applying.Lock()
	defer f.applying.Unlock()
	live, err := f.live(o, uid)
	if err != nil {
		return nil, err
	}
	live = live.DeepCopy()
	applied := o.DeepCopy()
	for _, identity := range [][]string{{"apiVersion"}, {"kind"}, {"metadata"}} {
		unstructured.RemoveNestedField(applied.Object, identity...)
	}
	entry := fieldsEntry(as.Manager, applied.Object)
	entry.Subresource = as.Subresource
	next, former, others := ownership.Decode(entry), &fieldpath.Set{}, &fieldpath.Set{}
	var entries []metav1.ManagedFieldsEntry
	for _, e := range live.GetManagedFields() {
		fields := ownership.Decode(e)
		switch {
		case e.Manager == as.Manager:
			former = fields
			continue
		case !as.Force && ownership.Differs(applied.Object, live.Object, fields):
			return nil, conflict(o, e.Manager)
		case as.Force:
			fields = fields.Difference(next)
			e.FieldsV1 = ownership.Encode(fields)
		}
		others = others.Union(fields)
		entries = append(entries, e)
	}
	former.Difference(next).Difference(others).Leaves().Iterate(func(p fieldpath.Path) {
		var names []string
		for _, element := range p {
			names = append(names, *element.FieldName)
		}
		unstructured.RemoveNestedField(live.Object, names...)
	})
	merge(live.Object, applied.Object)
	if !next.Empty() {
		entries = append(entries, entry)
	}
	live.SetManagedFields(entries)
	return f.put(live), nil
}

func conflict(o *unstructured.Unstructured, by string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Code: 409, Details: &metav1.StatusDetails{
		Name: o.GetName(), Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".data.mine", Message: "conflict with " + by}}}}}
}

// patch is what a node contributes to a ConfigMap: to a field of the data, or to the status.
type patch struct{ node, target, field, value string }

// contributing is a fixture whose Web has patches, and ConfigMaps that another manager has made.
func contributing(t *testing.T, targets ...string) *fixture {
	t.Helper()
	f := newFixture(t)
	f.Contributes = true
	for _, name := range targets {
		f.theirs(name, map[string]any{"theirs": "x"})
	}
	return f
}

func (f *fixture) theirs(name string, data map[string]any) {
	o := named(configMapKind, "prod", name)
	o.SetUID(types.UID("uid-of-" + name))
	o.SetManagedFields([]metav1.ManagedFieldsEntry{fieldsEntry("kubectl", map[string]any{"data": data})})
	o.Object["data"] = data
	f.put(o)
}

func (f *fixture) patches(patches ...patch) {
	f.nodes.adjust = func(d *plan.Desired, facts plan.Facts) {
		for _, p := range patches {
			o := named(configMapKind, "prod", p.target)
			node := plan.Node{ID: p.node, Kind: configMapKind, External: true, Object: o}
			contribution := &plan.Contribution{}
			if o.Object["data"] = map[string]any{p.field: p.value}; p.field == "status" {
				o.Object["status"], contribution.Subresource = map[string]any{"is": p.value}, plan.StatusSubresource
				delete(o.Object, "data")
			}
			need := plan.Need{Kind: configMapKind, Namespace: "prod", Name: p.target}
			d.Needs = append(d.Needs, need)
			if node.Observed = facts.External[need].Object; node.Observed == nil {
				node.Waits = []plan.Wait{{Node: p.node, Reason: plan.WaitingForExternal, On: object.KeyOf(o).String()}}
			} else {
				node.Contribution, node.Ready = contribution, true
			}
			d.Nodes = append(d.Nodes, node)
		}
	}
}

// recorded are the contributions in the status.
func (f *fixture) recorded() []string {
	var out []string
	for _, c := range report.ReadContributions(f.shop()) {
		out = append(out, c.Name+c.Subresource)
	}
	return out
}

func (f *fixture) wantRecorded(want ...string) {
	f.t.Helper()
	if got := f.recorded(); !slices.Equal(got, want) {
		f.t.Errorf("recorded: %v, want %v", got, want)
	}
}

func (f *fixture) wantData(name, want string) {
	f.t.Helper()
	o := f.objects[keyOf(name)]
	if got := fmt.Sprint(o.Object["data"], " ", cmp.Or(fmt.Sprint(o.Object["status"]), "none")); got != want {
		f.t.Errorf("%s has %s, want %s", name, got, want)
	}
}

func TestFieldsAreContributedOnceTheyAreRecorded(t *testing.T) {
	f := contributing(t)
	f.patches(patch{"p", "a", "mine", "v"})
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceReady, "WaitingForExternal")
	f.wantRecorded()

	f.theirs("a", map[string]any{"theirs": "x"})
	f.reconcile()
	f.wantCalls("status Web shop", "contribute to ConfigMap a", "status Web shop")
	f.wantData("a", "map[mine:v theirs:x] <nil>")
	f.wantRecorded("a")
	f.wantCondition(v1alpha1.InstanceReady, "True")
	f.reconcile()
	f.wantCalls()

	t.Log("a restart changes nothing")
	f.Reconciler.memories = memories{}
	f.reconcile()
	f.wantCalls()

	t.Log("what another manager changes elsewhere is no reason to write, and what it changes of ours is")
	f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"x": "y"}) })
	f.reconcile()
	f.wantCalls()
	f.change(keyOf("a"), func(o *unstructured.Unstructured) {
		o.Object["data"] = map[string]any{"mine": "other", "theirs": "x"}
		o.SetManagedFields([]metav1.ManagedFieldsEntry{fieldsEntry("kubectl", map[string]any{"data": map[string]any{"theirs": ""}})})
	})
	f.reconcile()
	f.wantCalls("contribute to ConfigMap a")
	f.wantData("a", "map[mine:v theirs:x] <nil>")

	t.Log("the fields of a former version of the patch are released with the next one")
	f.patches(patch{"p", "a", "yours", "v"})
	f.reconcile()
	f.wantData("a", "map[theirs:x yours:v] <nil>")
}

func TestAConflictNamesTheOtherManager(t *testing.T) {
	f := contributing(t)
	f.theirs("a", map[string]any{"mine": "x"})
	f.patches(patch{"p", "a", "mine", "v"})
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceReady, "FieldConflict: p: data.mine of ConfigMap prod/a is set by kubectl to another value")
	f.wantData("a", "map[mine:x] <nil>")
	f.reconcile()
	f.wantCalls()

	t.Log("the status is taken over")
	f.patches(patch{"p", "a", "mine", "v"}, patch{"s", "a", "status", "v"})
	f.change(keyOf("a"), func(o *unstructured.Unstructured) { o.Object["status"] = map[string]any{"is": "x"} })
	f.reconcile()
	f.wantData("a", "map[mine:x] map[is:v]")

	t.Log("it goes on when the other manager changes the field")
	f.theirs("a", map[string]any{"mine": "v"})
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceReady, "True")
}

// Two managers that force each other's status must not do so as fast as they can.
func TestAContestedStatusIsLeftForAWhile(t *testing.T) {
	f := contributing(t, "a")
	f.patches(patch{"s", "a", "status", "v"})
	f.reconcile()
	for contest := 1; ; contest++ {
		f.change(keyOf("a"), func(o *unstructured.Unstructured) {
			o.Object["status"] = map[string]any{"is": "x"}
			o.SetManagedFields(nil)
		})
		out := f.reconcile()
		if len(f.calls) > 0 && strings.HasPrefix(f.calls[0], "contribute") && contest < 10 {
			continue
		}
		if contest != 4 || out.RequeueAfter <= 0 {
			t.Errorf("it is left after %d changes; then %v", contest, out)
		}
		break
	}
	f.wantCondition(v1alpha1.InstanceReady, "DriftContested: s: another manager keeps overwriting status.is of ConfigMap prod/a")
	f.pass(time.Minute)
	f.reconcile()
	f.wantData("a", "map[theirs:x] map[is:v]")
}

func TestAFieldOfANodeThatIsGoneIsTakenOver(t *testing.T) {
	f := contributing(t, "a")
	f.patches(patch{"p", "a", "mine", "v"})
	f.reconcile()
	f.patches(patch{"q", "a", "mine", "w"})
	f.reconcile()
	f.wantData("a", "map[mine:w theirs:x] <nil>")
	f.wantRecorded("a")
	if managers := ownership.Owners(f.objects[keyOf("a")], ownership.Path("data", "mine")); len(managers) != 1 {
		t.Errorf("the field is owned by %v", managers)
	}
}

// The former node releases its fields once all nodes are applied, so the new one must not wait for that.
func TestAFieldOfANodeThatHasMovedIsTakenOver(t *testing.T) {
	f := contributing(t, "a", "b")
	f.patches(patch{"p", "a", "mine", "v"})
	f.reconcile()
	f.patches(patch{"p", "b", "mine", "v"}, patch{"q", "a", "mine", "w"})
	f.reconcile()
	f.wantData("a", "map[mine:w theirs:x] <nil>")
	f.wantData("b", "map[mine:v theirs:x] <nil>")
	if managers := ownership.Owners(f.objects[keyOf("a")], ownership.Path("data", "mine")); len(managers) != 1 {
		t.Errorf("the field is owned by %v", managers)
	}
}

func TestContributionsAreReleased(t *testing.T) {
	both := []patch{{"p", "a", "mine", "v"}, {"p", "b", "status", "v"}}
	for name, tc := range map[string]struct {
		end    func(*fixture)
		reason string
	}{
		"the node goes":             {func(f *fixture) { f.nodes.adjust = nil }, "nothing contributes any more"},
		"the target is renamed":     {func(f *fixture) { f.patches(patch{"p", "c", "mine", "v"}) }, "the fields are contributed to another object"},
		"the instance is deleted":   {func(f *fixture) { f.delete() }, "no node is composed then"},
		"after a restart":           {func(f *fixture) { f.nodes.adjust, f.Reconciler.memories = nil, memories{} }, "the status is all that is needed"},
		"of an object that is gone": {func(f *fixture) { f.nodes.adjust = nil; delete(f.objects, keyOf("b")) }, "it has none"},
	} {
		t.Run(name, func(t *testing.T) {
			f := contributing(t, "a", "b", "c")
			f.patches(both...)
			f.reconcile()
			f.wantRecorded("a", "bstatus")
			tc.end(f)
			f.reconcile()
			f.reconcile()
			for _, target := range []string{"a", "b"} {
				if o := f.objects[keyOf(target)]; o != nil && contributed(o) {
					t.Errorf("%s: %s has %v", tc.reason, target, o.Object)
				}
			}
			if f.shop() != nil && strings.Contains(fmt.Sprint(f.recorded()), "b") {
				t.Errorf("%s: recorded: %v", tc.reason, f.recorded())
			}
			f.nodes.adjust = nil
		})
	}
}

// contributed reports whether an object has fields of a patch.
func contributed(o *unstructured.Unstructured) bool {
	_, mine, _ := unstructured.NestedString(o.Object, "data", "mine")
	_, is, _ := unstructured.NestedString(o.Object, "status", "is")
	return mine || is || len(ownership.Managers(o, func(e ownership.Entry) bool { return plan.IsContributor(e.Manager, string(e.Operation)) })) > 0
}

func TestWhatCannotBeReleasedStaysRecorded(t *testing.T) {
	f := contributing(t, "a")
	f.patches(patch{"p", "a", "mine", "v"})
	f.reconcile()
	f.nodes.adjust = nil
	f.fail["contribute to ConfigMap a"] = errors.New("no rights")
	if out := f.reconcile(); out.Err == nil {
		t.Error("it is not repeated")
	}
	f.wantCondition(v1alpha1.InstanceReady, "ReleaseFailed: the fields of ConfigMap prod/a that this Graph contributed cannot be released: ")
	f.wantRecorded("a")
	f.delete()
	f.reconcile()
	if f.shop() == nil || !strings.Contains(fmt.Sprint(f.blockers()), "cannot be released") {
		t.Errorf("the deletion is blocked by %v", f.blockers())
	}
	clear(f.fail)
	f.pass(time.Minute)
	f.reconcile()
	if f.shop() != nil || contributed(f.objects[keyOf("a")]) {
		t.Error("it was not released at last")
	}
}

// countingControllers count the reads of namespaces.
type countingControllers struct {
	controllers
	reads *atomic.Int32
}

func (c countingControllers) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	c.reads.Add(1)
	<-time.After(time.Second) // in a bubble: until all others wait as well
	return c.controllers.Get(ctx, kind, namespace, name)
}

// TestFieldsGoWithTheirNamespace where the account has lost its permissions with it. They are released in parallel, and the
// namespace is read once.
func TestFieldsGoWithTheirNamespace(t *testing.T) { synctest.Test(t, fieldsGoWithTheirNamespace) }

func fieldsGoWithTheirNamespace(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	f := contributing(t, names...)
	var all []patch
	for _, name := range names {
		all = append(all, patch{"p" + name, name, "mine", "v"})
		f.fail["get ConfigMap "+name] = apierrors.NewForbidden(configMaps, name, nil)
	}
	f.patches(all...)
	f.reconcile()
	f.wantRecorded(names...)
	var reads atomic.Int32
	f.Controllers = countingControllers{controllers{fakeCluster{f.fake}, map[string]bool{"prod": true}}, &reads}
	f.delete()
	f.reconcile()
	if f.shop() != nil || reads.Load() != 1 {
		t.Errorf("after %d reads of the namespace it waits for %v", reads.Load(), f.blockers())
	}
}

// A record names the objects to release; a user who can write the status must not have the controllers release others.
func TestOnlyOwnManagersAreReleased(t *testing.T) {
	f := contributing(t, "a")
	f.reconcile()
	f.change(shop, func(o *unstructured.Unstructured) {
		o.Object["status"] = report.WithContributions(nil, []v1alpha1.Contribution{
			{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: "a", FieldManager: "kubectl"},
			{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: "a", FieldManager: "kro-graphengine.patch.000000000000.000000000000"},
		})
	})
	f.reconcile()
	f.wantCalls("status Web shop")
	f.wantData("a", "map[theirs:x] <nil>")
}

func TestContributionsAreBounded(t *testing.T) {
	f := contributing(t, "a")
	f.reconcile()
	f.change(shop, func(o *unstructured.Unstructured) {
		var many []v1alpha1.Contribution
		for i := range maxContributions {
			many = append(many, v1alpha1.Contribution{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint(i), FieldManager: "m"})
		}
		o.Object["status"] = report.WithContributions(nil, many)
	})
	f.patches(patch{"p", "a", "mine", "v"})
	f.reconcile()
	f.wantCondition(v1alpha1.InstanceManaged, "LimitExceeded: nothing is applied: there are 5001 contributions")
	f.wantData("a", "map[theirs:x] <nil>")
}

// TestNoCrashLeavesAContribution ends the program after each write, in turn, of a life of an instance. Whatever its user
// does then, nothing of a contribution is left.
func TestNoCrashLeavesAContribution(t *testing.T) {
	first := []patch{{"p", "a", "mine", "v"}, {"p", "b", "mine", "v"}, {"s", "a", "status", "v"}}
	second := []patch{{"p", "b", "mine", "w"}, {"p", "c", "mine", "w"}}
	ends := map[string]func(*fixture){
		"the nodes go":            func(f *fixture) { f.nodes.adjust = nil },
		"the instance is deleted": func(f *fixture) { f.delete() },
	}
	for name, end := range ends {
		for after := 1; ; after++ {
			f := contributing(t, "a", "b", "c")
			writes := 0
			f.crash = func(call string) error {
				if writes >= after {
					return context.Canceled
				}
				if !strings.HasPrefix(call, "get ") {
					writes++
				}
				return nil
			}
			for _, patches := range [][]patch{first, second} {
				f.patches(patches...)
				f.reconcile()
				f.reconcile()
			}
			live := func() {
				for range 2 {
					if f.shop() != nil {
						end(f)
						f.reconcile()
					}
				}
			}
			live()
			crashed := writes >= after
			f.crash, f.Reconciler.memories = nil, memories{}
			live()
			for _, target := range []string{"a", "b", "c"} {
				if o := f.objects[keyOf(target)]; contributed(o) {
					t.Errorf("after write %d, and %s: %s has %v", after, name, target, o.Object)
				}
			}
			if f.shop() != nil && len(f.recorded()) > 0 {
				t.Errorf("after write %d, and %s: recorded: %v", after, name, f.recorded())
			}
			if !crashed {
				if after < 8 {
					t.Errorf("there are %d writes only", after)
				}
				break
			}
		}
	}
}
