package definition

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/serving"
)

func TestKindCondition(t *testing.T) {
	ready, good := serving.Readiness{Ready: true}, v1.ReasonWatchingComposite
	var problems diag.List
	problems.Addf("spec.group", "is wrong")
	cases := map[string]struct {
		aspect   kindStatus
		problems diag.List
		notes    string
		want     v1alpha1.Condition
	}{
		"Served": {kindStatus{ready, true, watch.State{Phase: watch.Synced}, good}, nil, "", v1alpha1.Condition{Status: condition.True, Reason: good}},
		"Served, though not all that is asked for will be there": {
			kindStatus{ready, true, watch.State{Phase: watch.Synced}, good}, nil, "a note", v1alpha1.Condition{Status: condition.True, Reason: good, Message: "a note"},
		},
		"Its objects are being read": {kindStatus{ready, true, watch.State{Phase: watch.Syncing}, good}, nil, "", v1alpha1.Condition{Status: condition.True, Reason: good}},
		"Its objects cannot be read": {
			kindStatus{ready, true, watch.State{Phase: watch.Unavailable, Reason: watch.Forbidden, Message: "may not list"}, good}, nil, "",
			v1alpha1.Condition{Status: condition.False, Reason: "Forbidden", Message: "cannot read objects of the kind: may not list"},
		},
		"The definition is wrong": {kindStatus{good: good}, problems, "", v1alpha1.Condition{Status: condition.False, Reason: "InvalidDefinition", Message: "spec.group: is wrong"}},
		"The definition was right once": {
			kindStatus{serving: true, good: good}, problems, "", v1alpha1.Condition{Status: condition.False, Reason: "InvalidDefinition", Message: "spec.group: is wrong\nthe last valid definition is still served"},
		},
		"Another object owns the kind": {
			kindStatus{readiness: serving.Readiness{Reason: serving.NotOwned, Message: "theirs"}, good: good}, nil, "", v1alpha1.Condition{Status: condition.False, Reason: "KindNotOwned", Message: "theirs"},
		},
		"The API server is at it": {
			kindStatus{readiness: serving.Readiness{Unknown: true, Reason: serving.Establishing, Message: "a moment"}, good: good}, nil, "", v1alpha1.Condition{Status: condition.Unknown, Reason: "Establishing", Message: "a moment"},
		},
	}
	for name, tc := range cases {
		if diff := cmp.Diff(tc.want, tc.aspect.condition(tc.problems, tc.notes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
