package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/observe"
)

// brokenRecord has a definition that is served and one that is not, with an instance each; a definition without a kind; and a
// composition whose newest revision lacks a function; and a managed resource that nothing composes.
const brokenRecord = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.s3.example.org, uid: c3}
spec: {group: s3.example.org, scope: Namespaced, names: {kind: Bucket, plural: buckets, singular: bucket, listKind: BucketList, categories: [crossplane, managed]}, versions: [{name: v1, served: true, storage: true}]}
---
apiVersion: s3.example.org/v1
kind: Bucket
metadata: {name: alone, namespace: prod, uid: m1, generation: 1}
status: {conditions: [{type: Synced, status: "False", reason: ReconcileError, message: AccessDenied}, {type: Ready, status: "False", reason: Creating}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sites.kro.run, uid: c1, labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: site}}
spec: {group: kro.run, scope: Namespaced, names: {kind: Site, plural: sites, singular: site, listKind: SiteList}, versions: [{name: v1alpha1, served: true, storage: true}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.kro.run, uid: c2, labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: shop}}
spec: {group: kro.run, scope: Namespaced, names: {kind: Shop, plural: shops, singular: shop, listKind: ShopList}, versions: [{name: v1alpha1, served: true, storage: true}]}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: site, uid: d1, generation: 1}
spec: {schema: {apiVersion: v1alpha1, kind: Site}, resources: []}
status: {conditions: [{type: Ready, status: "True", reason: Ready, observedGeneration: 1}]}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shop, uid: d2, generation: 1}
spec: {schema: {apiVersion: v1alpha1, kind: Shop}, resources: []}
status: {conditions: [{type: ControllerReady, status: "False", reason: Forbidden, message: "cannot read instances: shops is forbidden", observedGeneration: 1}, {type: Ready, status: "False", reason: Forbidden, message: m, observedGeneration: 1}]}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: webservice, uid: d3, generation: 1}
spec: {schema: {apiVersion: v1alpha1, kind: WebService}, resources: []}
status: {state: Inactive, conditions: [{type: GraphAccepted, status: "False", reason: InvalidResourceGraph, message: "spec.resources: undefined field", observedGeneration: 1}, {type: Ready, status: "False", reason: InvalidResourceGraph, message: "spec.resources: undefined field", observedGeneration: 1}]}
---
apiVersion: kro.run/v1alpha1
kind: Site
metadata: {name: one, namespace: prod, uid: i1, generation: 1, labels: {applyset.kubernetes.io/id: a}}
status: {conditions: [{type: Ready, status: "True", reason: Ready, observedGeneration: 1}]}
---
apiVersion: kro.run/v1alpha1
kind: Shop
metadata: {name: main, namespace: prod, uid: i2, generation: 1}
---
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: stores, uid: x1}
---
apiVersion: apiextensions.crossplane.io/v1
kind: CompositionRevision
metadata: {name: stores-1, uid: x2, generation: 1, labels: {crossplane.io/composition-name: stores}}
spec: {revision: 1}
status: {conditions: [{type: ValidPipeline, status: "True", reason: ValidPipeline}]}
---
apiVersion: apiextensions.crossplane.io/v1
kind: CompositionRevision
metadata: {name: stores-2, uid: x3, generation: 1, labels: {crossplane.io/composition-name: stores}}
spec: {revision: 2}
status: {conditions: [{type: ValidPipeline, status: "False", reason: MissingCapabilities, message: there is no function function-autoready}]}
`

func TestARecordOfWhatIsNotServed(t *testing.T) {
	record := filepath.Join(t.TempDir(), "record.yaml")
	if err := os.WriteFile(record, []byte(brokenRecord), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args string
		code int
		want string
	}{
		"an instance of a definition that may not read it": {"why shop main -n prod", exitNotReady, "ResourceGraphDefinition shop is not ready: Forbidden: cannot read instances: shops is forbidden"},
		"a composition":                            {"why composition stores", exitNotReady, "CompositionRevision stores-2 is not ready: MissingCapabilities: there is no function function-autoready"},
		"a kind of an inactive definition":         {"why webservice one", exitFailed, `no matches for kind "webservice": ResourceGraphDefinition webservice defines it and does not serve it: InvalidResourceGraph: spec.resources: undefined field; see espalier why resourcegraphdefinition.kro.run webservice`},
		"its plural, in a tree":                    {"tree webservices.kro.run", exitFailed, "ResourceGraphDefinition webservice defines it"},
		"a kind that nothing defines":              {"why sitess one", exitFailed, `no matches for kind "sitess"; did you mean "sites"?`},
		"everything":                               {"status", exitNotReady, "2 of 3 definitions are not served, 1 of 2 instances are not ready"},
		"a managed resource of no instance":        {"status", exitNotReady, "Managed resources of kind Bucket.s3.example.org: 1 of 1 is not ready"},
		"the newest revision of a composition":     {"status", exitNotReady, "CompositionRevision stores-2 is not ready"},
		"the instances of a namespace":             {"status -n prod", exitNotReady, "1 of 2 instances are not ready"},
		"a record":                                 {"status --from incident.tar.gz", exitNotReady, "2 of 3 definitions are not served"},
		"for programs":                             {"status -o json", exitNotReady, `"unreadyInstances": 1`},
		"the instances of a namespace without any": {"status -n other", exitNotReady, "2 of 3 definitions are not served, 0 of 0 instances are not ready"},
		"everything, for programs that read YAML":  {"status -o yaml", exitNotReady, "unreadyInstances: 1"},
		"arguments, of which there are none":       {"status shop", exitUsage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(strings.ReplaceAll(tc.args, "incident.tar.gz", record))
			if !slices.Contains(args, "--from") {
				args = append(args, "--from", record)
			}
			code, out, errs := call(t.Context(), args...)
			if code != tc.code || !strings.Contains(out+errs, tc.want) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
	t.Run("the worst comes first", func(t *testing.T) {
		_, out, _ := call(t.Context(), "status", "-o", "json", "--from", record)
		var got observe.ClusterStatus
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Definitions) != 4 || got.Definitions[0].Object.Name == "site" {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// TestGraphsAreInTheStatus: they have no definition, and the instances of one aren't theirs.
func TestGraphsAreInTheStatus(t *testing.T) {
	const graphs = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: graphs.kro.run, uid: c1}
spec: {group: kro.run, scope: Namespaced, names: {kind: Graph, plural: graphs, singular: graph, listKind: GraphList}, versions: [{name: v1alpha1, served: true, storage: true}]}
---
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: pair, namespace: prod, uid: g1, generation: 1}
status: {conditions: [{type: Accepted, status: "False", reason: InvalidGraph, message: "spec.nodes[0]: undefined field", observedGeneration: 1}, {type: Ready, status: "False", reason: InvalidGraph, message: "spec.nodes[0]: undefined field", observedGeneration: 1}]}
---
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: shop, namespace: prod, uid: g2, generation: 1}
status: {conditions: [{type: Accepted, status: "True", reason: Compiled, observedGeneration: 1}, {type: Ready, status: "True", reason: Applied, observedGeneration: 1}]}
`
	record := filepath.Join(t.TempDir(), "record.yaml")
	if err := os.WriteFile(record, []byte(graphs), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := call(t.Context(), "status", "--from", record)
	for _, want := range []string{"Graphs: 1 of 2 are not ready", "! Graph prod/pair", "spec.nodes[0]: undefined field", "1 of 2 instances are not ready"} {
		if code != exitNotReady || !strings.Contains(out, want) {
			t.Errorf("exit code %d, without %q: %s%s", code, want, out, errs)
		}
	}
}
