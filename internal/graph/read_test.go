package graph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/graph"
)

func TestReadReportsEveryInvalidValue(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   string
		want   string // of Read, and then of Compile
	}{
		"A duration": {
			"each names its place, and so does everything else that is wrong", `
schema: {kind: Shop, apiVersion: v1alpha1, spec: {size: integr}}
deletion: {timeout: soon, forceAfter: 1h}
rollout: {waves: [{percent: 5, pause: 1 h}], progressDeadline: "5"}
resources:
  - id: network
    template: {apiVersion: cloud.example.com/v1, kind: Network, metadata: {name: a}}
    readyWhen: ["${netwrk.status.state == 'up'}"]
  - id: subnet
    waitFor: {network: {fields: [status.netwrkID], timeout: 10 minutes, retries: 3}}
    template: {apiVersion: cloud.example.com/v1, kind: Subnet, metadata: {name: a}}
`, `spec.deletion.timeout: "soon" is not a duration; expected such as 90s, 10m or 1h30m
spec.resources[1].waitFor.network.timeout: "10 minutes" is not a duration; expected such as 90s, 10m or 1h30m
spec.rollout.progressDeadline: "5" is not a duration; expected such as 90s, 10m or 1h30m
spec.rollout.waves[0].pause: "1 h" is not a duration; expected such as 90s, 10m or 1h30m
and
spec.resources[0].readyWhen[0]: in "netwrk.status.state == 'up'" at 1: references unknown identifiers: [netwrk]; did you mean "network"?
spec.resources[1].waitFor.network.fields[0]: in "network.status.netwrkID" at 16: undefined field 'netwrkID' in network.status; did you mean "networkID"?
spec.schema.spec.size: in "integr" at 1: there is no type "integr"; did you mean "integer"?`,
		},
		"What is not waited for": {
			"the other fields of the list have places that could be mistaken for its", `
schema: {kind: Shop, apiVersion: v1alpha1}
resources:
  - id: network
    template: {apiVersion: cloud.example.com/v1, kind: Network, metadata: {name: "${nobody}"}}
  - id: subnet
    waitFor: {network: {fields: [5, status.x]}}
    template: {apiVersion: cloud.example.com/v1, kind: Subnet, metadata: {name: a}}
`, `spec.resources[1].waitFor.network.fields[0]: 5 is not allowed here; expected a path such as status.vpcID, or an object with path and pattern or rule
and
spec.resources[0].template.metadata.name: in "nobody" at 1: references unknown identifiers: [nobody]`,
		},
		"What the kind of definitions would refuse": {
			"a file need not have passed an API server", `
schema: {kind: Shop, apiVersion: v1alpha1, shortNames: shop, scope: 5, metadata: [a]}
revision: many
rollout: {waves: [], paused: "no", maxUnavailable: true}
resources: [a]
`, `spec.resources[0]: "a" is not allowed here; expected an object
spec.revision: "many" is not allowed here; expected an integer of at most 64 bits
spec.rollout.maxUnavailable: true is not allowed here; expected an integer or a string
spec.rollout.paused: "no" is not allowed here; expected a boolean
spec.schema.metadata: ["a"] is not allowed here; expected an object
spec.schema.scope: 5 is not allowed here; expected a string
spec.schema.shortNames: "shop" is not allowed here; expected a list
and
`,
		},
		"Nothing": {"all of it is read", `
schema: {kind: Shop, apiVersion: v1alpha1}
deletion: {timeout: 1h}
resources: [null]
`, "\nand\nspec.resources[0]: is null"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var document map[string]any
			decode(t, tc.spec, &document)
			spec, illegible := graph.Read(document)
			_, wrong := graph.Compile(spec, commonKinds(t, ""))
			text := ""
			if illegible != nil {
				text = illegible.Err().Error()
			}
			text += "\nand\n"
			if wrong != nil {
				text += wrong.Err().Error()
			}
			if diff := cmp.Diff(tc.want, text); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
