package definition

import (
	"testing"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/graph"
)

func TestOnlyAServingRevisionContinuesToPublishSecrets(t *testing.T) {
	leaky := &graph.Graph{SecretOutputs: diag.List{{Path: "spec.schema.status.password", Problem: "puts data of a Secret"}}}
	rolling := &v1alpha1.RolloutStatus{Revision: 2}
	cases := map[string]struct {
		reason  string
		rule    graph.SecretOutputs
		status  v1alpha1.DefinitionStatus
		graph   *graph.Graph
		refused bool
	}{
		"serving":           {"it served before it was refused", "", v1alpha1.DefinitionStatus{ServingRevision: 2}, leaky, false},
		"being rolled out":  {"it composes instances already", "", v1alpha1.DefinitionStatus{ServingRevision: 1, Rollout: rolling}, leaky, false},
		"requested":         {"an instance can request it", "", v1alpha1.DefinitionStatus{ServingRevision: 3}, leaky, true},
		"without a status":  {"it is not known to have served", graph.RefuseSecretOutputs, v1alpha1.DefinitionStatus{}, leaky, true},
		"as a warning":      {"nothing is refused", graph.WarnOfSecretOutputs, v1alpha1.DefinitionStatus{ServingRevision: 3}, leaky, false},
		"without a Secret":  {"it publishes nothing", "", v1alpha1.DefinitionStatus{ServingRevision: 3}, &graph.Graph{}, false},
		"after its rollout": {"the rollout is complete", "", v1alpha1.DefinitionStatus{ServingRevision: 3, Rollout: &v1alpha1.RolloutStatus{Revision: 2, Phase: v1alpha1.RolloutComplete}}, leaky, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := &session{Dialect: &Dialect{Config: Config{SecretOutputs: tc.rule}}, status: tc.status}
			if problem := v.publishesSecrets(2, tc.graph); (problem != "") != tc.refused {
				t.Errorf("%s: got %q", tc.reason, problem)
			}
		})
	}
}
