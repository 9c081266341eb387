package takeover_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/migration/takeover"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// observed returns an instance with children, one that is being deleted, one with a problem,
// one that would be recreated, and a kind that would be installed.
func observed(t *testing.T) []takeover.Observed {
	t.Helper()
	one := func(kind, name, more string) *unstructured.Unstructured {
		return parsed(t, "apiVersion: example.org/v1\nkind: "+kind+"\n"+strings.ReplaceAll(more, "NAME", name))
	}
	const composed = "metadata: {name: NAME, namespace: team, uid: u, managedFields: [{manager: apiextensions.crossplane.io/composed/e9b30d92e4cbf0f7, operation: Apply, fieldsV1: {'f:data': {}}}]}"
	const taken = "metadata: {name: NAME, namespace: team, uid: u, labels: {applyset.kubernetes.io/part-of: one}, annotations: {espalier.dev/applied: x}, managedFields: [{manager: kro.run/applyset, operation: Apply, fieldsV1: {'f:data': {}}}]}"
	return []takeover.Observed{
		{Served: true, Before: one("App", "shop", "metadata: {name: NAME, namespace: team, uid: a}\nstatus: {conditions: [{type: Responsive, status: 'True'}]}"),
			After: one("App", "shop", "metadata: {name: NAME, namespace: team, uid: a, labels: {applyset.kubernetes.io/id: one}}")},
		{Before: one("ConfigMap", "a", composed), After: one("ConfigMap", "a", taken)},
		{Before: one("ConfigMap", "b", composed), After: one("ConfigMap", "b", taken)},
		{Before: one("ConfigMap", "c", taken), After: one("ConfigMap", "c", taken)},
		{Served: true, Before: one("App", "going", "metadata: {name: NAME, namespace: team, uid: b, deletionTimestamp: '2026-01-01T00:00:00Z'}"),
			After: one("App", "going", "metadata: {name: NAME, namespace: team, uid: b, deletionTimestamp: '2026-01-01T00:00:00Z'}")},
		{Served: true, Before: one("App", "blocked", "metadata: {name: NAME, namespace: team, uid: c}"),
			After: one("App", "blocked", "metadata: {name: NAME, namespace: team, uid: c}\nstatus: {problems: [{node: web, reason: NotOwned, message: Deployment team/web is somebody else's, since: '2026-01-01T00:00:00Z'}]}")},
		{Served: true, Before: one("App", "broken", "metadata: {name: NAME, namespace: team, uid: d}\nstatus: {conditions: [{type: Synced, status: 'False', reason: ReconcileError, message: before}]}"),
			After: one("App", "broken", "metadata: {name: NAME, namespace: team, uid: d}\nstatus: {conditions: [{type: Synced, status: 'False', reason: ReconcileError, message: there is no composition}]}")},
		{Before: one("ConfigMap", "gone", composed), Deletion: true},
		{Before: one("ConfigMap", "other", composed), After: one("ConfigMap", "other", "metadata: {name: NAME, namespace: team, uid: another}")},
		{After: parsed(t, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: holds.espalier.dev}\nspec: {group: espalier.dev}")},
	}
}

func TestPlanText(t *testing.T) {
	plan := takeover.New(observed(t), map[object.Key]string{
		{Kind: "Function", Name: "mine"}:                                       errors.New("connection refused").Error(),
		{Group: "example.org", Kind: "App", Namespace: "team", Name: "broken"}: "its status says so already",
	})
	plan.Notes = []string{"a webhook is left"}
	back := takeover.New(observed(t)[:4], nil)
	back.BackTo, back.Written = "crossplane", true
	refused := takeover.Plan{Refused: "CustomResourceDefinition compositeresourcedefinitions.apiextensions.crossplane.io serves another version, which another program has installed"}
	unsettled := takeover.Plan{Unsettled: true}
	for _, width := range []int{80, 120} {
		got := plan.Text(width) + "---\n" + back.Text(width) + "---\n" + refused.Text(width) + "---\n" + unsettled.Text(width)
		golden.CheckWidth(t, "the plan", got, width)
		golden.Compare(t, fmt.Sprintf("testdata/plan-%d.txt", width), got)
	}
}

func TestAPlanSaysThatNothingIsLeftToTakeOver(t *testing.T) {
	const want = "All of them are Espalier's already: nothing needs a takeover.\nNothing was written.\n"
	unchanged := observed(t)[3:4]
	if text := takeover.New(unchanged, nil).Text(80); !strings.HasSuffix(text, want) {
		t.Errorf("got %s", text)
	}
	for name, plan := range map[string]takeover.Plan{"nothing is there": {}, "something changes": takeover.New(observed(t)[1:4], nil), "something fails": takeover.New(unchanged, map[object.Key]string{{Kind: "Function"}: "refused"})} {
		if text := plan.Text(80); strings.HasSuffix(text, want) {
			t.Errorf("%s, and the plan is\n%s", name, text)
		}
	}
}

func TestPlanTextBreaksNoNames(t *testing.T) {
	owners := []string{"App first", "App second", "App third", "App fourth", "App fifth"}
	changed := takeover.Object{Action: takeover.Changed, Differences: []takeover.Difference{{Aspect: takeover.Owners, Added: owners}}}
	text := takeover.Plan{Groups: []takeover.Group{{Objects: []takeover.Object{changed}}}}.Text(40)
	for _, name := range owners {
		if !strings.Contains(text, name) {
			t.Errorf("%q is broken:\n%s", name, text)
		}
	}
}
