package claim

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

func TestClaimsCreateNoObjectsOfAKindThatIsNotTheDefinitions(t *testing.T) {
	d := &v1.CompositeResourceDefinition{}
	d.Name, d.Spec.Group, d.Spec.Scope, d.Spec.Names.Kind = "xstores.example.com", "example.com", v1.LegacyClusterScope, "XStore"
	d.Spec.Versions = []v1.DefinitionVersion{{Name: "v1", Served: true, Referenceable: true}}
	claim := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": "b", "uid": "1"}}}

	composer := composerOf(xrd.Snapshot{Definition: d, ForeignComposites: true}, inventory.Keys{})
	desired, err := composer.Compose(t.Context(), plan.Facts{Instance: claim})
	if err != nil || len(desired.Nodes) > 0 || desired.Problem.Reason != plan.NotOwned || !strings.Contains(desired.Problem.Message, "XStore does not belong to CompositeResourceDefinition xstores.example.com") {
		t.Errorf("%+v, %v", desired, err)
	}
	if _, composes := composerOf(xrd.Snapshot{Definition: d}, inventory.Keys{}).(*Composer); !composes {
		t.Error("claims of a kind that is the definition's are not composed")
	}
}

func TestReadyOfAClaimWhoseDesiredStateIsUnknown(t *testing.T) {
	problem := plan.Problem{Reason: plan.NotOwned, Message: "the kind is another's"}
	available := v1alpha1.Condition{Type: v1.TypeReady, Status: condition.True, Reason: v1.ReasonAvailable}
	for reason, tc := range map[string]struct {
		before  condition.Set
		desired plan.Desired
		unready string
		want    v1alpha1.Condition
	}{
		"a claim without a composite was never ready":           {nil, plan.Desired{Problem: problem}, "", waiting("the kind is another's")},
		"what is there stays as it is":                          {condition.Set{available}, plan.Desired{Problem: problem}, "", available},
		"the message is that of the present problem":            {condition.Set{waiting("it is being created")}, plan.Desired{Problem: problem}, "", waiting("the kind is another's")},
		"the composite, which can be read, says that it is not": {condition.Set{available}, plan.Desired{Problem: problem}, "db: slowly", waiting("db: slowly")},
		"nothing is wrong":                                      {condition.Set{waiting("the kind is another's")}, plan.Desired{}, "", available},
	} {
		after := Dialect{}.LiveConditions(tc.before, tc.desired, plan.Summary{Reason: tc.desired.Problem.Reason, Unready: tc.unready}, instance.Moment{})
		if got, _ := after.Get(v1.TypeReady); got.Status != tc.want.Status || got.Reason != tc.want.Reason || got.Message != tc.want.Message {
			t.Errorf("%s: want %+v, got %+v", reason, tc.want, got)
		}
	}
}
