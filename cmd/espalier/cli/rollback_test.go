package cli

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
)

func TestAnswerToARollback(t *testing.T) {
	definition := func(serving int64, status, reason, message string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"servingRevision": serving,
			"conditions":      []any{map[string]any{"type": v1alpha1.DefinitionRevisionsResolved, "status": status, "reason": reason, "message": message}},
		}}}
	}
	invalid := v1alpha1.Condition{Status: metav1.ConditionFalse, Reason: "RevisionInvalid", Message: "revision 5 cannot serve: no such field"}
	for name, tc := range map[string]struct {
		before  v1alpha1.Condition
		now     *unstructured.Unstructured
		problem string
		final   bool
	}{
		"the revision serves":                               {now: definition(3, "True", "RolledBack", ""), final: true},
		"it serves already":                                 {before: v1alpha1.Condition{Status: "True"}, now: definition(3, "True", "Resolved", ""), final: true},
		"it compiles, and does not serve yet":               {now: definition(4, "True", "RolledBack", "revision 3 compiled")},
		"a rollout goes on":                                 {now: definition(3, "Unknown", "RollingOut", "")},
		"it cannot serve":                                   {now: definition(4, "False", "RevisionInvalid", "revision 3 cannot serve: no"), problem: "revision 3 cannot serve: no", final: true},
		"what the condition said before the rollback":       {before: invalid, now: definition(4, "False", invalid.Reason, invalid.Message)},
		"another problem than before":                       {before: invalid, now: definition(4, "False", "RevisionInvalid", "revision 3 cannot serve: no"), problem: "revision 3 cannot serve: no", final: true},
		"the kind is not ready for it, which it may become": {now: definition(4, "False", v1alpha1.ReasonKindNotReady, "see KindReady"), problem: "see KindReady"},
	} {
		problem, final := rollbackPlan{To: 3}.answer(tc.before, tc.now)
		if problem != tc.problem || final != tc.final {
			t.Errorf("%s: %q, %t", name, problem, final)
		}
	}
}

func TestPlanRollback(t *testing.T) {
	now := metav1.Now()
	cases := map[string]struct {
		// rolling is the revision that is being rolled out; negative if that is complete.
		serving, rolling, to int64
		// revisions are those that exist; negative if they are being deleted.
		revisions []int64
		invalid   int64
		want      string
	}{
		"To the given revision":                                         {5, 0, 3, []int64{3, 4, 5}, 0, "rolls back from revision 5 to 3, until there is a revision after 5"},
		"To the previous one by default":                                {5, 0, 0, []int64{3, 4, 5}, 0, "rolls back from revision 5 to 4, until there is a revision after 5"},
		"To the one before the serving revision, not before the newest": {4, 0, 0, []int64{3, 4, 5}, 0, "rolls back from revision 4 to 3, until there is a revision after 5"},
		"A revision that is being deleted is skipped":                   {5, 0, 0, []int64{3, -4, 5}, 0, "rolls back from revision 5 to 3, until there is a revision after 5"},
		"The given revision serves already":                             {3, 0, 3, []int64{3, 4, 5}, 0, "stays at revision 3 until there is a revision after 5"},
		"The given revision does not exist":                             {5, 0, 1, []int64{3, 4, 5}, 0, "there is no revision 1; there are 3, 4 and 5"},
		"The given revision is invalid":                                 {5, 0, 3, []int64{3, 5}, 3, "revision 3 cannot serve: no such field"},
		"No previous revision exists":                                   {5, 0, 0, []int64{5}, 0, "there is no revision before the serving revision 5; there are 5"},
		"The first rollout is in progress":                              {1, 2, 0, []int64{1, 2}, 0, "rolls back from revision 2, which was being rolled out, to 1, until there is a revision after 2"},
		"A later rollout is in progress":                                {5, 6, 0, []int64{3, 4, 5, 6}, 0, "rolls back from revision 6, which was being rolled out, to 5, until there is a revision after 6"},
		"To the given revision during a rollout":                        {5, 6, 4, []int64{3, 4, 5, 6}, 0, "rolls back from revision 5 to 4, until there is a revision after 6"},
		"The last rollout is complete":                                  {5, -5, 0, []int64{3, 4, 5}, 0, "rolls back from revision 5 to 4, until there is a revision after 5"},
		"The serving revision does not exist":                           {1, 2, 0, []int64{2}, 0, "there is no revision 1; there are 2"},
		"No revision exists":                                            {0, 0, 0, nil, 0, "it has no revision"},
	}
	for name, tc := range cases {
		var all []*rev.GraphRevision
		for _, n := range tc.revisions {
			one := &rev.GraphRevision{}
			if one.Spec.Revision = n; n < 0 {
				one.Spec.Revision, one.DeletionTimestamp = -n, &now
			}
			if n == tc.invalid {
				one.Status.Conditions = []v1alpha1.Condition{{Type: rev.GraphVerified, Status: metav1.ConditionFalse, Message: "no such field"}}
			}
			all = append(all, one)
		}
		status := map[string]any{"servingRevision": tc.serving}
		switch {
		case tc.rolling > 0:
			status["rollout"] = map[string]any{"revision": tc.rolling, "phase": "Stopped"}
		case tc.rolling < 0:
			status["rollout"] = map[string]any{"revision": -tc.rolling, "phase": "Complete"}
		}
		d := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		plan, err := planRollback(d, all, tc.to)
		got := plan.String()
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestPlanRollbackWithoutPermission plans for the author of a ResourceGroup, who may not list revisions, which are cluster-scoped.
func TestPlanRollbackWithoutPermission(t *testing.T) {
	for name, tc := range map[string]struct {
		serving, newest, rolling, to int64
		want                         string
	}{
		"To the given revision":        {5, 5, 0, 3, "rolls back from revision 5 to 3, until there is a revision after 5"},
		"A rollout is in progress":     {5, 6, 6, 0, "rolls back from revision 6, which was being rolled out, to 5, until there is a revision after 6"},
		"Without a revision":           {5, 5, 0, 0, "you are not allowed to list its revisions, so the one before the serving revision 5 is unknown; name a revision with --to"},
		"To one that was never issued": {5, 5, 0, 6, "there is no revision 6; the newest is 5"},
		"No revision exists":           {0, 0, 0, 1, "it has no revision"},
	} {
		status := map[string]any{"servingRevision": tc.serving, "lastIssuedRevision": tc.newest}
		if tc.rolling != 0 {
			status["rollout"] = map[string]any{"revision": tc.rolling, "phase": "Progressing"}
		}
		plan, err := planUnlisted(&unstructured.Unstructured{Object: map[string]any{"status": status}}, tc.to)
		got := plan.String()
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestInvalidRollbacks(t *testing.T) {
	for _, args := range [][]string{{"rollback"}, {"rollback", "a", "b"}, {"rollback", "a", "--to", "0"}, {"rollback", "a", "--to", "1", "--end"}, {"rollback", "graph/a", "--end"}} {
		if code, _, errs := call(t.Context(), args...); code != exitUsage {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
	}
}
