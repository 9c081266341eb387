package status

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// The three layers of the example in small, above a kind of somebody else's.
const (
	low = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-vpc}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Vpc
    group: $GROUP
    spec: {cidr: 'string | default="10.0.0.0/16"'}
    status: {privateSubnet1ID: "${subnet.status.id}"}
  resources:
    - id: subnet
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: "${schema.metadata.name}"}, spec: {cidr: "${schema.spec.cidr}"}}
`
	middle = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-eks}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Eks
    group: $GROUP
    spec: {subnetID: string}
    status: {subnet: "${record.data.subnet}"}
  resources:
    - id: record
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-eks"}, data: {subnet: "${schema.spec.subnetID}"}}
`
	both = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-both}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Both
    group: $GROUP
    spec: {name: string}
    status: {subnet: "${eks.status.subnet}"}
  resources:
    - id: vpc
      template: {apiVersion: $GROUP/v1alpha1, kind: Vpc, metadata: {name: "${schema.spec.name}"}}
    - id: eks
$WAITFOR
      template: {apiVersion: $GROUP/v1alpha1, kind: Eks, metadata: {name: "${schema.spec.name}"}, spec: {subnetID: "${vpc.status.privateSubnet1ID}"}}
`
	bothInstance = `
apiVersion: $GROUP/v1alpha1
kind: Both
metadata: {name: x, namespace: $NS}
spec: {name: x}
`
)

// top is the top definition with what its second node waits for.
func top(waitFor string) string { return strings.ReplaceAll(both, "$WAITFOR", waitFor) }

func TestNestedStatusIsLiveInWhateverOrderThingsAreApplied(t *testing.T) {
	parts := map[string]string{"leaf": suite.SubnetKind, "vpc": low, "eks": middle, "both": top("")}
	for _, order := range permutations([]string{"leaf", "vpc", "eks", "both"}) {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			s := begin(t)
			for _, part := range order {
				s.Put(t, parts[part])
				if part == "both" {
					s.Put(t, bothInstance)
				}
			}
			s.SetSubnet(t, "subnet-1")
			s.Await(t, s.Kind("Both"), s.NS, "x", all(testkit.IsReady, field("subnet-1", "status", "subnet"), field("ACTIVE", "status", "state")))
		})
	}
}

func permutations(of []string) [][]string {
	if len(of) <= 1 {
		return [][]string{of}
	}
	var out [][]string
	for i, first := range of {
		rest := slices.Concat(of[:i:i], of[i+1:])
		for _, p := range permutations(rest) {
			out = append(out, append([]string{first}, p...))
		}
	}
	return out
}

func TestAValueThatComesLateIsWaitedForByName(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.SubnetKind+"---"+low+"---"+middle+"---"+top(""))
	s.Put(t, bothInstance)
	waiting := conditionIs("ResourcesReady", "False", "WaitingForField", "eks waits for unresolved vpc.status.privateSubnet1ID", "since ", "attempt")
	s.Await(t, s.Kind("Both"), s.NS, "x", all(waiting,
		conditionIs("Ready", "False", "WaitingForField", "eks waits for unresolved vpc.status.privateSubnet1ID"),
		conditionIs("GraphResolved", "True", "Resolved"), field("IN_PROGRESS", "status", "state")))
	if s.Get(t, s.Kind("Eks"), s.NS, "x") != nil {
		t.Error("the dependant was made before its input was known")
	}
	s.SetSubnet(t, "subnet-1")
	s.AwaitReady(t, s.Kind("Both"), s.NS, "x")

	t.Log("the value changes, and so does what was made of it")
	s.SetSubnet(t, "subnet-2")
	s.Await(t, s.Kind("Both"), s.NS, "x", all(testkit.IsReady, field("subnet-2", "status", "subnet")))

	t.Log("it goes: what was shown stays where its source does, and conditions tell")
	s.SetSubnet(t, "")
	s.Await(t, s.Kind("Both"), s.NS, "x", all(field("subnet-2", "status", "subnet")))
}

func TestAValueThatNeverComesIsReportedAndItsArrivalHeals(t *testing.T) {
	for name, limit := range map[string]string{"timeout": "timeout: 1s", "retries": "retries: 1"} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.Put(t, suite.SubnetKind+"---"+low+"---"+middle+"---"+top("      waitFor: {vpc: {fields: [{path: status.privateSubnet1ID, pattern: '^subnet-'}], "+limit+"}}"))
			s.Put(t, bothInstance)
			stalled := all(conditionIs("Stalled", "True", "WaitTimeout", "eks waits for vpc.status.privateSubnet1ID"),
				conditionIs("Ready", "False", "WaitTimeout"), field("ERROR", "status", "state"))
			s.Await(t, s.Kind("Both"), s.NS, "x", stalled)
			s.AwaitEvent(t, "x", "WaitTimeout", "eks waits for vpc.status.privateSubnet1ID")

			t.Log("a value of the wrong form doesn't count, and is shown")
			s.SetSubnet(t, "nonsense")
			s.Await(t, s.Kind("Both"), s.NS, "x", all(stalled, conditionIs("ResourcesReady", "False", "WaitTimeout", "nonsense does not match ^subnet-")))

			s.SetSubnet(t, "subnet-1")
			s.Await(t, s.Kind("Both"), s.NS, "x", all(testkit.IsReady, conditionIs("Stalled", "", "")))
			s.AwaitEvent(t, "x", "Ready")
		})
	}
}

func TestTheDeepestCauseShowsOnEveryAncestor(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.SubnetKind+"---"+strings.Replace(low, "    - id: subnet\n", "    - id: subnet\n      readyWhen: ['${subnet.status.id == \"good\"}']\n", 1)+"---"+middle+"---"+top(""))
	s.Put(t, bothInstance)
	s.Await(t, s.Kind("Both"), s.NS, "x", conditionIs("Ready", "False", "", `vpc is not ready: subnet is not ready: subnet.status.id == "good": waiting for subnet.status`))
	s.SetSubnet(t, "bad")
	s.Await(t, s.Kind("Both"), s.NS, "x", conditionIs("Ready", "False", "", `vpc is not ready: subnet is not ready: subnet.status.id == "good" is false`))
	s.SetSubnet(t, "good")
	s.AwaitReady(t, s.Kind("Both"), s.NS, "x")
}

func TestANestIsDeletedInReverseOrderAndCompletely(t *testing.T) {
	s := begin(t)
	s.Put(t, suite.SubnetKind+"---"+low+"---"+middle+"---"+top(""))
	s.Put(t, bothInstance)
	s.SetSubnet(t, "subnet-1")
	s.AwaitReady(t, s.Kind("Both"), s.NS, "x")
	s.Delete(t, s.Kind("Both"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Both"), s.NS, "x")
	for _, left := range []schema.GroupVersionKind{s.Kind("Eks"), s.Kind("Vpc"), s.Kind("Subnet"), configMap} {
		for _, name := range []string{"x", "x-eks"} {
			if o := s.Get(t, left, s.NS, name); o != nil {
				t.Errorf("%s %s is left over", left.Kind, name)
			}
		}
	}
}
