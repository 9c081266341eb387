package observe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/observe"
)

// The annotation force-delete has no effect on an instance's own protection and on pruned
// objects, so it is not advised.
func TestAdviceHasAnEffect(t *testing.T) {
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	itself := report.Object{APIVersion: "a/v1", Kind: "Vpc", Namespace: "prod", Name: "main"}
	other := report.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: "c"}
	top := func() observe.Node {
		return observe.Node{APIVersion: "a/v1", Kind: "Vpc", Namespace: "prod", Name: "main", Exists: true, Instance: true, Deleted: &at}
	}
	protected, pruning := top(), top()
	protected.Deletion = &report.Deletion{StartedAt: report.At(at), Blocked: 1, Blockers: []report.Blocker{{BlockedObject: report.BlockedObject{Object: itself, Reason: report.Protected, Since: report.At(at)}}}}
	pruning.Deleted = nil
	pruning.Pruning = []report.Blocker{{Node: "c", BlockedObject: report.BlockedObject{Object: other, Reason: report.HeldByFinalizer, Since: report.At(at)}}}
	for name, n := range map[string]observe.Node{"the instance's own protection": protected, "a pruned object": pruning} {
		for _, b := range observe.FindBlockers(n).Blockers {
			for _, advice := range b.Advice {
				if strings.Contains(advice, "force-delete") {
					t.Errorf("%s: %s", name, advice)
				}
			}
		}
	}
}

// A configuration is deleted after the managed resources that use it.
func TestAdviceForAConfigurationInUse(t *testing.T) {
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	n := observe.Node{APIVersion: "postgresql.espalier.dev/v1alpha1", Kind: "ClusterProviderConfig", Name: "default", Exists: true, Deleted: &at, Finalizers: []string{"in-use.crossplane.io"}}
	want := []string{"delete the managed resources that use it, or have them refer to another configuration; see them: kubectl describe clusterproviderconfig.postgresql.espalier.dev default"}
	if diff := cmp.Diff(want, observe.FindBlockers(n).Blockers[0].Advice); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The provider of a managed resource waits for the finalizers of other controllers.
func TestAdviceForAManagedResource(t *testing.T) {
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	subnet := report.Object{APIVersion: "ec2.example.org/v1", Kind: "Subnet", Name: "a"}
	provider := report.Finalizer{Name: report.ExternalFinalizer, Managers: []string{"espalier"}}
	foreign := report.Finalizer{Name: "example.com/hold", Managers: []string{"kubectl-patch"}}
	const force = "to finish the deletion without it and leave it and the external resource behind: kubectl annotate vpc.a main -n prod espalier.dev/force-delete=subnet"
	cases := map[string]struct {
		blocked report.BlockedObject
		want    []string
	}{
		"The manager of another finalizer must remove it": {
			report.BlockedObject{Reason: report.HeldByFinalizer, Finalizers: []report.Finalizer{provider, foreign}},
			[]string{"kubectl-patch set finalizer example.com/hold and must remove it; the provider waits for that", force},
		},
		"Espalier's controllers must remove their own": {
			report.BlockedObject{Reason: report.HeldByFinalizer, Finalizers: []report.Finalizer{{Name: "usage.apiextensions.crossplane.io", Managers: []string{"espalier.dev/usage"}}}},
			[]string{"Espalier's controllers set finalizer usage.apiextensions.crossplane.io and must remove it; 'espalier doctor' reports whether they run and which permissions they lack", strings.Replace(force, "it and the external resource", "it", 1)},
		},
		"The provider alone must delete the external resource": {
			report.BlockedObject{Reason: report.ExternalDeletion},
			[]string{"the provider must delete the external resource; see its status: espalier tree subnet.ec2.example.org a", force},
		},
		"The managed resource is paused by its annotation": {
			report.BlockedObject{Reason: report.ExternalDeletion, Message: "the external resource still exists: ReconcilePaused: paused by the annotation crossplane.io/paused; nothing is observed or changed"},
			[]string{"to resume it: kubectl annotate subnet.ec2.example.org a crossplane.io/paused-", force},
		},
		"The managed resource is paused by its policies": {
			report.BlockedObject{Reason: report.ExternalDeletion, Message: "the external resource still exists: ReconcilePaused: paused by an empty spec.managementPolicies; nothing is observed or changed"},
			[]string{"to resume it, set spec.managementPolicies: to [\"*\"], or to others without Delete if the external resource is to stay: kubectl edit subnet.ec2.example.org a", force},
		},
		"The provider has reported that it deletes": {
			report.BlockedObject{Reason: report.ExternalDeletion, InProgress: true, Message: "the external resource still exists: Deleting"},
			[]string{"nothing to do: the provider is deleting the external resource and reports no problem", force},
		},
		"The provider has reported nothing, as if it were stopped": {
			report.BlockedObject{Reason: report.ExternalDeletion, InProgress: true, Message: "the external resource still exists"},
			[]string{"wait: the provider has not reported the deletion yet; if that lasts, see whether the provider runs: espalier doctor", force},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.blocked.Object, tc.blocked.Since = subnet, report.At(at)
			n := observe.Node{APIVersion: "a/v1", Kind: "Vpc", Namespace: "prod", Name: "main", Exists: true, Instance: true, Deleted: &at}
			n.Deletion = &report.Deletion{StartedAt: report.At(at), Blocked: 1, Blockers: []report.Blocker{{Node: "subnet", BlockedObject: tc.blocked}}}
			if diff := cmp.Diff(tc.want, observe.FindBlockers(n).Blockers[0].Advice); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What the API server rejects is corrected in the source of the instance, or in the instance.
func TestAdviceForWhatIsRejected(t *testing.T) {
	const instance = "if what the instance sets is wrong: kubectl edit shop.a main -n prod"
	cases := map[string]struct {
		labels, spec string
		want         []string
	}{
		"An instance of a definition":    {"kro.run/resource-graph-definition-name: shop", "", []string{"if the definition is wrong: kubectl edit resourcegraphdefinition.kro.run shop", instance}},
		"An instance of a ResourceGroup": {"kro.run/resource-graph-definition-name: shop, kro.run/resource-graph-definition-namespace: team", "", []string{"if the definition is wrong: kubectl edit resourcegroup.kro.run shop -n team", instance}},
		"A composite":                    {"", "crossplane: {compositionRef: {name: shops}}", []string{"if the composition is wrong: kubectl edit composition.apiextensions.crossplane.io shops", instance}},
		"A composite of version 1":       {"", "compositionRef: {name: shops}", []string{"if the composition is wrong: kubectl edit composition.apiextensions.crossplane.io shops", instance}},
		"An instance without either":     {"", "", []string{"correct the instance or its definition: kubectl edit shop.a main -n prod"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := state(t, `{apiVersion: a/v1, kind: Shop, metadata: {name: main, namespace: prod, labels: {applyset.kubernetes.io/id: top, `+tc.labels+`}}, spec: {`+tc.spec+`},
status: {conditions: [{type: Ready, status: "False", reason: Rejected}], problems: [{node: web, reason: Rejected, message: "no ports", since: "2026-08-01T12:00:00Z"}]}}`)
			now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
			if diff := cmp.Diff(tc.want, observe.Explain(observe.Build(s, now), now).Advice); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
