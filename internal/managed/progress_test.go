package managed

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

func TestProgress(t *testing.T) {
	synced := func(status, reason string) v1alpha1.Condition {
		return v1alpha1.Condition{Type: resource.Synced, Status: map[string]v1alpha1.Condition{"T": {Status: condition.True}, "F": {Status: condition.False}, "U": {Status: condition.Unknown}}[status].Status, Reason: reason}
	}
	available := v1alpha1.Condition{Type: resource.Ready, Status: condition.True, Reason: resource.Available}
	creating := v1alpha1.Condition{Type: resource.Ready, Status: condition.False, Reason: resource.Creating}
	failure := operation.Failure(errors.New("timeout"))
	cases := map[string]struct {
		reason string
		synced v1alpha1.Condition
		ready  v1alpha1.Condition
		step   operation.Step
		change func(*reconcileState)
		want   string
	}{
		"available":                     {"nothing is left to do", synced("T", resource.ReconcileSuccess), available, operation.Step{}, nil, ""},
		"being created":                 {"it takes time", synced("U", resource.OperationInProgress), creating, operation.Step{}, nil, "Reconciling OperationInProgress"},
		"created and not available yet": {"the external API works on it", synced("T", resource.ReconcileSuccess), creating, operation.Step{}, nil, "Reconciling Creating"},
		"the name is another's":         {"a user has to choose", synced("F", resource.NameReserved), creating, operation.Step{}, nil, "Stalled NameReserved"},
		"a call was refused":            {"it is repeated", synced("F", resource.ReconcileError), creating, failure, nil, "Reconciling ReconcileError"},
		"an observation fails":          {"what depends on it need not wait", synced("F", resource.ReconcileError), available, failure, nil, ""},
		"an update fails": {
			"it is not as specified", synced("F", resource.ReconcileError), available, failure,
			func(s *reconcileState) { s.state.OperationErr = &external.OpError{Message: "no quota"} }, "Reconciling ReconcileError",
		},
		"a new generation cannot be observed": {
			"it may be different", synced("F", resource.ReconcileError), available, failure,
			func(s *reconcileState) { s.object.SetGeneration(3) }, "Reconciling ReconcileError",
		},
		"an invalid set of management policies": {
			"it is the same until the user changes it", synced("F", resource.ReconcileError), creating,
			operation.Step{Do: operation.Finish, NeedsAction: true}, nil, "Stalled ReconcileError",
		},
		"an invalid set of one that is available": {
			"nothing is observed any more", synced("F", resource.ReconcileError), available,
			operation.Step{Do: operation.Finish, NeedsAction: true}, nil, "Stalled ReconcileError",
		},
		"paused": {"a user wants that", synced("F", resource.ReconcilePaused), creating, operation.Step{}, nil, ""},
		"being deleted": {"the deletion timestamp says more", synced("U", resource.OperationInProgress), creating, operation.Step{}, func(s *reconcileState) {
			s.object.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &reconcileState{object: &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"generation": int64(2)}, "status": map[string]any{"observedGeneration": int64(2)},
			}}}
			if tc.change != nil {
				tc.change(s)
			}
			set := condition.Set{tc.synced, tc.ready}
			got := ""
			for _, c := range set.MarkProgress(s.progress(set, tc.step), 2, start)[2:] {
				got = c.Type + " " + c.Reason
			}
			if got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

func TestReadyIsOfTheGenerationThatTheExternalResourceHas(t *testing.T) {
	synced := func(status string) operation.Step {
		return operation.Step{
			Ready:  operation.Condition{Status: condition.True, Reason: resource.Available},
			Synced: operation.Condition{Status: metav1.ConditionStatus(status), Reason: "R"},
		}
	}
	present := func(upToDate external.Answer) *external.Observation {
		return &external.Observation{Presence: external.Present, UpToDate: upToDate}
	}
	was := condition.Set{{Type: resource.Ready, Status: condition.True, ObservedGeneration: 1}}
	cases := map[string]struct {
		reason   string
		observed *external.Observation
		step     operation.Step
		before   condition.Set
		want     int64
	}{
		"the change is made":                   {"it has all", present(external.Yes), synced("True"), was, 2},
		"the change fails":                     {"it has none of the change", present(external.No), synced("False"), was, 1},
		"the change is being made":             {"it may have some of the change", present(external.No), synced("Unknown"), was, 1},
		"nobody can tell":                      {"it may have none of the change", present(external.CannotTell), synced("Unknown"), was, 1},
		"the policies allow no update":         {"nothing else will be done", present(external.No), synced("True"), was, 2},
		"a failure of something else":          {"it has all", present(external.Yes), synced("False"), was, 2},
		"it does not exist":                    {"it has no readiness", &external.Observation{Presence: external.Absent, UpToDate: external.No}, synced("False"), was, 2},
		"it was not observed":                  {"nothing is known", nil, synced("False"), was, 2},
		"it has not been reported to be ready": {"there is no former generation", present(external.No), synced("False"), nil, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &reconcileState{object: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": int64(2)}}}}
			s.state.Observed = tc.observed
			if got := s.generationOf(resource.Ready, tc.step, tc.before); got != tc.want {
				t.Errorf("%s: want %d, got %d", tc.reason, tc.want, got)
			}
			if got := s.generationOf(resource.Synced, tc.step, tc.before); got != 2 {
				t.Errorf("Synced is of generation %d", got)
			}
		})
	}
}
