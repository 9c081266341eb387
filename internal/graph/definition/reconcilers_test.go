package definition

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// cached are instances by name.
type cached map[string]*unstructured.Unstructured

func (c cached) GetCached(_ schema.GroupVersionKind, _, name string) (*unstructured.Unstructured, bool) {
	o, exists := c[name]
	return o, exists
}

func (cached) DeletedDespiteFinalizers(schema.GroupVersionKind, string, string) *unstructured.Unstructured {
	return nil
}

// pinned is an instance that requests a revision; an empty one requests none.
func pinned(number string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if number != "" {
		o.SetAnnotations(map[string]string{v1alpha1.RevisionAnnotation: number})
	}
	return o
}

func TestEachInstanceIsReconciledAsTheAccountOfItsRevision(t *testing.T) {
	account := func(user string) Account { return Account{User: user, Cluster: &kube.Client{}} }
	a, b := account("a"), account("b")
	var ended []string
	r := &reconcilers{
		instances: cached{"plain": pinned(""), "pinned": pinned("1"), "unknown": pinned("7")},
		create:    func(Account) *instance.Reconciler { return &instance.Reconciler{} },
		ended:     func(a Account) { ended = append(ended, a.User) },
		byUser:    map[string]*accountReconciler{},
	}
	expect := func(name, user string, others int) {
		t.Helper()
		chosen, rest := r.choose(object.Key{Name: name})
		if chosen == nil || chosen.account.User != user || len(rest) != others {
			t.Errorf("%s: got %+v and %d others", name, chosen, len(rest))
		}
		if chosen != nil {
			chosen.inFlight.Done()
		}
	}
	one, two := &graph.Graph{}, &graph.Graph{}
	both := newComposers(composers{
		state: revision.State{Serving: 2}, graphs: map[int64]*graph.Graph{1: one, 2: two}, accounts: map[int64]*Account{1: &a, 2: &b},
		overrides: inventory.Overrides{Revision: v1alpha1.OverrideAllow},
	})

	if chosen, others := r.choose(object.Key{Name: "plain"}); chosen != nil || len(others) > 0 {
		t.Error("an instance is reconciled without an account")
	}
	if !r.set(nil, account("c")) || r.set(nil, account("c")) {
		t.Error("set does not say whether the account has changed")
	}
	expect("plain", "c", 0)
	if !r.set(both, account("b")) || r.set(both, account("b")) {
		t.Error("set does not say whether the composers have changed")
	}
	if !slices.Equal(ended, []string{"c"}) {
		t.Errorf("ended: %v", ended)
	}
	expect("plain", "b", 1)
	expect("pinned", "a", 1)
	expect("unknown", "b", 1) // the instance stays as it is, and its status says so
	expect("gone", "b", 1)

	r.set(newComposers(composers{state: revision.State{Serving: 2}, graphs: map[int64]*graph.Graph{2: two}, accounts: map[int64]*Account{2: &b}}), Account{})
	if !slices.Equal(ended, []string{"c", "a"}) {
		t.Errorf("ended: %v", ended)
	}
	expect("pinned", "b", 0)
	expect("gone", "b", 0) // any account forgets it
	r.stop()
	if !slices.Equal(ended, []string{"c", "a", "b"}) {
		t.Errorf("ended: %v", ended)
	}
}

// TestAnInstanceSelectsARevisionOnlyIfItMay has an instance request a revision of another account.
func TestAnInstanceSelectsARevisionOnlyIfItMay(t *testing.T) {
	one, two := &graph.Graph{}, &graph.Graph{}
	composed := func(access v1alpha1.OverrideAccess) *composers {
		return newComposers(composers{
			state: revision.State{Serving: 2}, graphs: map[int64]*graph.Graph{1: one, 2: two}, accounts: map[int64]*Account{1: {User: "a"}, 2: {User: "b"}},
			overrides: inventory.OverridesOf(&v1alpha1.InstanceOverrides{Revision: access}), requested: func(int64) {},
		})
	}
	cases := map[string]struct {
		access  v1alpha1.OverrideAccess
		request string
		want    int64
		user    string
	}{
		"By default it may not":              {"", "1", 2, "b"},
		"If it is denied":                    {v1alpha1.OverrideDeny, "1", 2, "b"},
		"An invalid one is ignored then too": {"", "latest", 2, "b"},
		"If it is allowed":                   {v1alpha1.OverrideAllow, "1", 1, "a"},
		"An invalid one freezes it then":     {v1alpha1.OverrideAllow, "latest", 0, "b"},
		"One that requests none":             {v1alpha1.OverrideAllow, "", 2, "b"},
	}
	for name, tc := range cases {
		c := composed(tc.access)
		if got := c.revisionOf(c.Choose(pinned(tc.request))); got != tc.want {
			t.Errorf("%s: it is composed by revision %d", name, got)
		}
		if got := c.accountOf(pinned(tc.request)).User; got != tc.user {
			t.Errorf("%s: it is reconciled as %s", name, got)
		}
	}
	denied, allowed := composed(""), composed(v1alpha1.OverrideAllow)
	if denied.digest == allowed.digest || denied.composesAs(pinned(""), allowed) {
		t.Error("composers that allow more replace none that allow less")
	}
	if !denied.composesAs(pinned("1"), composed(v1alpha1.OverrideDeny)) {
		t.Error("composers that allow the same replace each other")
	}
}

// TestComposersDoNotChange adds a graph for the next composers, as a reconcile does that writes its status in between. An
// instance that has waited for the graph is composed otherwise by these.
func TestComposersDoNotChange(t *testing.T) {
	graphs := map[int64]*graph.Graph{2: {}}
	accounts := map[int64]*Account{1: {}, 2: {}}
	var requested []int64
	next := func() *composers {
		return newComposers(composers{
			state: revision.State{Serving: 2}, graphs: graphs, accounts: accounts, overrides: inventory.Overrides{Revision: v1alpha1.OverrideAllow},
			requested: func(number int64) { requested = append(requested, number) },
		})
	}
	before := next()
	before.Choose(pinned("1"))
	if !slices.Equal(requested, []int64{1}) {
		t.Errorf("requested: %v", requested)
	}
	graphs[1] = &graph.Graph{}
	after := next()
	if before.composesAs(pinned("1"), after) {
		t.Error("an instance that waits for its revision is not enqueued when that is compiled")
	}
	if !before.composesAs(pinned(""), after) {
		t.Error("an instance that requests no revision is composed otherwise")
	}
}
