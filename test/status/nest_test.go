package status

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// The three layers of the example in small, above a foreign kind.
var (
	low = suite.Graph("Vpc", `spec: {cidr: 'string | default="10.0.0.0/16"'}, status: {privateSubnet1ID: "${subnet.status.id}"}`, `
    - id: subnet
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: "${schema.metadata.name}"}, spec: {cidr: "${schema.spec.cidr}"}}
`)
	middle = suite.Graph("Eks", `spec: {subnetID: string}, status: {subnet: "${record.data.subnet}"}`, `
    - id: record
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-eks"}, data: {subnet: "${schema.spec.subnetID}"}}
`)
	both = suite.Graph("Both", `spec: {name: string}, status: {subnet: "${eks.status.subnet}"}`, `
    - id: vpc
      template: {apiVersion: $GROUP/v1alpha1, kind: Vpc, metadata: {name: "${schema.spec.name}"}}
    - id: eks
$WAITFOR
      template: {apiVersion: $GROUP/v1alpha1, kind: Eks, metadata: {name: "${schema.spec.name}"}, spec: {subnetID: "${vpc.status.privateSubnet1ID}"}}
`)
)

const (
	bothInstance = `
apiVersion: $GROUP/v1alpha1
kind: Both
metadata: {name: x, namespace: $NS}
spec: {name: x}
`
)

// top is the top definition with what its second node waits for.
func top(waitFor string) string { return strings.ReplaceAll(both, "$WAITFOR", waitFor) }

func TestNestedStatusIsLiveInAnyOrderOfCreation(t *testing.T) {
	parts := map[string]string{"leaf": suite.SubnetCRD, "vpc": low, "eks": middle, "both": top("")}
	for _, order := range permutations([]string{"leaf", "vpc", "eks", "both"}) {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			s := suite.New(t)
			for _, part := range order {
				s.Apply(t, parts[part])
				if part == "both" {
					s.Apply(t, bothInstance)
				}
			}
			s.SetSubnet(t, "subnet-1")
			s.Await(t, s.Kind("Both"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("subnet-1", "status", "subnet"), suite.HasField("ACTIVE", "status", "state")))
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

func TestAWaitNamesTheMissingValue(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.SubnetCRD+"---"+low+"---"+middle+"---"+top(""))
	s.Apply(t, bothInstance)
	waiting := suite.HasCondition("ResourcesReady", "False", "WaitingForField", "eks waits for unresolved vpc.status.privateSubnet1ID", "since ", "attempt")
	s.Await(t, s.Kind("Both"), s.NS, "x", suite.All(waiting,
		suite.HasCondition("Ready", "False", "WaitingForField", "eks waits for unresolved vpc.status.privateSubnet1ID"),
		suite.HasCondition("GraphResolved", "True", "Resolved"), suite.HasField("IN_PROGRESS", "status", "state")))
	if s.Get(t, s.Kind("Eks"), s.NS, "x") != nil {
		t.Error("the dependant was made before its input was known")
	}
	s.SetSubnet(t, "subnet-1")
	s.AwaitReady(t, s.Kind("Both"), s.NS, "x")

	t.Log("the value changes, and objects that use it are updated")
	s.SetSubnet(t, "subnet-2")
	s.Await(t, s.Kind("Both"), s.NS, "x", suite.All(testkit.IsReady, suite.HasField("subnet-2", "status", "subnet")))

	t.Log("the value is removed: the status keeps the last value")
	s.SetSubnet(t, "")
	s.Await(t, s.Kind("Both"), s.NS, "x", suite.All(suite.HasField("subnet-2", "status", "subnet")))
}

func TestAMissingValueIsReportedUntilItArrives(t *testing.T) {
	for name, limit := range map[string]string{"timeout": "timeout: 1s", "retries": "retries: 1"} {
		t.Run(name, func(t *testing.T) {
			s := suite.New(t)
			s.Apply(t, suite.SubnetCRD+"---"+low+"---"+middle+"---"+top("      waitFor: {vpc: {fields: [{path: status.privateSubnet1ID, pattern: '^subnet-'}], "+limit+"}}"))
			s.Apply(t, bothInstance)
			stalled := suite.All(suite.HasCondition("Stalled", "True", "WaitTimeout", "eks waits for vpc.status.privateSubnet1ID"),
				suite.HasCondition("Ready", "False", "WaitTimeout"), suite.HasField("ERROR", "status", "state"))
			s.Await(t, s.Kind("Both"), s.NS, "x", stalled)
			s.AwaitEvent(t, "x", "WaitTimeout", "eks waits for vpc.status.privateSubnet1ID")

			t.Log("a value of the wrong form does not count, and is shown")
			s.SetSubnet(t, "nonsense")
			s.Await(t, s.Kind("Both"), s.NS, "x", suite.All(stalled, suite.HasCondition("ResourcesReady", "False", "WaitTimeout", "nonsense does not match ^subnet-")))

			s.SetSubnet(t, "subnet-1")
			s.Await(t, s.Kind("Both"), s.NS, "x", suite.All(testkit.IsReady, suite.HasCondition("Stalled", "", "")))
			s.AwaitEvent(t, "x", "Ready")
		})
	}
}

func TestTheDeepestCauseShowsOnEveryAncestor(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.SubnetCRD+"---"+strings.Replace(low, "    - id: subnet\n", "    - id: subnet\n      readyWhen: ['${subnet.status.id == \"good\"}']\n", 1)+"---"+middle+"---"+top(""))
	s.Apply(t, bothInstance)
	s.Await(t, s.Kind("Both"), s.NS, "x", suite.HasCondition("Ready", "False", "", `vpc is not ready: subnet is not ready: subnet.status.id == "good": waiting for subnet.status`))
	s.SetSubnet(t, "bad")
	s.Await(t, s.Kind("Both"), s.NS, "x", suite.HasCondition("Ready", "False", "", `vpc is not ready: subnet is not ready: subnet.status.id == "good" is false`))
	s.SetSubnet(t, "good")
	s.AwaitReady(t, s.Kind("Both"), s.NS, "x")
}

func TestANestIsDeletedInReverseOrderAndCompletely(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.SubnetCRD+"---"+low+"---"+middle+"---"+top(""))
	s.Apply(t, bothInstance)
	s.SetSubnet(t, "subnet-1")
	s.AwaitReady(t, s.Kind("Both"), s.NS, "x")
	s.Delete(t, s.Kind("Both"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Both"), s.NS, "x")
	for _, left := range []schema.GroupVersionKind{s.Kind("Eks"), s.Kind("Vpc"), s.Kind("Subnet"), suite.ConfigMap} {
		for _, name := range []string{"x", "x-eks"} {
			if o := s.Get(t, left, s.NS, name); o != nil {
				t.Errorf("%s %s is left over", left.Kind, name)
			}
		}
	}
}
