package takeover_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/migration/takeover"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// observed returns an instance with children, one that is being deleted, one with a problem,
// one that would be recreated, and a kind that would be installed.
func observed(t *testing.T) []preview.Object {
	t.Helper()
	one := func(kind, name, more string) *unstructured.Unstructured {
		return parsed(t, "apiVersion: example.org/v1\nkind: "+kind+"\n"+strings.ReplaceAll(more, "NAME", name))
	}
	const composed = "metadata: {name: NAME, namespace: team, uid: u, managedFields: [{manager: apiextensions.crossplane.io/composed/e9b30d92e4cbf0f7, operation: Apply, fieldsV1: {'f:data': {}}}]}"
	const taken = "metadata: {name: NAME, namespace: team, uid: u, labels: {applyset.kubernetes.io/part-of: one}, annotations: {espalier.dev/applied: x}, managedFields: [{manager: kro.run/applyset, operation: Apply, fieldsV1: {'f:data': {}}}]}"
	const quiet = "metadata: {name: NAME, namespace: team, uid: e, labels: {applyset.kubernetes.io/id: two}}"
	const part = "metadata: {name: NAME, namespace: team, uid: f, labels: {applyset.kubernetes.io/part-of: two}}"
	return []preview.Object{
		{Reconciled: true, Before: one("App", "shop", "metadata: {name: NAME, namespace: team, uid: a}\nstatus: {conditions: [{type: Responsive, status: 'True'}]}"),
			After: one("App", "shop", "metadata: {name: NAME, namespace: team, uid: a, labels: {applyset.kubernetes.io/id: one}}")},
		{Before: one("ConfigMap", "a", composed), After: one("ConfigMap", "a", taken)},
		{Before: one("ConfigMap", "b", composed), After: one("ConfigMap", "b", taken)},
		{Before: one("ConfigMap", "c", taken), After: one("ConfigMap", "c", taken)},
		{Reconciled: true, Before: one("App", "going", "metadata: {name: NAME, namespace: team, uid: b, deletionTimestamp: '2026-01-01T00:00:00Z'}"),
			After: one("App", "going", "metadata: {name: NAME, namespace: team, uid: b, deletionTimestamp: '2026-01-01T00:00:00Z'}")},
		{Reconciled: true, Before: one("App", "blocked", "metadata: {name: NAME, namespace: team, uid: c}"),
			After: one("App", "blocked", "metadata: {name: NAME, namespace: team, uid: c}\nstatus: {problems: [{node: web, reason: NotOwned, message: Deployment team/web is somebody else's, since: '2026-01-01T00:00:00Z'}]}")},
		{Reconciled: true, Before: one("App", "broken", "metadata: {name: NAME, namespace: team, uid: d}\nstatus: {conditions: [{type: Synced, status: 'False', reason: ReconcileError, message: before}]}"),
			After: one("App", "broken", "metadata: {name: NAME, namespace: team, uid: d}\nstatus: {conditions: [{type: Synced, status: 'False', reason: ReconcileError, message: there is no composition}]}")},
		{Reconciled: true, Before: one("App", "quiet", quiet), After: one("App", "quiet", quiet)},
		{Before: one("ConfigMap", "loud", part), After: one("ConfigMap", "loud", part+"\ndata: {password: hunter2}")},
		{Before: one("ConfigMap", "gone", composed), Deletion: true},
		{Before: one("ConfigMap", "other", composed), After: one("ConfigMap", "other", "metadata: {name: NAME, namespace: team, uid: another}")},
		{After: parsed(t, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: holds.espalier.dev}\nspec: {group: espalier.dev}")},
	}
}

func TestPlanText(t *testing.T) {
	plan := takeover.New(observed(t), map[object.Key]string{
		{Kind: "Function", Name: "mine"}:                                       "connection refused",
		{Group: "example.org", Kind: "App", Namespace: "team", Name: "broken"}: "its status says so already",
	})
	plan.Notes = []string{"A webhook is left."}
	back := takeover.New(observed(t)[:4], nil)
	back.BackTo, back.Written = "crossplane", true
	refused := takeover.Plan{Refused: "CustomResourceDefinition compositeresourcedefinitions.apiextensions.crossplane.io serves another version, which another program has installed"}
	unsettled := takeover.Plan{Plan: preview.Plan{Incomplete: true}}
	for _, width := range []int{80, 120} {
		got := plan.Text(width) + "---\n" + back.Text(width) + "---\n" + refused.Text(width) + "---\n" + unsettled.Text(width)
		golden.CheckWidth(t, "the plan", got, width)
		golden.Compare(t, fmt.Sprintf("testdata/plan-%d.txt", width), got)
	}
	golden.Compare(t, "testdata/plan.yaml", golden.YAML(t, plan))
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
