package observe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/observe"
)

// TestAdviceFollowsFromTheReason: "see its events" is the advice only where neither a reason nor a message has a better one.
func TestAdviceFollowsFromTheReason(t *testing.T) {
	managed := func(reason, message string) string {
		return `apiVersion: ec2.aws.espalier.dev/v1alpha1
kind: Subnet
metadata: {name: a, namespace: prod, generation: 1}
status:
  observedGeneration: 1
  conditions:
  - {type: Synced, status: "False", reason: ` + reason + `, message: ` + quoted(message) + `, observedGeneration: 1}
  - {type: Ready, status: "False", reason: Creating, observedGeneration: 1}
`
	}
	composite := func(message string) string {
		return `apiVersion: example.org/v1
kind: Store
metadata: {name: shop, namespace: prod, generation: 1, labels: {applyset.kubernetes.io/id: top}}
spec: {crossplane: {compositionRef: {name: stores}}}
status:
  conditions:
  - {type: Synced, status: "False", reason: ReconcileError, message: ` + quoted("cannot compose resources: "+message) + `, observedGeneration: 1}
  - {type: Ready, status: "False", reason: Creating, observedGeneration: 1}
`
	}
	definition := func(apiVersion, kind, reason, message string) string {
		return `apiVersion: ` + apiVersion + `
kind: ` + kind + `
metadata: {name: web, uid: u, generation: 1}
status:
  conditions:
  - {type: KindReady, status: "False", reason: ` + reason + `, message: ` + quoted(message) + `, observedGeneration: 1}
  - {type: Ready, status: "False", reason: ` + reason + `, message: ` + quoted(message) + `, observedGeneration: 1}
`
	}
	const help = "no package manager runs its package x/fn:v1. Serve it as a program (--function fn=./program) or let a package manager run it"
	cases := map[string]struct{ object, want string }{
		"not allowed":                            {managed("NotAllowed", "spec.allowedTypes of ProviderConfig a lacks it. Refer to another configuration"), "do what the message says, here or in the object that it names: kubectl edit subnet.ec2.aws.espalier.dev a -n prod"},
		"a name that another object has":         {managed("NameReserved", "subnet a belongs to Subnet prod/b"), "give one of the two objects another external name"},
		"a name without an owner":                {managed("NameReserved", "it is unknown whether it still exists. Check that, then delete the Binding"), "then delete the Binding: kubectl get bindings"},
		"a name that is being deleted":           {managed("NameDeleting", "it is being deleted for Subnet prod/b"), "wait: it is created once the name is free"},
		"a conflict":                             {managed("Conflict", "it exists already. To adopt it, set the annotation a to b"), "do what the message says: kubectl edit"},
		"an unresolved creation":                 {managed("CreateUnresolved", "if there is none, run: kubectl annotate x"), "do what the message says: kubectl edit"},
		"a missing reference":                    {managed("ReconcileError", "spec.forProvider.vpcId: VPC prod/main does not exist"), "create VPC prod/main, or let spec.forProvider.vpcId refer to another one: kubectl edit subnet"},
		"a reference without an identity":        {managed("ReconcileError", "spec.forProvider.vpcId: VPC prod/main has no identity yet"), "see why it has none: espalier why vpc main -n prod"},
		"a refused connection":                   {managed("ReconcileError", "observe: dial tcp 127.0.0.1:5432: connect: connection refused"), "have the endpoint answer, or correct the address"},
		"another error":                          {managed("ReconcileError", "AccessDenied"), "see its events: kubectl describe subnet"},
		"a function that no runtime runs":        {`{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: fn, generation: 1}, status: {conditions: [{type: Ready, status: "False", reason: NoPackageRuntime, message: ` + quoted(help) + `, observedGeneration: 1}]}}`, "serve it in one of the ways that the message names"},
		"a pipeline with such a function":        {composite(`step "a" (function fn): the function cannot be called: ` + help), "serve the function in one of the ways that the message names"},
		"a pipeline with an unknown function":    {composite(`step "a" (function fn): there is no function "fn": create the Function fn, or serve it with --function fn=./program`), "serve the function in one of the ways"},
		"a pipeline with one that is down":       {composite(`step "a" (function fn): the call failed: Unavailable: connection refused`), "see what serves the function, and whether it runs: kubectl describe function.pkg.crossplane.io fn"},
		"a pipeline with a fatal result":         {composite(`step "a" (function fn): the function failed: no region`), "if the composition is wrong: kubectl edit composition"},
		"a kind that the API server refuses":     {definition("kro.run/v1alpha1", "ResourceGraphDefinition", "Failed", "CustomResourceDefinition is invalid: x"), "correct the definition; the API server refuses its kind: kubectl edit resourcegraphdefinition.kro.run web"},
		"a kind of another owner":                {definition("apiextensions.crossplane.io/v2", "CompositeResourceDefinition", "KindNotOwned", "the kind belongs to somebody"), "give the definition another kind"},
		"a workload that no controller has seen": {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: prod, generation: 1}, spec: {replicas: 1}, status: {}}", "the cluster has no controller for Deployments: that of 'espalier up' has none"},
		"a Job that no controller has seen":      {"{apiVersion: batch/v1, kind: Job, metadata: {name: web, namespace: prod, generation: 1}, status: {}}", "the cluster has no controller for Jobs"},
		"a Pod that no scheduler has seen":       {"{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: prod}, status: {phase: Pending}}", "the cluster has no controller for Pods"},
		"a Deployment that is seen":              {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: prod, generation: 1}, spec: {replicas: 1}, status: {observedGeneration: 1}}", "see its events"},
		"a definition without the permissions":   {definition("kro.run/v1alpha1", "ResourceGraphDefinition", "Forbidden", "cannot read instances"), "grant the missing permission"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
			e := observe.Explain(observe.Build(state(t, tc.object), now), now)
			if len(e.Advice) == 0 || !strings.Contains(e.Advice[0], tc.want) {
				t.Errorf("%s\n%q", e.Cause, e.Advice)
			}
		})
	}
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
